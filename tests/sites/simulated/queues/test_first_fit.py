"""`FirstFit` against a list."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

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
