"""The 24 metrics of schedules of parallel jobs on a grid of sites.

Source: Ramírez-Alcaraz et al., *Job Allocation Strategies with User Run Time Estimates for Online
Scheduling in Hierarchical Grids*, J. Grid Computing 9 (2011) 95–116. The list of metrics is that of
its Table 6. Section 2 has the formulas of ρ, SD_b, Th, TA, U, t_w, SWT and SWCT_w; the deviations
LBal and the weights of the weighted sums follow from Table 1. The paper gives no formula for SD,
SCT, SWWT, WTA and WWT; their names define them. Equal percentages in Table 6 show that WWT is SWWT
divided by a constant.

Notation: job j of n has release date r (submission), start, completion c, run time p and size
(cores). Its wait is c - p - r. Its weight is its size (index s), its run time (t) or its work
size·p (w). Site i of m has m_i processors; all sites together have M. All metrics are computed from
actual run times, without estimates or predictions. The deviations LBal need the site of each job
and the size of each site; U and ρ need the total number of processors; the others only need the
jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum, nan, sqrt
from operator import mul
from typing import Literal, NamedTuple

from wfrun.engine.errors import InvalidError
from wfrun.runners.metrics.jobs import THRESHOLD_S, JobTiming, check_threshold

Column = Sequence[float]
"""A value of each job."""


class MeasuredSchedule:
    """Jobs that have run on sites, with the values from which metrics are computed.

    ``processors`` are the sizes of the sites. Lists of values are in the order of the jobs. Release
    dates and completion times count from ``origin_s``; None: from the first submission.
    ``threshold_s`` is the threshold of SD_b, in seconds. Raises InvalidError if there are no jobs,
    if a job ran at an unknown site, if a site has no processors, or if the threshold is not
    positive.
    """

    def __init__(
        self,
        jobs: Sequence[JobTiming],
        processors: Sequence[int],
        *,
        origin_s: float | None = None,
        threshold_s: float = THRESHOLD_S,
    ) -> None:
        check_threshold(threshold_s)
        if not jobs:
            raise InvalidError("a schedule without jobs has no metrics")
        if any(not size > 0 for size in processors):
            raise InvalidError(f"a site has no processors: the sizes are {list(processors)}")
        stray = next((job for job in jobs if not 0 <= job.site < len(processors)), None)
        if stray is not None:
            raise InvalidError(
                f"a job ran at site {stray.site}, but there are sizes for sites 0 to "
                f"{len(processors) - 1}",
                hint="give the processors of every site, in the order of their numbers",
            )
        self.jobs = jobs
        self.processors = processors
        self.origin_s = min(job.submit_s for job in jobs) if origin_s is None else origin_s
        self.threshold_s = threshold_s
        start_s = self.origin_s
        self.sizes = [float(job.cores) for job in jobs]
        self.times_s = [job.end_s - job.start_s for job in jobs]
        self.work_s = list(map(mul, self.sizes, self.times_s))
        self.waits_s = [job.start_s - job.submit_s for job in jobs]
        self.responses_s = [job.end_s - job.submit_s for job in jobs]
        self.completions_s = [job.end_s - start_s for job in jobs]

    @property
    def makespan_s(self) -> float:
        """C_max: the largest completion time, in seconds."""
        return max(self.completions_s)

    @property
    def lower_bound_s(self) -> float:
        """Lower bound of the makespan of any schedule of these jobs, in seconds: max(max (r + p), Σ
        work / M)."""
        ends = zip(self.completions_s, self.waits_s, strict=True)
        longest_s = max(end_s - wait_s for end_s, wait_s in ends)
        return max(longest_s, fsum(self.work_s) / sum(self.processors))

    def sum(self, values: Column, weights: Column | None = None) -> float:
        """Sum of ``values`` over all jobs. With ``weights`` each value is multiplied by the job's
        weight."""
        return fsum(values if weights is None else map(mul, values, weights))

    def mean(self, values: Column, weights: Column | None = None) -> float:
        """Mean of ``values`` over all jobs: their ``sum``, divided by the number of jobs."""
        return self.sum(values, weights) / len(self.jobs)

    def deviation(self, weights: Column) -> float:
        """Standard deviation of the load over the sites. The load of a site is the total weight of
        its jobs, divided by its processors."""
        loads: list[list[float]] = [[] for _ in self.processors]
        for job, weight in zip(self.jobs, weights, strict=True):
            loads[job.site].append(weight)
        shares = [fsum(w) / size for w, size in zip(loads, self.processors, strict=True)]
        mean = fsum(shares) / len(shares)
        return sqrt(fsum((share - mean) ** 2 for share in shares) / len(shares))


def _slowdown(s: MeasuredSchedule) -> float:
    pairs = zip(s.responses_s, s.times_s, strict=True)
    some = [response_s / time_s for response_s, time_s in pairs if time_s > 0]
    return _ratio(fsum(some), len(some))


def _bounded_slowdown(s: MeasuredSchedule) -> float:
    pairs = zip(s.responses_s, s.times_s, strict=True)
    least_s = s.threshold_s
    return s.mean([r / (time_s if time_s > least_s else least_s) for r, time_s in pairs])


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else nan


class GridMetric(NamedTuple):
    """One of the 24 metrics."""

    symbol: str
    name: str
    unit: str
    better: Literal["smaller", "larger"]
    formula: str
    value: Callable[[MeasuredSchedule], float]
    """Computes the metric; nan if its denominator is 0."""


_CORE = (
    GridMetric("ρ", "competitive factor", "", "smaller",
               "C_max / max(max (r + p), Σ size·p / M)",
               lambda s: _ratio(s.makespan_s, s.lower_bound_s)),
    GridMetric("SD", "mean slowdown, of jobs with p > 0", "", "smaller",
               "1/n Σ (c - r) / p", _slowdown),
    GridMetric("SD_b", "mean bounded slowdown", "", "smaller",
               "1/n Σ (c - r) / max(10, p)", _bounded_slowdown),
    GridMetric("Th", "throughput", "1/s", "larger",
               "n / C_max", lambda s: _ratio(len(s.jobs), s.makespan_s)),
    GridMetric("TA", "mean response (turnaround) time", "s", "smaller",
               "1/n Σ (c - r)", lambda s: s.mean(s.responses_s)),
    GridMetric("U", "utilization", "", "larger", "Σ size·p / (C_max · M)",
               lambda s: _ratio(s.sum(s.work_s), s.makespan_s * sum(s.processors))),
    GridMetric("t_w", "mean waiting time", "s", "smaller",
               "1/n Σ (c - p - r)", lambda s: s.mean(s.waits_s)),
    GridMetric("SCT", "sum of completion times", "s", "smaller",
               "Σ c", lambda s: s.sum(s.completions_s)),
    GridMetric("SWT", "sum of waiting times", "s", "smaller",
               "Σ (c - p - r)", lambda s: s.sum(s.waits_s)),
)  # fmt: skip


class _Weighting(NamedTuple):
    letter: str
    name: str
    formula: str
    unit: str
    weight: Callable[[MeasuredSchedule], Column]


_WEIGHTINGS = (
    _Weighting("s", "size", "size", "", lambda s: s.sizes),
    _Weighting("t", "run time", "p", "s", lambda s: s.times_s),
    _Weighting("w", "work", "size·p", "s", lambda s: s.work_s),
)


def _weighted(by: _Weighting) -> tuple[GridMetric, ...]:
    weight = by.weight
    unit = f"s{'²' if by.unit else ''}"
    return (
        GridMetric(f"LBal_{by.letter}", f"deviation of the sites' {by.name} per processor",
                   by.unit, "smaller",
                   f"√(1/m Σ_i (L_i - L̄)²), L_i = 1/m_i Σ_(j at i) {by.formula}",
                   lambda s: s.deviation(weight(s))),
        GridMetric(f"SWCT_{by.letter}", f"sum of completion times weighted by {by.name}",
                   unit, "smaller", f"Σ c · {by.formula}",
                   lambda s: s.sum(s.completions_s, weight(s))),
        GridMetric(f"SWWT_{by.letter}", f"sum of waiting times weighted by {by.name}",
                   unit, "smaller", f"Σ (c - p - r) · {by.formula}",
                   lambda s: s.sum(s.waits_s, weight(s))),
        GridMetric(f"WTA_{by.letter}", f"mean response time weighted by {by.name}",
                   unit, "smaller", f"1/n Σ (c - r) · {by.formula}",
                   lambda s: s.mean(s.responses_s, weight(s))),
        GridMetric(f"WWT_{by.letter}", f"mean waiting time weighted by {by.name}",
                   unit, "smaller", f"1/n Σ (c - p - r) · {by.formula}",
                   lambda s: s.mean(s.waits_s, weight(s))),
    )  # fmt: skip


GRID_METRICS = {
    metric.symbol: metric for metric in (*_CORE, *(m for by in _WEIGHTINGS for m in _weighted(by)))
}
"""The metrics by symbol."""


def grid_metrics(schedule: MeasuredSchedule) -> dict[str, float]:
    """All 24 metrics by symbol, in the order of ``GRID_METRICS``."""
    return {symbol: metric.value(schedule) for symbol, metric in GRID_METRICS.items()}
