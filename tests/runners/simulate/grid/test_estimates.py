"""The sums that allocation strategies compare, beside those of all jobs counted anew."""

from __future__ import annotations

from random import Random

import pytest

from wfrun.engine.jobs.open_sums import OpenSums
from wfrun.engine.queues import QueuedJob, make_lrm
from wfrun.runners.simulate.grid.estimates import LrmEstimates


@pytest.mark.parametrize("lrm_name", ["easy", "conservative", "fcfs"])
@pytest.mark.parametrize("seed", range(4))
def test_sums_follow_the_plan_of_the_queue(lrm_name: str, seed: int) -> None:
    """Jobs arrive, start, end early or late, and some ask for the sums."""
    random = Random(seed)
    lrm = make_lrm(lrm_name, 8)
    estimates = LrmEstimates(lrm)
    open_: dict[int, tuple[int, float, float]] = {}
    started_s: dict[int, float] = {}
    now_s, asked = 0.0, 0
    for job in range(150):
        now_s += random.choice((0.0, 1.0, 5.0))
        if started_s and random.random() < 0.45:
            ended = random.choice(list(started_s))
            del started_s[ended], open_[ended]
            lrm.end(ended, now_s)
            estimates.end(ended, now_s)
        else:
            cores, length_s = random.randint(1, 8), float(random.randint(1, 40))
            open_[job] = cores, length_s, now_s
            estimates.submit(job, cores, length_s, now_s)
            lrm.submit(QueuedJob(job, cores, length_s), now_s)
        for begun in lrm.schedule(now_s):
            assert isinstance(begun, int)
            started_s[begun] = now_s
            estimates.start(begun, now_s)
        if random.random() < 0.5:
            continue
        asked += 1
        expected, ends_s = OpenSums(), [now_s]
        for one, (cores, length_s, at_s) in open_.items():
            start_s = started_s.get(one)
            if start_s is None:
                start_s = lrm.planned_start_s(one, now_s)
            expected.add(cores, length_s, at_s, start_s - at_s)
            ends_s.append(start_s + length_s)
        found = estimates.sums(now_s)
        assert found.jobs == len(open_)
        for weight in ("one", "size", "time", "work"):
            assert found.mean_wait(weight) == pytest.approx(expected.mean_wait(weight), abs=1e-6)
        assert found.weighted_completion == pytest.approx(expected.weighted_completion)
        if lrm_name != "conservative":  # which puts off the ends of overdue jobs
            assert estimates.last_end_s(now_s) == pytest.approx(max(ends_s))
    assert asked > 50


def test_ended_jobs_count_where_sums_remember_them() -> None:
    lrm = make_lrm("easy", 4)
    estimates = LrmEstimates(lrm, remembers=True)
    estimates.submit(0, 2, 10.0, 0.0)
    lrm.submit(QueuedJob(0, 2, 10.0), 0.0)
    assert lrm.schedule(0.0) == [0]
    estimates.start(0, 0.0)
    lrm.end(0, 5.0)
    estimates.end(0, 5.0)
    assert estimates.loads().jobs == 1
    assert estimates.loads().work_s == 20.0
