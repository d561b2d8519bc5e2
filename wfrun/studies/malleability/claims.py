"""The claims of chapter 3 of the thesis, each with a test.

"Few" is at most one in five, "many" at least half, "almost the same" within 25%, "much" and "far"
at least half as much again, "far worse" than all others at least twice the next, "about" within
10%.
"""

from __future__ import annotations

from collections.abc import Iterable

from wfrun.studies.common.claim import MUCH, SIMILAR, Claims, Finding, listed
from wfrun.studies.common.verdict import (
    Sample,
    Statement,
    all_of,
    combine,
    less,
    similar,
)
from wfrun.studies.malleability.experiments import (
    EGS,
    FPSMA,
    LOW,
    MALLEABILITY,
    PRA,
    PWA,
    MalleabilitySamples,
)
from wfrun.studies.malleability.workloads import ALL_MALLEABLE, HALF_RIGID, MIXES

CLAIMS: Claims[MalleabilitySamples] = Claims()
FEW, MANY, MOST = 0.2, 0.5, 0.9
WORST = 2.0


def _egs_more(
    s: MalleabilitySamples, experiment: str, measure: str, mixes: Iterable[str]
) -> Finding:
    """The finding that EGS has a larger value of the measure than FPSMA with each workload in
    ``mixes``."""
    statement = all_of(
        less(s.of(experiment, FPSMA, mix, measure), s.of(experiment, EGS, mix, measure))
        for mix in mixes
    )
    return statement, listed(s.all(experiment, measure))


def _all_malleable_more(
    s: MalleabilitySamples, measure: str, *, times: float = 1.0, fewer: bool = False
) -> Finding:
    """The finding that, with each policy under PRA, the measure with W_m is more than ``times``
    that with W_mr. With ``fewer`` the two workloads are exchanged."""
    parts: list[Statement] = []
    for policy in MALLEABILITY:
        pair = [s.of(PRA, policy, mix, measure) for mix in (HALF_RIGID, ALL_MALLEABLE)]
        low, high = reversed(pair) if fewer else pair
        parts.append(less(low, high, times=1 / times))
    return all_of(parts), listed(s.all(PRA, measure))


def _each(
    s: MalleabilitySamples, experiment: str, measure: str, *,
    least: float | None = None, most: float | None = None,
) -> Finding:  # fmt: skip
    """The finding that the mean of the measure is from ``least`` to ``most`` (None: no bound) for
    each combination of policy and workload."""
    values = s.all(experiment, measure)
    parts: list[Statement] = []
    for value in values.values():
        if least is not None:
            parts.append(less(least, value, strict=False))
        if most is not None:
            parts.append(less(value, most, strict=False))
    return all_of(parts), listed(values)


@CLAIMS.add("3.6", "Malleability improves the execution time of the applications: it is shorter "
            "with W_m, all of whose jobs are malleable, than with W_mr, half of whose jobs are",
            main=True)  # fmt: skip
def _improves_execution(s: MalleabilitySamples) -> Finding:
    return _all_malleable_more(s, "run_s", fewer=True)


@CLAIMS.add("3.6", "When PRA is preferred, FPSMA outperforms EGS (response times)", main=True)
def _fpsma_outperforms(s: MalleabilitySamples) -> Finding:
    return _egs_more(s, PRA, "response_s", MIXES)


@CLAIMS.add("3.6", "When PWA is preferred, both perform similarly (response times)", main=True)
def _alike_under_pwa(s: MalleabilitySamples) -> Finding:
    statement = all_of(
        similar([s.of(PWA, policy, mix, "response_s") for policy in MALLEABILITY], SIMILAR)
        for mix in MIXES
    )
    return statement, listed(s.all(PWA, "response_s"))


@CLAIMS.add("3.6", "PWA behaves exactly as PRA unless the load is high", main=True)
def _pwa_is_pra(s: MalleabilitySamples) -> Finding:
    """Tested with PWA on the workloads of PRA: there are no shrinks, and response times are within
    2% of those under PRA."""
    parts: list[Statement] = []
    for policy in MALLEABILITY:
        for mix in MIXES:
            parts.append(less(s.of(LOW, policy, mix, "shrinks"), 0.0, strict=False))
            pair = [s.of(experiment, policy, mix, "response_s") for experiment in (PRA, LOW)]
            parts.append(similar(pair, 1.02))
    return all_of(parts), (
        f"response times PRA {listed(s.all(PRA, 'response_s'))}; "
        f"PWA {listed(s.all(LOW, 'response_s'))}; shrinks {listed(s.all(LOW, 'shrinks'))}"
    )


@CLAIMS.add("1.5, 8.1", "Higher utilization when malleability is used: higher with W_m than with "
            "W_mr", main=True)  # fmt: skip
def _higher_utilization(s: MalleabilitySamples) -> Finding:
    return _all_malleable_more(s, "utilization")


@CLAIMS.add("3.4.1", "With W_mr, relatively few malleable jobs stay at 2 processors")
def _few_stay(s: MalleabilitySamples) -> Finding:
    values = {name: v for name, v in s.all(PRA, "stuck").items() if name.endswith(HALF_RIGID)}
    return all_of(less(v, FEW, strict=False) for v in values.values()), listed(values)


@CLAIMS.add("3.4.1", "EGS gives more processors on average than FPSMA")
def _egs_larger_mean(s: MalleabilitySamples) -> Finding:
    return _egs_more(s, PRA, "mean_size", MIXES)


@CLAIMS.add("3.4.1", "EGS gives a larger maximum of processors than FPSMA")
def _egs_larger_maximum(s: MalleabilitySamples) -> Finding:
    return _egs_more(s, PRA, "largest_size", MIXES)


