"""Claims of thesis section 6.3.1 on single workflows, without a throttle."""

from __future__ import annotations

from wfrun.runners.studies.claim import (
    IDENTICAL,
    LARGE,
    MUCH,
    SIMILAR,
    SMALL,
    Claims,
    Finding,
    both,
    listed,
    means,
    ranked,
    spread,
    without,
)
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

# Small workflows, no background load

_WHERE = "6.3.1, small, idle system"


@CLAIMS.add(_WHERE, "Policies differ little in makespan")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        ratio = spread(means(s, workload, "makespan_s", loaded=False).values())
        return ratio <= SIMILAR, f"largest/smallest {number(ratio)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "All policies but Round Robin run most tasks of a workflow in a single cluster")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        shares = means(s, workload, "main_share", loaded=False)
        return min(without(shares, ROUND_ROBIN).values()) > 0.5, listed(shares)

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(
    _WHERE, "Cluster Minimization is slightly better than the other policies that HEFT is not"
)
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "makespan_s", loaded=False)
        return ranked(without(values, HEFT))[0] == CLUSTER_MIN, f"makespan {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Cluster Minimization is almost identical to HEFT")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "makespan_s", loaded=False, policies=(CLUSTER_MIN, HEFT))
        return spread(values.values()) <= IDENTICAL, listed(values)

    return both((w, one(w)) for w in SMALL)


# Small workflows, background load

_WHERE = "6.3.1, small, loaded"


@CLAIMS.add(_WHERE, "Round Robin is much worse than all others")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "makespan_s", loaded=True)
        ratio = values[ROUND_ROBIN] / max(without(values, ROUND_ROBIN).values())
        return ratio >= MUCH, f"{number(ratio)} times the next"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Round Robin has the largest queue waits, since it uses loaded clusters too")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "qwt_s", loaded=True)
        return ranked(values)[-1] == ROUND_ROBIN, f"QWT {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Round Robin causes more transfers between clusters than the others")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "nft", loaded=True)
        return ranked(values)[-1] == ROUND_ROBIN, f"NFT {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "The other policies perform similarly")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = without(means(s, workload, "makespan_s", loaded=True), ROUND_ROBIN)
        return spread(values.values()) <= SIMILAR, f"makespan {listed(values)}"

    return both((w, one(w)) for w in SMALL)


@CLAIMS.add(_WHERE, "Cluster Minimization, HEFT and HEFT-P are slightly better than the rest")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        order = ranked(means(s, workload, "makespan_s", loaded=True))
        return set(order[:3]) == {CLUSTER_MIN, HEFT, HEFT_P}, f"best three {', '.join(order[:3])}"

    return both((w, one(w)) for w in SMALL)


# Large workflows, no background load

_WHERE = "6.3.1, large, idle system"


@CLAIMS.add(_WHERE, "Policies differ considerably, more than for small workflows")
def _(s: Samples) -> Finding:
    spreads = {
        workload: spread(means(s, workload, "makespan_s", loaded=False).values())
        for workload in (*SMALL, *LARGE)
    }
    least = min(spreads[w] for w in LARGE)
    return least > max(spreads[w] for w in SMALL), f"largest/smallest makespan: {listed(spreads)}"


@CLAIMS.add(_WHERE, "The order of the policies differs between the two workloads")
def _(s: Samples) -> Finding:
    orders = [ranked(means(s, w, "makespan_s", loaded=False)) for w in LARGE]
    return orders[0] != orders[1], "; ".join(", ".join(order) for order in orders)


@CLAIMS.add(_WHERE, "wf-large1: Round Robin and All-Clusters are the two worst")
def _(s: Samples) -> Finding:
    values = means(s, "wf-large1", "makespan_s", loaded=False)
    return set(ranked(values)[-2:]) == {ROUND_ROBIN, ALL}, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large1: Single Cluster and Coarsening are the two best")
def _(s: Samples) -> Finding:
    values = means(s, "wf-large1", "makespan_s", loaded=False)
    return set(ranked(values)[:2]) == {SINGLE, COARSENING}, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large2: Single Cluster is the worst")
