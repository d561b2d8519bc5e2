"""Bursts of submissions (thesis section 7.1: numbers of submissions in five-minute intervals)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, sqrt

INTERVAL_S = 300.0
"""Length of the intervals in which submissions are counted, in seconds (thesis, Figure 7.1)."""
RARE = 0.001
"""Maximum probability that an interval of a Poisson process has at least the submissions of a
burst."""


def in_bursts(submitted_s: Sequence[float]) -> list[bool]:
    """Whether each job is submitted in a burst. The times are ascending.

    A burst is a five-minute interval with an unlikely number of submissions: a Poisson process at
    the mean rate of all jobs has as many or more in less than one interval of 1,000."""
    if not submitted_s:
        return []
    intervals = [int(at_s // INTERVAL_S) for at_s in submitted_s]
    least = burst_size(len(intervals) / (intervals[-1] - intervals[0] + 1))
    counts = Counter(intervals)
    return [counts[interval] >= least for interval in intervals]


def burst_size(mean: float) -> int:
    """Minimum number of submissions in an interval for a burst, with ``mean`` submissions per
    interval."""
    if mean > 500:  # The Poisson distribution is normal there, and its first term near underflow.
        return int(mean + 3.1 * sqrt(mean)) + 1
    count, term = 0, exp(-mean)
    beyond = 1 - term
    while beyond > RARE:
        count += 1
        term *= mean / count
        beyond -= term
    return count + 1