@CLAIMS.add("3.4.1", "With EGS only few jobs do not grow beyond their minimum")
def _egs_few_stuck(s: MalleabilitySamples) -> Finding:
    values = {mix: s.of(PRA, EGS, mix, "stuck") for mix in MIXES}
    return all_of(less(v, FEW, strict=False) for v in values.values()), listed(values)


@CLAIMS.add("3.4.1", "More jobs are stuck at their minimum with FPSMA than with EGS")
def _fpsma_more_stuck(s: MalleabilitySamples) -> Finding:
    statement = all_of(
        less(s.of(PRA, EGS, mix, "stuck"), s.of(PRA, FPSMA, mix, "stuck")) for mix in MIXES
    )
    return statement, listed(s.all(PRA, "stuck"))


@CLAIMS.add("3.4.1", "Two groups, FT below 200 s and GADGET above 400 s: execution times")
def _groups_of_run_times(s: MalleabilitySamples) -> Finding:
    return _each(s, PRA, "groups_run", least=MOST)


@CLAIMS.add("3.4.1", "The same two groups: response times")
def _groups_of_responses(s: MalleabilitySamples) -> Finding:
    return _each(s, PRA, "groups_response", least=MOST)


@CLAIMS.add("3.4.1", "W_m has better response times than W_mr")
def _better_responses(s: MalleabilitySamples) -> Finding:
    return _all_malleable_more(s, "response_s", fewer=True)


@CLAIMS.add("3.4.1", "The tail of FPSMA's response times ends far before that of EGS")
def _shorter_tail(s: MalleabilitySamples) -> Finding:
    statement = all_of(
        less(s.of(PRA, FPSMA, mix, "tail_s"), s.of(PRA, EGS, mix, "tail_s"), times=1 / MUCH)
        for mix in MIXES
    )
    return statement, listed(s.all(PRA, "tail_s"))


@CLAIMS.add("3.4.1", "With W_m, EGS leads to a higher utilization")
def _egs_utilizes(s: MalleabilitySamples) -> Finding:
    return _egs_more(s, PRA, "utilization", [ALL_MALLEABLE])


@CLAIMS.add("3.4.1", "Much more grow operations with W_m than with W_mr")
def _more_grows(s: MalleabilitySamples) -> Finding:
    return _all_malleable_more(s, "grows", times=MUCH)


@CLAIMS.add("3.4.1", "More grow operations with EGS than with FPSMA")
def _egs_more_grows(s: MalleabilitySamples) -> Finding:
    return _egs_more(s, PRA, "grows", MIXES)


@CLAIMS.add("3.4.2", "Beyond a certain time no size changes any more: at most a tenth of the "
            "operations are in the second half")  # fmt: skip
def _no_more_changes(s: MalleabilitySamples) -> Finding:
    return _each(s, PWA, "late", most=1 - MOST)


@CLAIMS.add("3.4.2", "Many jobs are stuck at their minimum, whatever workload and policy")
def _many_stuck(s: MalleabilitySamples) -> Finding:
    return _each(s, PWA, "stuck", least=MANY)


@CLAIMS.add("3.4.2", "More of them with EGS")
def _egs_more_stuck(s: MalleabilitySamples) -> Finding:
    return _egs_more(s, PWA, "stuck", MIXES)


@CLAIMS.add("3.4.2", "Execution times are almost the same in all four cases")
def _same_run_times(s: MalleabilitySamples) -> Finding:
    values = s.all(PWA, "run_s")
    return similar(values.values(), SIMILAR), listed(values)


@CLAIMS.add("3.4.2", "Most GADGET jobs have an execution time of about 600 s")
def _gadget_600(s: MalleabilitySamples) -> Finding:
    return _each(s, PWA, "near_600", least=MANY)


@CLAIMS.add("3.4.2", "That is 30% more than with PRA: from 20 to 40%")
def _gadget_30_more(s: MalleabilitySamples) -> Finding:
    ratios = {
        name: combine(lambda a, b: a / b, high, low)
        for (name, high), low in zip(
            s.all(PWA, "gadget_s").items(), s.all(PRA, "gadget_s").values(), strict=True
        )
    }
    parts = [part for r in ratios.values() for part in (less(1.2, r), less(r, 1.4))]
    return all_of(parts), listed(ratios)


@CLAIMS.add("3.4.2", "The response time is far worse with EGS and W'm than with all others")
def _far_worst(s: MalleabilitySamples) -> Finding:
    return _above_others(s, "response_s", WORST)


@CLAIMS.add("3.4.2", "That is due to a higher wait time")
def _higher_wait(s: MalleabilitySamples) -> Finding:
    return _above_others(s, "wait_s", WORST)


@CLAIMS.add("3.4.2", "EGS and W'm have the highest utilization")
def _highest_utilization(s: MalleabilitySamples) -> Finding:
    return _above_others(s, "utilization", 1.0)


@CLAIMS.add("3.4.2", "FPSMA reduces the execution time of GADGET below that of EGS with W'm")
def _fpsma_faster_gadget(s: MalleabilitySamples) -> Finding:
    return _egs_more(s, PWA, "gadget_s", [ALL_MALLEABLE])


def _above_others(s: MalleabilitySamples, measure: str, times: float) -> Finding:
    worst: Sample = s.of(PWA, EGS, ALL_MALLEABLE, measure)
    others = [
        s.of(PWA, policy, mix, measure)
        for policy in MALLEABILITY
        for mix in MIXES
        if (policy, mix) != (EGS, ALL_MALLEABLE)
    ]
    return all_of(less(v, worst, times=1 / times) for v in others), listed(s.all(PWA, measure))
