"""Claims of thesis section 6.3 on task throttling (6.3.1), on several workflows (6.3.2), and of the
discussion (6.3.3)."""

from __future__ import annotations

from wfrun.runners.studies.claim import (
    IDENTICAL,
    LARGE,
    SIMILAR,
    Claims,
    Finding,
    both,
    listed,
    means,
    ranked,
    spread,
    without,
)
from wfrun.runners.studies.workflows import paper
from wfrun.runners.studies.workflows.paper import (
    ALL,
    CLUSTER_MIN,
    COARSENING,
    FILE_AWARE,
    HEFT,
    HEFT_P,
    ROUND_ROBIN,
    SINGLE,
)
from wfrun.runners.studies.workflows.samples import Samples, number

CLAIMS = Claims[Samples]()
DYNAMIC = (FILE_AWARE, CLUSTER_MIN)
MEASURES = ("makespan_s", "nsl")


def changes(s: Samples, workload: str, policy: str, measure: str, *, loaded: bool) -> list[float]:
    """Percent by which each of paper.LIMITS changes a mean, in ascending order, best first."""
    without_s = s.single(workload, policy, measure, loaded=loaded).mean
    limited = (
        s.single(workload, policy, measure, loaded=loaded, throttle=limit).mean
        for limit in paper.LIMITS
    )
    return sorted(100 * (value / without_s - 1) for value in limited)


def _percent(values: list[float]) -> str:
    return "/".join(f"{value:+.0f}%" for value in values)


def _best(s: Samples, workload: str, measure: str, *, loaded: bool) -> float:
    """The best change over both policies and all limits."""
    return min(changes(s, workload, p, measure, loaded=loaded)[0] for p in DYNAMIC)


_WHERE = "6.3.1, throttling"


@CLAIMS.add(_WHERE, "wf-large1, idle system: some limit improves makespan and NSL")
def _(s: Samples) -> Finding:
    best = [_best(s, "wf-large1", m, loaded=False) for m in MEASURES]
    return max(best) < 0, f"best change of makespan and NSL {_percent(best)} (thesis -15%/-20%)"


@CLAIMS.add(_WHERE, "wf-large1, loaded: the improvement is larger than in an idle system")
def _(s: Samples) -> Finding:
    idle = [_best(s, "wf-large1", m, loaded=False) for m in MEASURES]
    loaded = [_best(s, "wf-large1", m, loaded=True) for m in MEASURES]
    holds = all(two < min(one, 0) for one, two in zip(idle, loaded, strict=True))
    return holds, f"loaded {_percent(loaded)}, idle {_percent(idle)} (thesis -50%/-40%)"


@CLAIMS.add(_WHERE, "wf-large2: every limit worsens makespan and NSL, idle or loaded")
def _(s: Samples) -> Finding:
    least = {
        f"{p} {'loaded' if loaded else 'idle'}": min(
            changes(s, "wf-large2", p, m, loaded=loaded)[0] for m in MEASURES
        )
        for p in DYNAMIC
        for loaded in (False, True)
    }
    return min(least.values()) > 0, "smallest change in %: " + listed(least)


@CLAIMS.add(_WHERE, "wf-large2: throttling costs less in a loaded system than in an idle one")
def _(s: Samples) -> Finding:
    def one(policy: str) -> Finding:
        idle = changes(s, "wf-large2", policy, "makespan_s", loaded=False)
        loaded = changes(s, "wf-large2", policy, "makespan_s", loaded=True)
        return loaded[-1] < idle[-1], f"makespan loaded {_percent(loaded)}, idle {_percent(idle)}"

    return both((p, one(p)) for p in DYNAMIC)


# Several workflows


def _named(s: Samples, size: int, instances: int, measure: str) -> dict[str, float]:
    return {
        variant_name(i): s.multi(size, instances, i, measure).mean
        for i in range(len(paper.MULTI_VARIANTS))
    }


