"""Claims of thesis section 6.3.1 on single workflows, without a throttle.

The docstring of a test quotes the words of the text that decide what is tested.
"""

from __future__ import annotations

from collections.abc import Iterable

from wfrun.studies.common.claim import (
    IDENTICAL,
    MUCH,
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
    combine,
    less,
    mean_of,
    similar,
    upper_half,
)
from wfrun.studies.workflows import paper
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
    SMALL,
)
from wfrun.studies.workflows.samples import Samples

CLAIMS = Claims[Samples]()


def samples_of(
    s: Samples, workload: str, measure: str, *, loaded: bool, policies: Iterable[str] = ()
) -> dict[str, Sample]:
    """A measure of single workflows by policy. ``policies`` are by default all those of Table
    6.3."""
    chosen = tuple(policies) or tuple(paper.TABLE_6_3[workload, loaded])
    return {p: s.single(workload, p, measure, loaded=loaded) for p in chosen}


# Small workflows, no background load

_WHERE = "6.3.1, small, idle system"


@CLAIMS.add(_WHERE, "Policies differ little in makespan")
def _policies_differ_little_makespan(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "makespan_s", loaded=False)
        ratio = number(spread(values.values()))
        return similar(values.values(), SIMILAR), f"largest/smallest {ratio}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "All policies but Round Robin run most tasks of a workflow in a single cluster")
def _policies_but_round_robin(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        shares = samples_of(s, workload, "main_share", loaded=False)
        rest = without(shares, ROUND_ROBIN).values()
        return all_of(less(0.5, share) for share in rest), listed(shares)

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(
    _WHERE, "Cluster Minimization is slightly better than the other policies that HEFT is not"
)
def _cluster_minimization_slightly_better(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "makespan_s", loaded=False)
        return all_less(without(values, HEFT), [CLUSTER_MIN]), f"makespan {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Cluster Minimization is almost identical to HEFT")
def _cluster_minimization_almost_identical(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        two = (CLUSTER_MIN, HEFT)
        values = samples_of(s, workload, "makespan_s", loaded=False, policies=two)
        return similar(values.values(), IDENTICAL), listed(values)

    return both((w, one(w)) for w in SMALL)


# Small workflows, background load

_WHERE = "6.3.1, small, loaded"


@CLAIMS.add(_WHERE, "Round Robin is much worse than all others")
def _round_robin_much_worse(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "makespan_s", loaded=True)
        rest = without(values, ROUND_ROBIN)
        ratio = values[ROUND_ROBIN].mean / max(value.mean for value in rest.values())
        statement = all_of(
            less(value, values[ROUND_ROBIN], times=1 / MUCH, strict=False)
            for value in rest.values()
        )
        return statement, f"{number(ratio)} times the next"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Round Robin has the largest queue waits, since it uses loaded clusters too")
def _round_robin_largest_queue(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "qwt_s", loaded=True)
        return all_more(values, [ROUND_ROBIN]), f"QWT {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Round Robin causes more transfers between clusters than the others")
def _round_robin_causes_more(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "nft", loaded=True)
        return all_more(values, [ROUND_ROBIN]), f"NFT {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "The other policies perform similarly")
def _other_policies_perform_similarly(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = without(samples_of(s, workload, "makespan_s", loaded=True), ROUND_ROBIN)
        return similar(values.values(), SIMILAR), f"makespan {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Cluster Minimization, HEFT and HEFT-P are slightly better than the rest")
def _cluster_minimization_heft_heft(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "makespan_s", loaded=True)
        best = ", ".join(ranked(values)[:3])
        return all_less(values, [CLUSTER_MIN, HEFT, HEFT_P]), f"best three {best}"

    return both((w, one(w)) for w in SMALL)


# Large workflows, no background load

_WHERE = "6.3.1, large, idle system"


@CLAIMS.add(_WHERE, "Policies differ considerably, more than for small workflows")
def _policies_differ_considerably_more(s: Samples) -> Finding:
    spreads = {
        workload: combine(
            lambda *values: max(values) / min(values),
            *samples_of(s, workload, "makespan_s", loaded=False).values(),
        )
        for workload in (*SMALL, *LARGE)
    }
    parts = [less(SIMILAR, spreads[workload]) for workload in LARGE]
    statement = all_of((*all_more(spreads, LARGE).statements, *parts))
    return statement, f"largest/smallest makespan: {listed(spreads)}"


@CLAIMS.add(
    _WHERE,
    "The order of the policies differs between the two workloads",
    always="two orders of seven policies hardly ever agree",
)
def _order_policies_differs_between(s: Samples) -> Finding:
    one, other = (samples_of(s, w, "makespan_s", loaded=False) for w in LARGE)
    reversed_pairs = any_of(
        all_of((less(one[a], one[b]), less(other[b], other[a]))) for a in one for b in one if a != b
    )
    return reversed_pairs, "; ".join(", ".join(ranked(values)) for values in (one, other))


@CLAIMS.add(_WHERE, "wf-large1: Round Robin and All-Clusters are the two worst")
def _wf_large_1_round(s: Samples) -> Finding:
    values = samples_of(s, "wf-large1", "makespan_s", loaded=False)
    return all_more(values, [ROUND_ROBIN, ALL]), f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large1: Single Cluster and Coarsening are the two best")
