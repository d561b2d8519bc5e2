"""Expected run times of groups of tasks: observed, documented, or predicted from earlier runs."""

from __future__ import annotations

from math import hypot, inf, sqrt
from typing import NamedTuple

from wfrun.engine.capabilities.estimates.expected import ExpectedTimes
from wfrun.engine.capabilities.estimates.predictions import Predictions
from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.explain.time_left.unfinished import Group

DEVIATIONS = 1.645
"""Half the width of intervals in standard deviations: the interval contains 90% of a normal
distribution."""
MIN_OBSERVED = 3
"""Minimum number of ended tasks of a kind from which its run time is estimated. Their run times
then replace a predicted run time, or their ratios of observed to documented run time correct a
documented run time."""
ASSUMED_DEVIATION = 0.25
"""Assumed standard deviation of run times if none was observed, relative to their mean."""


class Runtime(NamedTuple):
    """Expected run time of a group, in seconds on the reference processor."""

    mean_s: float
    deviation_s: float
    error_s: float
    """Standard error of the mean."""
    observed: int
    """Number of run times of this run from which ``mean_s`` is computed; 0 if too few tasks of the
    kind have ended."""

    def with_overdue(self, tasks: int, total_s: float) -> Runtime:
        """Return the run time corrected for ``tasks`` running tasks that have already run longer
        than expected. The sum of their new expected run times is ``total_s``. Without the
        correction only ended tasks would count, which are the shorter tasks."""
        count = max(1, self.observed)
        return self._replace(mean_s=(count * self.mean_s + total_s) / (count + tasks))


def expected_runtime(state: RunState, w: WorkflowState, group: Group) -> Runtime | None:
    """The expected run time of a group; None if it is unknown."""
    expected = state.get(ExpectedTimes)
    if group.documented is not None:
        return _documented(expected, group, *group.documented)
    observed = None if group.kind is None else expected.runtimes.observed(group.kind)
    if observed is not None and observed.tasks >= MIN_OBSERVED:
        error_s = observed.deviation_s / sqrt(observed.tasks)
        return Runtime(observed.mean_s, observed.deviation_s, error_s, observed.tasks)
    predicted = _predicted(state, w, group)
    if predicted is not None:
        return predicted
    observed = observed or expected.runtimes.all_observed()
    if observed is None:
        return None
    # One or two run times, or those of other kinds, say little.
    return Runtime(observed.mean_s, observed.mean_s, observed.mean_s / sqrt(2), 0)


def _predicted(state: RunState, w: WorkflowState, group: Group) -> Runtime | None:
    """The run time of a group as predicted from earlier runs."""
    if group.kind is None or w.runtimes_s is not None:
        return None
    found = state.get(Predictions).predict(w, group.first, 0)
    if found is None:
        return None
    deviation_s = ASSUMED_DEVIATION * found.value_s
    if found.high_s < inf:
        deviation_s = (found.high_s - found.low_s) / (2 * DEVIATIONS)
    speed_ratio = state.sites[0].spec.speed_ratio
    value_s, deviation_s = found.value_s * speed_ratio, deviation_s * speed_ratio
    return Runtime(value_s, deviation_s, deviation_s, 0)


def _documented(
    expected: ExpectedTimes, group: Group, mean_s: float, deviation_s: float
) -> Runtime:
    """The documented run time of a group, multiplied by the mean ratio of observed to documented
    run times: of its kind, or else of all tasks."""
    ratio = None if group.kind is None else expected.ratios.observed(group.kind)
    is_own = ratio is not None and ratio.tasks >= MIN_OBSERVED
    if not is_own:
        ratio = expected.ratios.all_observed()
    if ratio is None or ratio.tasks < MIN_OBSERVED:
        error_s = ASSUMED_DEVIATION * mean_s
        return Runtime(mean_s, hypot(deviation_s, error_s), error_s, 0)
    error = ratio.deviation_s / sqrt(ratio.tasks) if is_own else ASSUMED_DEVIATION * ratio.mean_s
    spread_s = hypot(ratio.mean_s * deviation_s, mean_s * ratio.deviation_s)
    return Runtime(mean_s * ratio.mean_s, spread_s, mean_s * error, ratio.tasks * is_own)