def variant_name(variant: int) -> str:
    """The index of a variant in paper.MULTI_VARIANTS."""
    policy, throttled = paper.MULTI_VARIANTS[variant]
    return f"{policy} throttled" if throttled else policy


FILE_AWARE_T, CLUSTER_MIN_T = variant_name(2), variant_name(4)
_SMALL = ((100, 5), (100, 50))
_ALL_MULTI = (*_SMALL, (1000, 5))
_WHERE = "6.3.2"


def _each(experiments: tuple[tuple[int, int], ...], findings: list[Finding]) -> Finding:
    names = [f"{instances} x CS-{size}" for size, instances in experiments]
    return both(zip(names, findings, strict=True))


@CLAIMS.add(_WHERE, "CyberShake-100: HEFT outperforms the other policies")
def _(s: Samples) -> Finding:
    def one(size: int, instances: int) -> Finding:
        values = _named(s, size, instances, "makespan_s")
        return ranked(values)[0] == HEFT, f"total makespan {listed(values)}"

    return _each(_SMALL, [one(*e) for e in _SMALL])


@CLAIMS.add(_WHERE, "CyberShake-100: Single Cluster and throttled File-Aware are similar")
def _(s: Samples) -> Finding:
    def one(size: int, instances: int) -> Finding:
        values = _named(s, size, instances, "makespan_s")
        ratio = spread((values[SINGLE], values[FILE_AWARE_T]))
        return ratio <= SIMILAR, f"larger/smaller {number(ratio)}"

    return _each(_SMALL, [one(*e) for e in _SMALL])


@CLAIMS.add(_WHERE, "CyberShake-100: these two outperform all others but HEFT")
def _(s: Samples) -> Finding:
    def one(size: int, instances: int) -> Finding:
        order = ranked(without(_named(s, size, instances, "makespan_s"), HEFT))
        return set(order[:2]) == {SINGLE, FILE_AWARE_T}, f"best two {', '.join(order[:2])}"

    return _each(_SMALL, [one(*e) for e in _SMALL])


@CLAIMS.add(_WHERE, "CyberShake-1000: both throttled policies have the best total makespans, also "
            "ahead of HEFT")  # fmt: skip
def _(s: Samples) -> Finding:
    values = _named(s, 1000, 5, "makespan_s")
    return set(ranked(values)[:2]) == {
        FILE_AWARE_T,
        CLUSTER_MIN_T,
    }, f"total makespan {listed(values)}"


@CLAIMS.add(_WHERE, "CyberShake-1000: File-Aware and Cluster Minimization without a throttle have "
            "the worst NSL")  # fmt: skip
def _(s: Samples) -> Finding:
    values = _named(s, 1000, 5, "nsl")
    return set(ranked(values)[-2:]) == set(DYNAMIC), f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "CyberShake-1000: the NSL of the others is similar")
def _(s: Samples) -> Finding:
    values = without(_named(s, 1000, 5, "nsl"), *DYNAMIC)
    return spread(values.values()) <= SIMILAR, f"NSL {listed(values)}"


@CLAIMS.add(_WHERE, "Single Cluster transfers nothing")
def _(s: Samples) -> Finding:
    values = [s.multi(size, n, 0, "nft").maximum for size, n in _ALL_MULTI]
    return not any(values), f"NFT {', '.join(map(number, values))}"


@CLAIMS.add(_WHERE, "Throttling decreases the transfers between clusters")
def _(s: Samples) -> Finding:
    def one(size: int, instances: int) -> Finding:
        nft = _named(s, size, instances, "nft")
        holds = all(
            nft[throttled] < nft[free] or nft[throttled] == nft[free] == 0
            for free, throttled in ((FILE_AWARE, FILE_AWARE_T), (CLUSTER_MIN, CLUSTER_MIN_T))
        )
        return holds, f"NFT {listed(without(nft, SINGLE, HEFT))}"

    return _each(_ALL_MULTI, [one(*e) for e in _ALL_MULTI])


