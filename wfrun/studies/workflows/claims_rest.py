"""Claims of thesis section 6.3 on task throttling (6.3.1), on several workflows (6.3.2), and of the
discussion (6.3.3).

The docstring of a test quotes the words of the text that decide what is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wfrun.studies.common.claim import (
    SIMILAR,
    Claims,
    Finding,
    both,
    listed,
    ranked,
    spread,
    without,
)
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    Sample,
    all_less,
    all_more,
    all_of,
    any_of,
    less,
    lower_half,
    mean_of,
    most_of,
    similar,
)
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.claims_single import samples_of
from wfrun.studies.workflows.paper import (
    ALL,
    CLUSTER_MIN,
    COARSENING,
    FILE_AWARE,
    HEFT,
    HEFT_P,
    LARGE,
    ROUND_ROBIN,
    SINGLE,
)
from wfrun.studies.workflows.samples import Samples

CLAIMS = Claims[Samples]()
DYNAMIC = (FILE_AWARE, CLUSTER_MIN)
MEASURES = ("makespan_s", "nsl")


def percent(changes: Iterable[Sample]) -> str:
    """The means of the changes as text in ascending order, such as ``-15%/+16%``."""
    return "/".join(f"{mean:+.0f}%" for mean in sorted(change.mean for change in changes))


def _limits(s: Samples, workload: str, measure: str, *, loaded: bool) -> list[Sample]:
    """The changes of a measure with each limit in percent, for both policies in `DYNAMIC`."""
    return [c for p in DYNAMIC for c in s.changes(workload, p, measure, loaded=loaded)]


def _best(s: Samples, workload: str, measure: str, *, loaded: bool) -> Sample:
    """The change with the smallest mean, over both policies in `DYNAMIC` and all limits."""
    return min(_limits(s, workload, measure, loaded=loaded), key=lambda change: change.mean)


_WHERE = "6.3.1, throttling"


@CLAIMS.add(_WHERE, "wf-large1, idle system: some limit improves makespan and NSL")
def _wf_large_1_idle(s: Samples) -> Finding:
    """*The makespan (NSL) performance can be improved by 15% (20%)*: in Table 6.4 the makespan by a
    limit of File-Aware, the NSL by one of Cluster Minimization."""
    statement = all_of(
        any_of(less(change, 0.0) for change in _limits(s, "wf-large1", m, loaded=False))
        for m in MEASURES
    )
    best = [_best(s, "wf-large1", m, loaded=False) for m in MEASURES]
    numbers = "/".join(percent([change]) for change in best)
    return statement, f"best change of makespan and NSL {numbers} (thesis -15%/-20%)"


@CLAIMS.add(_WHERE, "wf-large1, loaded: the improvement is larger than in an idle system")
def _wf_large_1_loaded(s: Samples) -> Finding:
    idle = [_best(s, "wf-large1", m, loaded=False) for m in MEASURES]
    loaded = [_best(s, "wf-large1", m, loaded=True) for m in MEASURES]
    pairs = zip(idle, loaded, strict=True)
    statement = all_of(s for one, two in pairs for s in (less(two, one), less(two, 0.0)))
    numbers = ["/".join(percent([change]) for change in best) for best in (loaded, idle)]
    return statement, f"loaded {numbers[0]}, idle {numbers[1]} (thesis -50%/-40%)"


@CLAIMS.add(_WHERE, "wf-large2: every limit worsens makespan and NSL, idle or loaded")
def _wf_large_2_every(s: Samples) -> Finding:
    found = {
        f"{p} {'loaded' if loaded else 'idle'}": [
            change for m in MEASURES for change in s.changes("wf-large2", p, m, loaded=loaded)
        ]
        for p in DYNAMIC
        for loaded in (False, True)
    }
    least = {name: min(change.mean for change in changes) for name, changes in found.items()}
    statement = all_of(less(0.0, change) for changes in found.values() for change in changes)
    return statement, "smallest change in %: " + listed(least)


@CLAIMS.add(_WHERE, "wf-large2: throttling costs less in a loaded system than in an idle one")
def _wf_large_2_throttling(s: Samples) -> Finding:
    """*The performance degradation is smaller when background load is imposed*: tested on the mean
    over the limits."""

    def one(policy: str, measure: str) -> Finding:
        idle = s.changes("wf-large2", policy, measure, loaded=False)
        loaded = s.changes("wf-large2", policy, measure, loaded=True)
        statement = less(mean_of(loaded), mean_of(idle))
        return statement, f"loaded {percent(loaded)}, idle {percent(idle)}"

    return both((f"{p} {m.removesuffix('_s')}", one(p, m)) for p in DYNAMIC for m in MEASURES)


# Several workflows


def _named(s: Samples, size: int, instances: int, measure: str) -> dict[str, Sample]:
    return {
        variant_name(i): s.multi(size, instances, i, measure)
        for i in range(len(paper.MULTI_VARIANTS))
    }


def variant_name(variant: int) -> str:
    """The name of the variant with this index in paper.MULTI_VARIANTS."""
    policy, throttled = paper.MULTI_VARIANTS[variant]
    return f"{policy} throttled" if throttled else policy


FILE_AWARE_T, CLUSTER_MIN_T = variant_name(2), variant_name(4)
_THROTTLED = ((FILE_AWARE, FILE_AWARE_T), (CLUSTER_MIN, CLUSTER_MIN_T))
_SMALL = ((100, 5), (100, 50))
_ALL_MULTI = (*_SMALL, (1000, 5))
_WHERE = "6.3.2"


def _each(experiments: tuple[tuple[int, int], ...], findings: list[Finding]) -> Finding:
    names = [f"{instances} x CS-{size}" for size, instances in experiments]
    return both(zip(names, findings, strict=True))


def _small(s: Samples, test: Callable[[dict[str, Sample]], Finding]) -> Finding:
    """The finding of ``test`` on 5 and 50 CyberShake-100, for both total makespan and NSL: for
    CyberShake-100 the text names both metrics of Figure 6.6, for CyberShake-1000 only one of
    them."""
    return both(
        (f"{instances} x CS-{size}, {name}", test(_named(s, size, instances, measure)))
        for size, instances in _SMALL
        for name, measure in (("total makespan", "makespan_s"), ("NSL", "nsl"))
    )


@CLAIMS.add(
    _WHERE, "CyberShake-100: HEFT outperforms the other policies, in total makespan and NSL"
)
def _cybershake_100_heft_outperforms(s: Samples) -> Finding:
    return _small(s, lambda values: (all_less(values, [HEFT]), listed(values)))


@CLAIMS.add(_WHERE, "CyberShake-100: Single Cluster and throttled File-Aware are similar, in total "
            "makespan and NSL")  # fmt: skip
def _cybershake_100_single_cluster(s: Samples) -> Finding:
    def one(values: dict[str, Sample]) -> Finding:
        two = [values[SINGLE], values[FILE_AWARE_T]]
        return similar(two, SIMILAR), f"larger/smaller {number(spread(two))}"

    return _small(s, one)


@CLAIMS.add(_WHERE, "CyberShake-100: Single Cluster and throttled File-Aware outperform all others "
            "but HEFT, in total makespan and NSL")  # fmt: skip
def _cybershake_100_these_two(s: Samples) -> Finding:
    def one(values: dict[str, Sample]) -> Finding:
        others = without(values, HEFT)
        best = ", ".join(ranked(others)[:2])
        return all_less(others, [SINGLE, FILE_AWARE_T]), f"best two {best}"

    return _small(s, one)


@CLAIMS.add(_WHERE, "CyberShake-1000: both throttled policies have the best total makespans, also "
            "ahead of HEFT")  # fmt: skip
def _cybershake_1000_both_throttled(s: Samples) -> Finding:
    values = _named(s, 1000, 5, "makespan_s")
    return all_less(values, [FILE_AWARE_T, CLUSTER_MIN_T]), f"total makespan {listed(values)}"


@CLAIMS.add(_WHERE, "CyberShake-1000: File-Aware and Cluster Minimization without a throttle have "
            "the worst NSL")  # fmt: skip
def _cybershake_1000_file_aware(s: Samples) -> Finding:
    values = _named(s, 1000, 5, "nsl")
    return all_more(values, DYNAMIC), f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "CyberShake-1000: the NSL of the others is similar")
def _cybershake_1000_nsl_others(s: Samples) -> Finding:
    values = without(_named(s, 1000, 5, "nsl"), *DYNAMIC)
    return similar(values.values(), SIMILAR), f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "Single Cluster transfers nothing", always="by the definition of the policy")
def _single_cluster_transfers_nothing(s: Samples) -> Finding:
    values = [s.multi(size, n, 0, "nft") for size, n in _ALL_MULTI]
    nothing = all_of(less(value, 0.0, strict=False) for value in values)
    return nothing, f"NFT {', '.join(number(value.mean) for value in values)}"


@CLAIMS.add(_WHERE, "Throttling decreases the transfers between clusters (except of Cluster "
            "Minimization for 5 x CS-100, where Table 6.5 has 12 and 12.8)")  # fmt: skip
def _throttling_decreases_transfers_between(s: Samples) -> Finding:
    """*Task throttling decreases the amount of inter-cluster communication (see Table 6.5)*."""

    def one(size: int, instances: int) -> Finding:
        nft = _named(s, size, instances, "nft")
        pairs = _THROTTLED[:1] if (size, instances) == (100, 5) else _THROTTLED
        statement = all_of(less(nft[throttled], nft[free]) for free, throttled in pairs)
        return statement, f"NFT {listed(without(nft, SINGLE, HEFT))}"

    return _each(_ALL_MULTI, [one(*e) for e in _ALL_MULTI])


@CLAIMS.add(_WHERE, "Throttling improves File-Aware and Cluster Minimization")
def _throttling_improves_file_aware(s: Samples) -> Finding:
    """*Hence both the performance of the File-Aware and the Cluster Minimization policies
    improve*."""

    def one(size: int, instances: int) -> Finding:
        values = _named(s, size, instances, "makespan_s")
        statement = all_of(less(values[throttled], values[free]) for free, throttled in _THROTTLED)
        return statement, f"total makespan {listed(without(values, SINGLE, HEFT))}"

    return _each(_ALL_MULTI, [one(*e) for e in _ALL_MULTI])


# The discussion

_WHERE = "6.3.3"

MORE_INFORMATION = (
    *((ROUND_ROBIN, p) for p in (SINGLE, ALL, FILE_AWARE, CLUSTER_MIN, HEFT)),
    *((p, q) for p in (SINGLE, ALL) for q in (FILE_AWARE, CLUSTER_MIN, HEFT)),
    *((p, HEFT) for p in (FILE_AWARE, CLUSTER_MIN)),
)
"""Pairs of policies of which the second uses all the information of the first, and more (Table
6.1). File-Aware and Cluster Minimization are no pair, because they use different information.
Coarsening is absent, because it does not run on all workloads."""


def _over_all(s: Samples, policies: tuple[str, ...]) -> dict[str, Sample]:
    """Mean NSL over all workloads with background load, by policy."""
    tables = [samples_of(s, w, "nsl", loaded=True, policies=policies) for w in paper.WORKLOADS]
    return {p: mean_of(table[p] for table in tables) for p in policies}


@CLAIMS.add(_WHERE, "In general, a policy that uses more information is better: by NSL, in most of "
            "the 13 pairs of policies of which one knows more (Table 6.1)")  # fmt: skip
def _general_policy_uses_more(s: Samples) -> Finding:
    """*In general, increasing information usage … improves the performance*: tested on most pairs,
    not on every pair."""
    values = _over_all(s, (ROUND_ROBIN, SINGLE, ALL, FILE_AWARE, CLUSTER_MIN, HEFT))
    better = [less(values[more], values[fewer]) for fewer, more in MORE_INFORMATION]
    count = sum(values[more].mean < values[fewer].mean for fewer, more in MORE_INFORMATION)
    return most_of(better), f"{count} pairs; mean NSL, loaded: {listed(values)}"


@CLAIMS.add(_WHERE, "HEFT-P is a good alternative to HEFT: better than at least half of the others")
def _heft_p_good_alternative(s: Samples) -> Finding:
    """*A good alternative to be used provided that the application characteristics are known*:
    HEFT-P need not be the best after HEFT."""
    values = _over_all(s, (ROUND_ROBIN, SINGLE, ALL, FILE_AWARE, CLUSTER_MIN, HEFT_P))
    return lower_half(values, HEFT_P), f"mean NSL, loaded: {listed(values)}"


@CLAIMS.add(_WHERE, "Policies that consider communication (File-Aware, Coarsening) beat those that "
            "do not (Round Robin, All-Clusters)", main=True)  # fmt: skip
def _policies_consider_communication_file(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        four = (FILE_AWARE, COARSENING, ROUND_ROBIN, ALL)
        values = samples_of(s, workload, "makespan_s", loaded=True, policies=four)
        return all_less(values, four[:2]), f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "wf-large1: Coarsening and File-Aware with some throttle are good without all "
            "information: each better than at least half of Round Robin, Single Cluster, "
            "All-Clusters, File-Aware and Cluster Minimization", main=True)  # fmt: skip
def _wf_large_1_coarsening(s: Samples) -> Finding:
    """*Good alternatives that can be considered in the absence of complete task and resource
    information*: they need not be the two best."""
    rest = (ROUND_ROBIN, SINGLE, ALL, FILE_AWARE, CLUSTER_MIN)
    values = samples_of(s, "wf-large1", "makespan_s", loaded=True, policies=rest)
    coarsening = s.single("wf-large1", COARSENING, "makespan_s", loaded=True)
    throttled = [
        s.single("wf-large1", FILE_AWARE, "makespan_s", loaded=True, throttle=limit)
        for limit in paper.LIMITS
    ]
    statement = all_of((
        lower_half({**values, COARSENING: coarsening}, COARSENING),
        any_of(lower_half({**values, FILE_AWARE_T: limited}, FILE_AWARE_T)
               for limited in throttled),
    ))  # fmt: skip
    best = min(throttled, key=lambda limited: limited.mean)
    shown = {**values, COARSENING: coarsening, FILE_AWARE_T: best}
    return statement, f"makespan {listed(shown)}"


@CLAIMS.add(
    _WHERE,
    "Many tasks: balancing workflows over clusters (Single Cluster), and throttling, each improve "
    "on File-Aware and Cluster Minimization",
    main=True,
)
def _many_tasks_balancing_workflows(s: Samples) -> Finding:
    """*When many workflow applications are submitted together, balancing the workflows … or
    applying task throttling improves the performance, since both approaches prevent high
    inter-cluster network traffic … when many tasks are distributed*: balancing and throttling must
    both improve the makespan. 5 x CyberShake-100 is not tested, because it does not have many
    tasks."""

    def one(size: int, instances: int) -> Finding:
        values = _named(s, size, instances, "makespan_s")
        pairs = ((SINGLE, FILE_AWARE), (SINGLE, CLUSTER_MIN), *((t, p) for p, t in _THROTTLED))
        statement = all_of(less(values[better], values[plain]) for better, plain in pairs)
        return statement, f"total makespan {listed(without(values, HEFT))}"

    many = _ALL_MULTI[1:]
    return _each(many, [one(*e) for e in many])