def _wf_large_1_single(s: Samples) -> Finding:
    values = samples_of(s, "wf-large1", "makespan_s", loaded=False)
    return all_less(values, [SINGLE, COARSENING]), f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large2: Single Cluster is the worst")
def _wf_large_2_single(s: Samples) -> Finding:
    values = samples_of(s, "wf-large2", "makespan_s", loaded=False)
    return all_more(values, [SINGLE]), f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large2: HEFT is the best")
def _wf_large_2_heft(s: Samples) -> Finding:
    values = samples_of(s, "wf-large2", "makespan_s", loaded=False)
    return all_less(values, [HEFT]), f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "Round Robin, All-Clusters and Cluster Minimization transfer many files")
def _round_robin_clusters_cluster(s: Samples) -> Finding:
    """*Perform many inter-cluster file transfers*: they need not have the most, but more than at
    least half of the other policies."""

    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "nft", loaded=False)
        many = (ROUND_ROBIN, ALL, CLUSTER_MIN)
        return all_of(upper_half(values, p) for p in many), f"NFT {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "Coarsening trades fewer transfers for longer queue waits, against File-Aware")
def _coarsening_trades_fewer_transfers(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        two = (FILE_AWARE, COARSENING)
        nft = samples_of(s, workload, "nft", loaded=False, policies=two)
        qwt = samples_of(s, workload, "qwt_s", loaded=False, policies=two)
        statement = all_of((
            less(nft[COARSENING], nft[FILE_AWARE]),
            less(qwt[FILE_AWARE], qwt[COARSENING]),
        ))  # fmt: skip
        return statement, f"NFT {listed(nft)}, QWT {listed(qwt)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "File-Aware transfers fewer files than Cluster Minimization")
def _file_aware_transfers_fewer(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        two = (FILE_AWARE, CLUSTER_MIN)
        values = samples_of(s, workload, "nft", loaded=False, policies=two)
        return all_less(values, [FILE_AWARE]), f"NFT {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "Faster processors pay off: Cluster Minimization beats File-Aware in makespan")
def _faster_processors_pay_off(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        two = (FILE_AWARE, CLUSTER_MIN)
        values = samples_of(s, workload, "makespan_s", loaded=False, policies=two)
        return all_less(values, [CLUSTER_MIN]), f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


# Large workflows, background load

_WHERE = "6.3.1, large, loaded"


@CLAIMS.add(
    _WHERE, "Background load increases makespans and NSL substantially, for the mean policy"
)
def _background_load_increases_makespans(s: Samples) -> Finding:
    def one(workload: str, measure: str) -> Finding:
        idle = samples_of(s, workload, measure, loaded=False)
        loaded = samples_of(s, workload, measure, loaded=True, policies=idle)
        before, after = mean_of(idle.values()), mean_of(loaded.values())
        growth = f"x {number(after.mean / before.mean)}"
        return less(before, after, times=1 / MUCH, strict=False), growth

    return both(
        (f"{w} {name}", one(w, measure))
        for w in LARGE
        for name, measure in (("makespan", "makespan_s"), ("NSL", "nsl"))
    )


@CLAIMS.add(_WHERE, "HEFT outperforms all other policies")
def _heft_outperforms_other_policies(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "makespan_s", loaded=True)
        return all_less(values, [HEFT]), f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "HEFT is worse when completion times are predicted (HEFT-P)")
def _heft_worse_when_completion(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "makespan_s", loaded=True, policies=(HEFT, HEFT_P))
        return all_less(values, [HEFT]), f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "wf-large2: File-Aware, Coarsening and Cluster Minimization are similar")
def _wf_large_2_file(s: Samples) -> Finding:
    three = (FILE_AWARE, COARSENING, CLUSTER_MIN)
    values = samples_of(s, "wf-large2", "makespan_s", loaded=True, policies=three)
    return similar(values.values(), SIMILAR), f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large1: Coarsening is much better than File-Aware and Cluster Minimization")
def _wf_large_1_coarsening(s: Samples) -> Finding:
    """*Coarsening is much better than the others*."""
    three = (FILE_AWARE, COARSENING, CLUSTER_MIN)
    values = samples_of(s, "wf-large1", "makespan_s", loaded=True, policies=three)
    statement = all_of(
        less(values[COARSENING], values[p], times=1 / MUCH, strict=False)
        for p in (FILE_AWARE, CLUSTER_MIN)
    )
    return statement, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "Round Robin and All-Clusters suffer from large queue waits")
def _round_robin_clusters_suffer(s: Samples) -> Finding:
    """*Suffer from … large queue wait times*: they need not have the largest, but larger ones than
    at least half of the other policies."""

    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "qwt_s", loaded=True)
        both_large = all_of(upper_half(values, p) for p in (ROUND_ROBIN, ALL))
        return both_large, f"QWT {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "Round Robin and All-Clusters suffer from transfers: more delay than "
            "File-Aware, Coarsening and HEFT")  # fmt: skip
def _round_robin_clusters_suffer_transfers(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = samples_of(s, workload, "ftd_s", loaded=True)
        rest = (FILE_AWARE, COARSENING, HEFT)
        return all_more(values, (ROUND_ROBIN, ALL), than=rest), f"FTD {listed(values)}"

    return both((w, one(w)) for w in LARGE)