@CLAIMS.add(_WHERE, "Throttling improves File-Aware and Cluster Minimization")
def _(s: Samples) -> Finding:
    def one(size: int, instances: int) -> Finding:
        values = _named(s, size, instances, "makespan_s")
        holds = (
            values[FILE_AWARE_T] < values[FILE_AWARE]
            and values[CLUSTER_MIN_T] < values[CLUSTER_MIN]
        )
        return holds, f"total makespan {listed(without(values, SINGLE, HEFT))}"

    return _each(_ALL_MULTI, [one(*e) for e in _ALL_MULTI])


# The discussion

_WHERE = "6.3.3"


def _over_all(s: Samples, policies: tuple[str, ...]) -> dict[str, float]:
    """Mean NSL over the workloads, with background load."""
    tables = [means(s, w, "nsl", loaded=True, policies=policies) for w in paper.WORKLOADS]
    return {p: sum(table[p] for table in tables) / len(tables) for p in policies}


@CLAIMS.add(_WHERE, "The more information a policy uses, the better: by NSL HEFT, then Cluster "
            "Minimization and File-Aware, then All-Clusters, then Round Robin")  # fmt: skip
def _(s: Samples) -> Finding:
    values = _over_all(s, (HEFT, CLUSTER_MIN, FILE_AWARE, ALL, ROUND_ROBIN))
    informed = max(values[CLUSTER_MIN], values[FILE_AWARE])
    holds = (
        values[HEFT] <= min(values[CLUSTER_MIN], values[FILE_AWARE])
        and informed <= values[ALL] <= values[ROUND_ROBIN]
    )
    return holds, f"mean NSL, loaded: {listed(values)}"


@CLAIMS.add(_WHERE, "HEFT-P is a good alternative: next after HEFT")
def _(s: Samples) -> Finding:
    values = _over_all(s, (ROUND_ROBIN, SINGLE, ALL, FILE_AWARE, CLUSTER_MIN, HEFT, HEFT_P))
    order = ranked(values)
    near = values[HEFT_P] <= IDENTICAL * values[order[1]]
    return order[0] == HEFT and near, f"mean NSL, loaded: {listed(values)}"


@CLAIMS.add(_WHERE, "Policies that consider communication (File-Aware, Coarsening) beat those that "
            "do not (Round Robin, All-Clusters)")  # fmt: skip
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        four = (FILE_AWARE, COARSENING, ROUND_ROBIN, ALL)
        values = means(s, workload, "makespan_s", loaded=True, policies=four)
        return set(ranked(values)[:2]) == {FILE_AWARE, COARSENING}, f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "wf-large1: Coarsening and throttled File-Aware are good without all "
            "information: better than Round Robin, All-Clusters, Cluster Minimization")  # fmt: skip
def _(s: Samples) -> Finding:
    four = (COARSENING, ROUND_ROBIN, ALL, CLUSTER_MIN)
    values = means(s, "wf-large1", "makespan_s", loaded=True, policies=four)
    values[FILE_AWARE_T] = min(
        s.single("wf-large1", FILE_AWARE, "makespan_s", loaded=True, throttle=limit).mean
        for limit in paper.LIMITS
    )
    return set(ranked(values)[:2]) == {COARSENING, FILE_AWARE_T}, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "Several workflows: balancing them over clusters, or throttling, beats "
            "File-Aware and Cluster Minimization as they are")  # fmt: skip
def _(s: Samples) -> Finding:
    def one(size: int, instances: int) -> Finding:
        values = _named(s, size, instances, "makespan_s")
        balanced = min(values[SINGLE], values[FILE_AWARE_T], values[CLUSTER_MIN_T])
        plain = min(values[FILE_AWARE], values[CLUSTER_MIN])
        return balanced < plain, f"best {number(balanced)}, without {number(plain)}"

    return _each(_ALL_MULTI, [one(*e) for e in _ALL_MULTI])
