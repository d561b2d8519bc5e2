"""The claims of the paper (SPAA 2004, sections 4.2 and 5), each with a test.

"Around" is within 10%, "stable" at most 25% between the least and the largest mean over the numbers
of jobs, "greatly" at least half as much again, "almost always" in at least nine runs of ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from wfrun.studies.common.claim import MUCH, SIMILAR, Claims, Finding
from wfrun.studies.common.verdict import Statement, all_of, any_of, less, mean_of, similar
from wfrun.studies.demt import paper
from wfrun.studies.demt.experiments import (
    ALGORITHMS,
    CRITERIA,
    DEMT,
    GANG,
    LIST,
    LISTS,
    LPTF,
    MAKESPAN,
    NAMES,
    SAF,
    SEQUENTIAL,
    WEIGHTED,
    DemtSamples,
)
from wfrun.studies.demt.workloads import CIRNE, HIGHLY, MIXED, WEAKLY, WORKLOADS

CLAIMS: Claims[DemtSamples] = Claims()
AROUND = 1.1
ALMOST = 0.9


def _ratios(s: DemtSamples, workload: str, names: Iterable[str], criterion: str) -> str:
    """For each algorithm, the smallest and the largest ratio over the numbers of jobs as text, such
    as ``DEMT 1.5–1.9, SAF 1.2–1.3``."""
    found = []
    for name in names:
        values = [s.ratio(workload, tasks, name, criterion) for tasks in s.tasks]
        found.append(f"{NAMES[name]} {min(values):.2f}–{max(values):.2f}")
    return ", ".join(found)


def _at_most(s: DemtSamples, workload: str, name: str, criterion: str, most: float) -> Statement:
    return all_of(
        less(s.sample(workload, tasks, name, criterion), most, strict=False) for tasks in s.tasks
    )


def _around(s: DemtSamples, workload: str, name: str, criterion: str, value: float) -> Statement:
    samples = [s.sample(workload, tasks, name, criterion) for tasks in s.tasks]
    return all_of(
        part
        for one in samples
        for part in (
            less(one, value * AROUND, strict=False),
            less(value / AROUND, one, strict=False),
        )
    )


def _below(
    s: DemtSamples, workload: str, one: str, others: Iterable[str], criterion: str
) -> Statement:
    return all_of(
        less(s.sample(workload, t, one, criterion), s.sample(workload, t, other, criterion))
        for t in s.tasks
        for other in others
    )


def _rest(*names: str) -> list[str]:
    return [name for name in ALGORITHMS if name not in names]


def _overall(s: DemtSamples, criterion: str, most: float) -> Finding:
    """The finding that the ratio of DEMT, mean over all points, is at most ``most``."""
    mean = mean_of(s.sample(w, t, DEMT, criterion) for w in WORKLOADS for t in s.tasks)
    return less(mean, most, strict=False), f"mean of all points {mean.mean:.2f}"


@CLAIMS.add("4.2, 5", "On average the ratio of Σ w C is very good: around 2", main=True)
def _average_ratio_w_c(s: DemtSamples) -> Finding:
    return _overall(s, WEIGHTED, paper.WEIGHTED_MEAN * AROUND)


@CLAIMS.add("4.2, 5", "On average the ratio of C_max is very good: 1.9", main=True)
def _average_ratio_c_max(s: DemtSamples) -> Finding:
    return _overall(s, MAKESPAN, paper.MAKESPAN_MEAN)


@CLAIMS.add("4.2, 5", "The algorithm is fast: under 2 s for the largest instances", main=True)
def _algorithm_fast_under_2(s: DemtSamples) -> Finding:
    most = max(row.demt_s for row in s.rows if row.tasks == max(s.tasks))
    return most < paper.SECONDS, f"at most {most:.2f} s"


@CLAIMS.add("4.2, all", "The ratio of Σ w C is never more than 2.5")
def _ratio_w_c_never(s: DemtSamples) -> Finding:
    values = s.single(DEMT, WEIGHTED)
    over = sum(v > paper.WEIGHTED_MOST for v in values)
    return not over, f"at most {max(values):.2f}; {over} of {len(values)} runs above"


@CLAIMS.add("4.2, all", "The ratio of C_max is almost always below 2")
def _ratio_c_max_almost(s: DemtSamples) -> Finding:
    values = s.single(DEMT, MAKESPAN)
    below = sum(v < paper.MAKESPAN_MOST for v in values)
    return below >= ALMOST * len(values), f"in {below} of {len(values)} runs"


@CLAIMS.add("4.2, all", "The algorithm is better the more parallel the jobs are, in Σ w C")
def _algorithm_better_more_parallel(s: DemtSamples) -> Finding:
    statement = all_of(
        less(s.sample(HIGHLY, t, DEMT, WEIGHTED), s.sample(WEAKLY, t, DEMT, WEIGHTED))
        for t in s.tasks
    )
    parts = (f"{w}: {_ratios(s, w, [DEMT], WEIGHTED)}" for w in (WEAKLY, HIGHLY))
    return statement, "; ".join(parts)


@CLAIMS.add("4.2, weakly", "C_max of DEMT is at most 2")
def _c_max_demt_most(s: DemtSamples) -> Finding:
    return (
        _at_most(s, WEAKLY, DEMT, MAKESPAN, paper.WEAKLY_MOST),
        _ratios(s, WEAKLY, [DEMT], MAKESPAN),
    )


@CLAIMS.add("4.2, weakly", "C_max of each other algorithm but Gang is around 1.5")
def _c_max_others_but(s: DemtSamples) -> Finding:
    others = _rest(DEMT, GANG)
    statement = all_of(_around(s, WEAKLY, name, MAKESPAN, paper.WEAKLY_OTHERS) for name in others)
    return statement, _ratios(s, WEAKLY, others, MAKESPAN)


for _criterion in CRITERIA:

    @CLAIMS.add("4.2, weakly", f"DEMT is worse than all others but Gang in {_criterion}")
    def _demt_worse_others_but(s: DemtSamples, criterion: str = _criterion) -> Finding:
        others = _rest(DEMT, GANG)
        statement = all_of(
            less(s.sample(WEAKLY, t, name, criterion), s.sample(WEAKLY, t, DEMT, criterion))
            for t in s.tasks
            for name in others
        )
        return statement, _ratios(s, WEAKLY, (DEMT, *others), criterion)


@CLAIMS.add("4.2, highly", "DEMT is the best in Σ w C")
def _demt_best_w_c(s: DemtSamples) -> Finding:
    others = _rest(DEMT)
    return _below(s, HIGHLY, DEMT, others, WEIGHTED), _ratios(s, HIGHLY, ALGORITHMS, WEIGHTED)


@CLAIMS.add("4.2, highly", "C_max of the list algorithms is always smaller than 2")
def _c_max_list_algorithms(s: DemtSamples) -> Finding:
    statement = all_of(_at_most(s, HIGHLY, name, MAKESPAN, paper.LISTS_MOST) for name in LISTS)
    return statement, _ratios(s, HIGHLY, LISTS, MAKESPAN)


for _criterion in CRITERIA:

    @CLAIMS.add(
        "4.2, highly",
        f"Gang is better with few jobs than with many, Sequential the other way, in {_criterion}",
    )
    def _gang_better_few_jobs(s: DemtSamples, criterion: str = _criterion) -> Finding:
        few, many = s.tasks[0], s.tasks[-1]
        statement = all_of(
            less(s.sample(HIGHLY, a, name, criterion), s.sample(HIGHLY, b, name, criterion))
            for name, a, b in ((GANG, few, many), (SEQUENTIAL, many, few))
        )
        parts = (
            f"{NAMES[name]} {s.ratio(HIGHLY, few, name, criterion):.2f} to "
            f"{s.ratio(HIGHLY, many, name, criterion):.2f}"
            for name in (GANG, SEQUENTIAL)
        )
        return statement, ", ".join(parts)


for _criterion in CRITERIA:

    @CLAIMS.add("4.2, mixed", f"DEMT is around 2 in {_criterion}")
    def _demt_around_2(s: DemtSamples, criterion: str = _criterion) -> Finding:
        return (
            _around(s, MIXED, DEMT, criterion, paper.MIXED),
            _ratios(s, MIXED, [DEMT], criterion),
        )


for _criterion in CRITERIA:

    @CLAIMS.add("4.2, mixed", f"SAF is better than DEMT in {_criterion}")
    def _saf_better_demt(s: DemtSamples, criterion: str = _criterion) -> Finding:
        return (
            _below(s, MIXED, SAF, [DEMT], criterion),
            _ratios(s, MIXED, (DEMT, SAF), criterion),
        )


@CLAIMS.add("4.2, mixed", "Σ w C of List and weighted LPTF grows greatly with the number of jobs")
def _w_c_two_other(s: DemtSamples) -> Finding:
    few, many = s.tasks[0], s.tasks[-1]
    statement = all_of(
        less(s.sample(MIXED, few, name, WEIGHTED), s.sample(MIXED, many, name, WEIGHTED),
             times=1 / MUCH)
        for name in (LIST, LPTF)
    )  # fmt: skip
    return statement, _ratios(s, MIXED, (LIST, LPTF), WEIGHTED)


@CLAIMS.add("4.2, Cirne", "DEMT is the best in Σ w C")
def _demt_best_w_c_2(s: DemtSamples) -> Finding:
    return (
        _below(s, CIRNE, DEMT, _rest(DEMT), WEIGHTED),
        _ratios(s, CIRNE, ALGORITHMS, WEIGHTED),
    )


@CLAIMS.add("4.2, Cirne", "DEMT alone has a stable Σ w C for any number of jobs")
def _demt_alone_stable_w(s: DemtSamples) -> Finding:
    def unstable(name: str) -> Statement:
        points = [s.sample(CIRNE, t, name, WEIGHTED) for t in s.tasks]
        return any_of(less(a, b, times=1 / SIMILAR) for a in points for b in points if a is not b)

    stable = similar((s.sample(CIRNE, t, DEMT, WEIGHTED) for t in s.tasks), SIMILAR)
    return (
        all_of([stable, *(unstable(name) for name in _rest(DEMT))]),
        _ratios(s, CIRNE, ALGORITHMS, WEIGHTED),
    )


@CLAIMS.add("4.2, weakly", "For most cases both ratios will not be much worse than 2")
def _most_cases_both_ratios(s: DemtSamples) -> Finding:
    """Tested on the mean ratio over the numbers of jobs, for each workload and criterion."""
    means = [
        fmean(s.ratio(w, t, DEMT, criterion) for t in s.tasks)
        for w in WORKLOADS for criterion in CRITERIA
    ]  # fmt: skip
    good = sum(mean <= paper.MIXED * AROUND for mean in means)
    return 2 * good > len(means), f"{good} of {len(means)} workloads and criteria"
