"""The simulation of one cluster's queue with a list of jobs: their starts and ends."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush

import msgspec

from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.engine.queues.lrm import Lrm, QueuedJob


class SimulatedJob(msgspec.Struct, frozen=True, gc=False):
    """A job with its real run time, which the queue does not know."""

    submit_s: float
    runtime_s: float
    cores: int
    requested_s: float
    owner: str = ""
    application: str = ""


class Schedule(msgspec.Struct, frozen=True):
    """Starts and ends in seconds, in the order of the given jobs."""

    start_s: array[float]
    end_s: array[float]


def run_batch(jobs: Sequence[SimulatedJob], lrm: Lrm, *, kill_overruns: bool) -> Schedule:
    """Submit the jobs to an empty queue, in the order of their submission times (equal times: in
    the given order), and let time pass until all have ended.

    The queue makes a scheduling pass after every event. At one time ends come before submissions,
    and ends in the order of the jobs. With ``kill_overruns`` no job runs past its request.

    Raises InfeasibleError for a job that requests more processors than the cluster has, and
    InvalidError for an invalid job. The message names the index of the job in ``jobs``.
    """
    order = sorted(range(len(jobs)), key=lambda i: jobs[i].submit_s)
    never_s = float("inf")
    start_s = array("d", [never_s]) * len(jobs)
    end_s = array("d", start_s)
    ends: list[tuple[float, int]] = []
    arrived = 0
    while arrived < len(order) or ends or lrm.next_wakeup_s < never_s:
        next_end_s = ends[0][0] if ends else never_s
        next_submit_s = jobs[order[arrived]].submit_s if arrived < len(order) else never_s
        now_s = next_end_s
        if lrm.next_wakeup_s < min(next_end_s, next_submit_s):
            now_s = lrm.next_wakeup_s
        elif next_end_s <= next_submit_s:
            lrm.end(heappop(ends)[1], now_s)
        else:
            now_s = next_submit_s
            _submit(jobs, order[arrived], lrm)
            arrived += 1
        for i in lrm.schedule(now_s):
            assert isinstance(i, int)
            job = jobs[i]
            length_s = min(job.runtime_s, job.requested_s) if kill_overruns else job.runtime_s
            start_s[i] = now_s
            end_s[i] = now_s + length_s
            heappush(ends, (now_s + length_s, i))
    return Schedule(start_s, end_s)


def _submit(jobs: Sequence[SimulatedJob], index: int, lrm: Lrm) -> None:
    job = jobs[index]
    if not 0 <= job.runtime_s < float("inf"):
        raise InvalidError(
            f"job {index} runs for {job.runtime_s} s", hint="a run time is a number of at least 0"
        )
    try:
        lrm.submit(QueuedJob(index, job.cores, job.requested_s), job.submit_s)
    except WfrunError as error:
        raise type(error)(f"job {index}: {error.message}", hint=error.hint) from None
