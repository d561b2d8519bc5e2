"""Replay of the jobs of a log, with the predictions of waits that would have been made.

A predictor receives the events in the order of time, so its predictions use only what was known at
the time. It learns the wait of a job at the end of the job, as in thesis section 7.3.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf, nan
from typing import Literal, NamedTuple

from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.waits.predictor import WaitPredictor
from wfrun.engine.queues import Lrm, QueuedJob


class ReplayedJob(NamedTuple):
    """A job of a log."""

    submit_s: float
    runtime_s: float
    """Run time in seconds; at most ``requested_s`` if the LRM ends jobs at their requested
    times."""
    requested_s: float
    """Requested time with which the LRM plans: the user's estimate, or a random estimate if the log
    has none."""
    job: Job
    wait_s: float | None = None
    """Wait in the log, in seconds; None if unknown."""


Event = tuple[Literal["ended", "started", "submitted"], int, float]
"""An event of a job: its type, the index of the job, and its time in seconds."""


def recorded_events(jobs: Sequence[ReplayedJob]) -> Iterator[Event]:
    """The events of the jobs with their logged waits, in order of time; each wait must be known. At
    one time ends come before starts, and starts before submissions, except that no job starts
    before its own submission. The jobs are in the order of submission."""
    # (time, 0 for an end and 1 for a start, index)
    later: list[tuple[float, int, int]] = []
    for i, job in enumerate(jobs):
        while later and later[0][0] <= job.submit_s:
            yield from _settle(jobs, later)
        yield "submitted", i, job.submit_s
        assert job.wait_s is not None
        heappush(later, (job.submit_s + job.wait_s, 1, i))
    while later:
        yield from _settle(jobs, later)


def _settle(jobs: Sequence[ReplayedJob], later: list[tuple[float, int, int]]) -> Iterator[Event]:
    now_s, is_start, i = heappop(later)
    if is_start:
        yield "started", i, now_s
        heappush(later, (now_s + jobs[i].runtime_s, 0, i))
    else:
        yield "ended", i, now_s


def simulated_events(jobs: Sequence[ReplayedJob], lrm: Lrm) -> Iterator[Event]:
    """The events of the jobs in a simulated queue, as by `wfrun.engine.queues.run_batch`. The jobs
    are in the order of submission, and none is wider than the cluster."""
    ends: list[tuple[float, int]] = []
    arrived = 0
    while arrived < len(jobs) or ends or lrm.next_wakeup_s < inf:
        next_end_s = ends[0][0] if ends else inf
        next_submit_s = jobs[arrived].submit_s if arrived < len(jobs) else inf
        now_s = next_end_s
        if lrm.next_wakeup_s < min(next_end_s, next_submit_s):
            now_s = lrm.next_wakeup_s
        elif next_end_s <= next_submit_s:
            ended = heappop(ends)[1]
            yield "ended", ended, now_s
            lrm.end(ended, now_s)
        else:
            now_s, new = next_submit_s, jobs[arrived]
            yield "submitted", arrived, now_s
            lrm.submit(QueuedJob(arrived, new.job.cores, new.requested_s), now_s)
            arrived += 1
        for i in lrm.schedule(now_s):
            assert isinstance(i, int)
            yield "started", i, now_s
            heappush(ends, (now_s + jobs[i].runtime_s, i))


class Replay(NamedTuple):
    """Actual and predicted waits in seconds, in the order of the jobs."""

    waits_s: array[float]
    predicted_s: dict[str, array[float]]
    """By predictor: its predictions; NaN where it had none."""


def replay_waits(
    jobs: Sequence[ReplayedJob], events: Iterator[Event], predictors: Mapping[str, WaitPredictor]
) -> Replay:
    """Replay ``events``. Return the prediction of each predictor at the submission of each job, and
    the wait of each job according to the events; NaN for a job that never starts."""
    waits_s = array("d", [nan]) * len(jobs)
    predicted_s = {name: array("d", waits_s) for name in predictors}
    each = [(one, predicted_s[name]) for name, one in predictors.items()]
    for what, i, now_s in events:
        if what == "submitted":
            _, _, requested_s, job, _ = jobs[i]
            for predictor, answers_s in each:
                answer_s = predictor.on_submitted(i, job, requested_s, now_s)
                if answer_s is not None:
                    answers_s[i] = answer_s
        elif what == "started":
            waits_s[i] = now_s - jobs[i].submit_s
            for predictor, _ in each:
                predictor.on_started(i, now_s)
        else:
            for predictor, _ in each:
                predictor.on_ended(i, now_s)
    return Replay(waits_s, predicted_s)