def _(s: Samples) -> Finding:
    values = means(s, "wf-large2", "makespan_s", loaded=False)
    return ranked(values)[-1] == SINGLE, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large2: HEFT is the best")
def _(s: Samples) -> Finding:
    values = means(s, "wf-large2", "makespan_s", loaded=False)
    return ranked(values)[0] == HEFT, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "Round Robin, All-Clusters and Cluster Minimization transfer most files")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "nft", loaded=False)
        return set(ranked(values)[-3:]) == {ROUND_ROBIN, ALL, CLUSTER_MIN}, f"NFT {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "Coarsening trades fewer transfers for longer queue waits, against File-Aware")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        nft = means(s, workload, "nft", loaded=False, policies=(FILE_AWARE, COARSENING))
        qwt = means(s, workload, "qwt_s", loaded=False, policies=(FILE_AWARE, COARSENING))
        holds = nft[COARSENING] < nft[FILE_AWARE] and qwt[COARSENING] > qwt[FILE_AWARE]
        return holds, f"NFT {listed(nft)}, QWT {listed(qwt)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "File-Aware transfers fewer files than Cluster Minimization")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "nft", loaded=False, policies=(FILE_AWARE, CLUSTER_MIN))
        return values[FILE_AWARE] < values[CLUSTER_MIN], f"NFT {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "Faster processors pay off: Cluster Minimization beats File-Aware in makespan")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "makespan_s", loaded=False, policies=(FILE_AWARE, CLUSTER_MIN))
        return values[CLUSTER_MIN] < values[FILE_AWARE], f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


# Large workflows, background load

_WHERE = "6.3.1, large, loaded"


@CLAIMS.add(
    _WHERE, "Background load increases makespans and NSL substantially, for the mean policy"
)
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        ratios = {}
        for measure in ("makespan_s", "nsl"):
            idle = means(s, workload, measure, loaded=False)
            loaded = means(s, workload, measure, loaded=True, policies=idle)
            ratios[measure] = sum(loaded.values()) / sum(idle.values())
        growth = f"makespan x {number(ratios['makespan_s'])}, NSL x {number(ratios['nsl'])}"
        return min(ratios.values()) >= MUCH, growth

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "HEFT outperforms all other policies")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "makespan_s", loaded=True)
        return ranked(values)[0] == HEFT, f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "HEFT is worse when completion times are predicted (HEFT-P)")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "makespan_s", loaded=True, policies=(HEFT, HEFT_P))
        return values[HEFT_P] > values[HEFT], f"makespan {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "wf-large2: File-Aware, Coarsening and Cluster Minimization are similar")
def _(s: Samples) -> Finding:
    three = (FILE_AWARE, COARSENING, CLUSTER_MIN)
    values = means(s, "wf-large2", "makespan_s", loaded=True, policies=three)
    return spread(values.values()) <= SIMILAR, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "wf-large1: Coarsening is much better than File-Aware and Cluster Minimization")
def _(s: Samples) -> Finding:
    three = (FILE_AWARE, COARSENING, CLUSTER_MIN)
    values = means(s, "wf-large1", "makespan_s", loaded=True, policies=three)
    rest = min(values[FILE_AWARE], values[CLUSTER_MIN])
    return rest / values[COARSENING] >= SIMILAR, f"makespan {listed(values)}"


@CLAIMS.add(_WHERE, "Round Robin and All-Clusters suffer from the largest queue waits")
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "qwt_s", loaded=True)
        return set(ranked(values)[-2:]) == {ROUND_ROBIN, ALL}, f"QWT {listed(values)}"

    return both((w, one(w)) for w in LARGE)


@CLAIMS.add(_WHERE, "Round Robin and All-Clusters suffer from transfers: more delay than "
            "File-Aware, Coarsening and HEFT")  # fmt: skip
def _(s: Samples) -> Finding:
    def one(workload: str) -> Finding:
        values = means(s, workload, "ftd_s", loaded=True)
        rest = max(values[p] for p in (FILE_AWARE, COARSENING, HEFT))
        return min(values[ROUND_ROBIN], values[ALL]) > rest, f"FTD {listed(values)}"

    return both((w, one(w)) for w in LARGE)
