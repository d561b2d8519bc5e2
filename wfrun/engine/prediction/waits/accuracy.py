"""Accuracy of predictions of waits (thesis sections 7.2.2 and 7.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import NamedTuple

import msgspec

from wfrun.engine.prediction.replay import accuracy

EXACT_S = 0.5
"""Maximum difference between a wait and a perfect prediction, in seconds. Logs state whole
seconds."""


class JudgedWait(NamedTuple):
    """A wait and its prediction, in seconds."""

    wait_s: float
    predicted_s: float
    in_burst: bool


class WaitAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Shares and means over the jobs with a prediction. A value is None if no job counts in it."""

    jobs: int
    unknown: int
    """Number of jobs without a prediction."""
    waited: float | None
    """Share of the jobs that waited."""
    accuracy: float | None
    """Mean of equation 7.1. A job that did not wait counts 1 if the predicted wait was 0, otherwise
    0."""
    accuracy_waited: float | None
    """Mean of equation 7.1 over the jobs that waited."""
    error_s: float | None
    """Mean absolute error: AWPE of the thesis."""
    error_waited_s: float | None
    under: float | None
    """Share of the jobs that waited longer than predicted, by at least half a second."""
    perfect: float | None
    over: float | None
    in_bursts: float | None
    """Share of the jobs submitted in bursts."""
    within_in_bursts: float | None
    """Share of the jobs in bursts that waited less than half a second longer than predicted."""
    within_outside: float | None
    """Share of the jobs outside of bursts that waited less than half a second longer than
    predicted."""


def judged_waits(
    waits_s: Sequence[float], predicted_s: Sequence[float], bursts: Sequence[bool], first: int
) -> Iterator[JudgedWait]:
    """Yield the waits and predictions of the jobs from number ``first`` on; earlier jobs are
    training data."""
    for i in range(first, len(waits_s)):
        yield JudgedWait(waits_s[i], predicted_s[i], bursts[i])


def judge(waits: Iterable[JudgedWait]) -> WaitAccuracy:
    """Compare predictions with waits. A prediction that is NaN counts as unknown."""
    all_waits = list(waits)
    known = [one for one in all_waits if not isnan(one.predicted_s)]
    waited = [one for one in known if one.wait_s > 0]
    burst = [one for one in known if one.in_burst]
    outside = [one for one in known if not one.in_burst]
    under, over = sum(map(_is_under, known)), sum(map(_is_over, known))
    return WaitAccuracy(
        jobs=len(known),
        unknown=len(all_waits) - len(known),
        waited=_share(len(waited), known),
        accuracy=_share(sum(map(_accuracy, known)), known),
        accuracy_waited=_share(sum(map(_accuracy, waited)), waited),
        error_s=_share(sum(map(_error_s, known)), known),
        error_waited_s=_share(sum(map(_error_s, waited)), waited),
        under=_share(under, known),
        perfect=_share(len(known) - under - over, known),
        over=_share(over, known),
        in_bursts=_share(len(burst), known),
        within_in_bursts=_share(len(burst) - sum(map(_is_under, burst)), burst),
        within_outside=_share(len(outside) - sum(map(_is_under, outside)), outside),
    )


def _accuracy(one: JudgedWait) -> float:
    return accuracy(one.predicted_s, one.wait_s)


def _error_s(one: JudgedWait) -> float:
    return abs(one.predicted_s - one.wait_s)


def _is_under(one: JudgedWait) -> bool:
    return one.wait_s - one.predicted_s >= EXACT_S


def _is_over(one: JudgedWait) -> bool:
    return one.predicted_s - one.wait_s >= EXACT_S


def _share(count: float, jobs: Sequence[JudgedWait]) -> float | None:
    return count / len(jobs) if jobs else None
