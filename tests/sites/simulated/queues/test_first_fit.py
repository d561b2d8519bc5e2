"""`FirstFit` against a list."""

from __future__ import annotations

import sys
from math import inf
from random import Random
from types import FrameType
from typing import Any

import pytest

from wfrun.engine.queues import SimulatedJob, simulate_batch
from wfrun.engine.queues.first_fit import FirstFit
from wfrun.engine.queues.lrm import QueuedJob


@pytest.mark.parametrize("seed", range(20))
def test_the_first_job_that_is_short_enough_is_found(seed: int) -> None:
    random = Random(seed)
    line, jobs = FirstFit(), dict[int, QueuedJob]()
    for number in range(400):
        job = QueuedJob(number, 1, random.choice([1.0, 5.0, 20.0, 100.0, inf]))
        jobs[number] = job
        line.append(number, job)
        for _ in range(random.choice([0, 0, 1, 3])):
            if jobs:
                gone = random.choice(list(jobs))
                del jobs[gone]
                line.remove(gone)
        assert len(line) == len(jobs)
        for until_s in (100.5, 105.0, 150.0, inf):
            fitting = ((n, each) for n, each in jobs.items() if 100.0 + each.requested_s <= until_s)
            assert line.first(100.0, until_s) == next(fitting, None)


def test_a_request_that_ends_exactly_then_is_short_enough() -> None:
    """The difference of both times is rounded to less than the request."""
    now_s, request_s = 9559.4, 4739.2
    until_s = now_s + request_s
    assert until_s - now_s < request_s
    line, job = FirstFit(), QueuedJob("a", 1, request_s)
    line.append(0, job)
    assert line.first(now_s, until_s) == (0, job)


def lines_a_job(count: int, lrm_name: str) -> float:
    """Executed lines of the queue for each of these jobs, which are submitted at once, and of which
    nearly no two are alike."""
    random, lines = Random(1), 0
    jobs = [
        SimulatedJob(0.0, request_s * random.random(), random.randint(1, 12), request_s)
        for request_s in (random.uniform(60.0, 9000.0) for _ in range(count))
    ]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        simulate_batch(jobs, 16, lrm_name, kill_overruns=True)
    finally:
        sys.settrace(before)
    return lines / count


@pytest.mark.parametrize("lrm_name", ["easy", "fcfs"])
def test_a_job_costs_hardly_more_in_a_longer_queue(lrm_name: str) -> None:
    assert lines_a_job(1600, lrm_name) < 1.5 * lines_a_job(200, lrm_name)
