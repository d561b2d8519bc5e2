"""The claims of thesis section 6.4 about the real DAS-3, and their tests.

A docstring has the words of the text that decide what is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from wfrun.studies.brokers import paper
from wfrun.studies.brokers.samples import BrokerSamples
from wfrun.studies.common.claim import (
    IDENTICAL,
    MUCH,
    SIMILAR,
    Claims,
    Finding,
    as_statement,
    both,
    listed,
    ranked,
    spread,
    without,
)
from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import (
    AtLeast,
    Sample,
    all_less,
    all_more,
    all_of,
    any_of,
    combine,
    less,
    most_of,
    near,
    similar,
    usually_less,
)
from wfrun.studies.workflows.paper import ALL, CLUSTER_MIN, SINGLE

CLAIMS = Claims[BrokerSamples]()
FREE_HEADS = "free-heads"
"""The change that tests the cause which the thesis gives for the queue waits of five
CyberShake-1000: load of the head nodes."""
SMALL = {"wf-small1": paper.CYBERSHAKE_30, "wf-small2": paper.INSPIRAL_100}
"""The small workflows by name. Inspiral-100 stands for Montage-100, whose numbers in the thesis are
those of Inspiral-100; see the page."""
LARGE = paper.CYBERSHAKE_1000


def usually_roughly(one: Sample, other: Sample, ratio: float) -> AtLeast:
    """The statement that ``one`` is ``ratio`` times ``other``, within a factor of SIMILAR either
    way, in most repetitions. Sign tests decide it, because waits have a minimum (the start of a
    job) and few repetitions have long waits."""
    return all_of(
        (
            usually_less(one, other, times=ratio * SIMILAR, strict=False),
            usually_less(other, one, times=SIMILAR / ratio, strict=False),
        )
    )


_SINGLE = "6.4.1"


@CLAIMS.add(_SINGLE, "small workflows: the policies have similar makespans")
def _small_workflows_policies_perform(s: BrokerSamples) -> Finding:
    def one(workflow: tuple[str, int]) -> Finding:
        values = s.policies(workflow, 1, "makespan_s")
        return similar(values.values(), SIMILAR), listed(values)

    return both((name, one(workflow)) for name, workflow in SMALL.items())


@CLAIMS.add(_SINGLE, "large workflow: Cluster Minimization is much better than the other policies")
def _large_workflow_cluster_minimization(s: BrokerSamples) -> Finding:
    """*Significantly outperforming the Single Cluster and All-Clusters policies*."""
    values = s.policies(LARGE, 1, "makespan_s")
    rest = without(values, CLUSTER_MIN)
    return all_of(less(values[CLUSTER_MIN], v, times=1 / MUCH) for v in rest.values()), listed(
        values
    )


@CLAIMS.add(_SINGLE, "large workflow: tasks wait longest in queues with Single Cluster")
def _large_workflow_tasks_wait(s: BrokerSamples) -> Finding:
    values = s.policies(LARGE, 1, "qwt_s")
    return all_more(values, [SINGLE]), listed(values)


_MULTI = "6.4.2, policies"


@CLAIMS.add(_MULTI, "5 x CyberShake-30: the policies have the same order as for one workflow")
def _5_x_cybershake_30(s: BrokerSamples) -> Finding:
    """*The relative performance order of the policies is the same as in the single workflow
    scheduling experiments, except for the Montage-100 workflow.*"""
    one = s.policies(paper.CYBERSHAKE_30, 1, "makespan_s")
    five = s.policies(paper.CYBERSHAKE_30, paper.INSTANCES, "makespan_s")
    order = ranked(one)
    statement = all_of(
        less(values[a], values[b]) for values in (one, five) for a, b in pairwise(order)
    )
    return statement, f"one: {listed(one)}; five: {listed(five)}"


@CLAIMS.add(_MULTI, "5 x Inspiral-100: Cluster Minimization is the worst")
def _5_x_inspiral_100(s: BrokerSamples) -> Finding:
    values = s.policies(paper.INSPIRAL_100, paper.INSTANCES, "makespan_s")
    return all_more(values, [CLUSTER_MIN]), listed(values)


@CLAIMS.add(_MULTI, "5 x Inspiral-100: tasks wait longest in queues with Cluster Minimization")
def _5_x_inspiral_100_tasks(s: BrokerSamples) -> Finding:
    """*Cluster Minimization does not balance the load well compared with the other policies, hence
    increasing the queue wait times.*"""
    values = s.policies(paper.INSPIRAL_100, paper.INSTANCES, "qwt_s")
    return all_more(values, [CLUSTER_MIN]), listed(values)


@CLAIMS.add(_MULTI, "5 x CyberShake-1000: Single Cluster is the best")
def _5_x_cybershake_1000(s: BrokerSamples) -> Finding:
    values = s.policies(LARGE, paper.INSTANCES, "makespan_s")
    return all_less(values, [SINGLE]), listed(values)


@CLAIMS.add(
    _MULTI,
    "5 x CyberShake-1000: Single Cluster transfers nothing between clusters",
    always="all tasks of a workflow are in one cluster",
)
def _5_x_cybershake_1000_single(s: BrokerSamples) -> Finding:
    value = s.table(LARGE, paper.INSTANCES, SINGLE, "nft")
    return value.mean == 0, listed({SINGLE: value})


@CLAIMS.add(_MULTI, "5 x CyberShake-1000: All-Clusters is the worst")
def _5_x_cybershake_1000_clusters(s: BrokerSamples) -> Finding:
    values = s.policies(LARGE, paper.INSTANCES, "makespan_s")
    return all_more(values, [ALL]), listed(values)


@CLAIMS.add(_MULTI, "5 x CyberShake-1000: All-Clusters causes the most transfers between clusters")
def _5_x_cybershake_1000_clusters_causes(s: BrokerSamples) -> Finding:
    """*The All-Clusters policy causes the number of inter-cluster file transfers to increase.*"""
    values = s.policies(LARGE, paper.INSTANCES, "nft")
    return all_more(values, [ALL]), listed(values)


@CLAIMS.add(_MULTI, "5 x CyberShake-1000: around 37% of the tasks wait in a queue for more than "
            "100 s with All-Clusters, and fewer with each other policy")  # fmt: skip
def _5_x_cybershake_1000_clusters_unlike(s: BrokerSamples) -> Finding:
    """*Unlike for the other policies, around 37% of the tasks experience queue wait times of more
    than 100 seconds.*"""
    values = s.policies(LARGE, paper.INSTANCES, "late_share")
    shares = {name: combine(lambda share: 100 * share, value) for name, value in values.items()}
    statement = all_of(
        (*all_more(values, [ALL]).statements, near(values[ALL], paper.LATE_SHARE, SIMILAR))
    )
    return statement, "% of tasks: " + listed(shares)


@CLAIMS.add(_MULTI, "5 x CyberShake-1000: the median queue wait of Single Cluster is roughly twice "
            "that of Cluster Minimization")  # fmt: skip
def _5_x_cybershake_1000_median(s: BrokerSamples) -> Finding:
    """*A significant difference in median performance: Cluster Minimization is roughly twice better
    than that of the Single Cluster policy*, in Figure 6.7."""
    values = s.policies(LARGE, paper.INSTANCES, "median_qwt_s")
    return usually_roughly(values[SINGLE], values[CLUSTER_MIN], 2.0), listed(values)


@CLAIMS.add(_MULTI, "5 x CyberShake-1000: the median queue wait of All-Clusters is roughly twice "
            "that of Single Cluster")  # fmt: skip
def _5_x_cybershake_1000_median_queue(s: BrokerSamples) -> Finding:
    values = s.policies(LARGE, paper.INSTANCES, "median_qwt_s")
    return usually_roughly(values[ALL], values[SINGLE], 2.0), listed(values)


@CLAIMS.add(_MULTI, "5 x CyberShake-1000: contention for head nodes increases the ratio of the "
            "largest to the smallest makespan of the policies")  # fmt: skip
def _5_x_cybershake_1000_contention(s: BrokerSamples) -> Finding:
    """*The performance difference between the policies is more significant in the real experiments
    than in the simulations. We attribute this to the resource contention*. Tested by the ratio of
    the largest to the smallest makespan, with costs of head nodes and without."""
    heads = s.policies(LARGE, paper.INSTANCES, "makespan_s")
    free = {p: s.changed(FREE_HEADS, p, "makespan_s") for p in paper.POLICIES}
    ratios = [combine(lambda *v: max(v) / min(v), *values.values()) for values in (free, heads)]
    statement = less(*ratios)
    return (
        statement,
        f"{spread(heads.values()):.2f} with head nodes, {spread(free.values()):.2f} without",
    )


_LIMIT = "6.4.2, throttling"


@CLAIMS.add("6.4.2, 6.6", "5 x CyberShake-1000 on three clusters: the head node is overloaded (a "
            "load of more than 100%)", main=True)  # fmt: skip
def _5_x_cybershake_1000_head(s: BrokerSamples) -> Finding:
    values = {p: s.throttled(p, None, "load") for p in paper.POLICIES}
    percents = {p: combine(lambda load: 100 * load, v) for p, v in values.items()}
    return all_of(less(1.0, v) for v in values.values()), "%: " + listed(percents)


def _most(s: BrokerSamples, test: Callable[[str], Finding]) -> Finding:
    """The finding that a claim holds for at least two of the three policies. The text does not name
    the throttled policy."""
    found = {policy: test(policy) for policy in paper.POLICIES}
    numbers = "; ".join(f"{policy}: {finding[1]}" for policy, finding in found.items())
    return most_of(as_statement(finding[0]) for finding in found.values()), numbers


@CLAIMS.add(_LIMIT, "the total makespan decreases with each increase of the limit, from 25 over 50 "
            "and 100 to 150")  # fmt: skip
def _total_makespan_decreases_limit(s: BrokerSamples) -> Finding:
    """*As the concurrency limit increases from 25 to 150, we observe a decrease in the total
    makespan*."""

    def one(policy: str) -> Finding:
        values = {str(limit): s.throttled(policy, limit, "makespan_s") for limit in paper.LIMITS}
        steps = pairwise(values.values())
        return all_of(less(after, before) for before, after in steps), listed(values)

    return _most(s, one)


@CLAIMS.add(_LIMIT, "the total makespan converges to that without a limit: with a limit of 150 it "
            "is similar", main=True)  # fmt: skip
def _converges_makespan_without_limit(s: BrokerSamples) -> Finding:
    def one(policy: str) -> Finding:
        values = _with_and_without(s, policy, 150, "makespan_s")
        return similar(values.values(), SIMILAR), listed(values)

    return _most(s, one)


@CLAIMS.add(_LIMIT, "a limit of 150 divides the load of the head node by 2 (1.6 to 2.5)",
            main=True)  # fmt: skip
def _limit_150_halves_load(s: BrokerSamples) -> Finding:
    """*A factor of 2 improvement*."""
    return _most(s, lambda policy: _improves(s, policy, 150))


@CLAIMS.add(_LIMIT, "a limit of 25 divides the load of the head node by 4 (3.2 to 5)", main=True)
def _limit_25_divides_four(s: BrokerSamples) -> Finding:
    """*A further substantial decrease, leading to a factor of 4 improvement*."""
    return _most(s, lambda policy: _improves(s, policy, 25))


def _improves(s: BrokerSamples, policy: str, limit: int) -> Finding:
    values = _with_and_without(s, policy, limit, "load")
    claimed = combine(lambda load: paper.LOAD_FACTORS[limit] * load, values[str(limit)])
    times = number(values["none"].mean / values[str(limit)].mean)
    return similar((claimed, values["none"]), SIMILAR), f"{listed(values)}, divided by {times}"


def _with_and_without(s: BrokerSamples, policy: str, limit: int, measure: str) -> dict[str, Sample]:
    return {
        str(limit): s.throttled(policy, limit, measure),
        "none": s.throttled(policy, None, measure),
    }


@CLAIMS.add(_LIMIT, "a limit of 25 makes the total makespan noticeably longer")
def _limit_25_makes_total(s: BrokerSamples) -> Finding:
    def one(policy: str) -> Finding:
        values = _with_and_without(s, policy, 25, "makespan_s")
        return less(values["none"], values["25"], times=1 / IDENTICAL), listed(values)

    return _most(s, one)


_REST = "6.4.3"


@CLAIMS.add(_REST, "one large workflow: Cluster Minimization, which minimizes the communication "
            "between clusters, has a smaller makespan than All-Clusters")  # fmt: skip
def _one_large_workflow_policy(s: BrokerSamples) -> Finding:
    """*The policies that minimize the inter-cluster communication have better performance than the
    policies that do not.* The claim leaves out Single Cluster, which has no such communication and
    the largest makespan of Table 6.6."""
    values = s.policies(LARGE, 1, "makespan_s")
    return less(values[CLUSTER_MIN], values[ALL]), listed(without(values, SINGLE))


@CLAIMS.add(_REST, "several workflows: Single Cluster is the best")
def _several_workflows_single_cluster(s: BrokerSamples) -> Finding:
    """*Selecting a single cluster per workflow for execution yields the best performance*: for each
    workflow of Table 6.7."""

    def one(workflow: tuple[str, int]) -> Finding:
        values = s.policies(workflow, paper.INSTANCES, "makespan_s")
        return all_less(values, [SINGLE]), listed(values)

    every = {**SMALL, "wf-large1": LARGE}
    return both((name, one(workflow)) for name, workflow in every.items())


@CLAIMS.add("6.6, 8.1", "throttling prevents the overload of the head node and preserves the "
            "performance: with one of the limits the load is at most 100% and the total makespan "
            "at most 25% longer than without a limit", main=True)  # fmt: skip
def _throttling_prevents_overload(s: BrokerSamples) -> Finding:
    """*Task throttling prevents the head-nodes from becoming overloaded while largely preserving
    performance*."""

    def one(policy: str) -> Finding:
        spans = {limit: s.throttled(policy, limit, "makespan_s") for limit in (*paper.LIMITS, None)}
        loads = {limit: s.throttled(policy, limit, "load") for limit in paper.LIMITS}
        fine = any_of(
            all_of((
                less(load, 1.0, strict=False),
                less(spans[limit], spans[None], times=SIMILAR, strict=False),
            ))
            for limit, load in loads.items()
        )  # fmt: skip
        percents = {str(limit): 100 * load.mean for limit, load in loads.items()}
        return fine, f"load in % {listed(percents)}"

    return _most(s, one)
