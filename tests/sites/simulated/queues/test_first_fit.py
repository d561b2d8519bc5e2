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
        for most_s in (0.5, 5.0, 50.0, inf):
            fitting = ((n, each) for n, each in jobs.items() if each.requested_s <= most_s)
            assert line.first(most_s) == next(fitting, None)
