"""The parts of the study of predictions that change one thing at a time."""

from __future__ import annotations

import pytest

from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.replay import PastJob, moments_of
from wfrun.engine.prediction.waits.accuracy import JudgedWait
from wfrun.engine.prediction.waits.replay import ReplayedJob
from wfrun.studies.predictions.generated import GRIDS, generate_grid
from wfrun.studies.predictions.jgc import jgc_weeks
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.runtimes import runtime_causes
from wfrun.studies.predictions.waits import wait_causes
from wfrun.studies.predictions.workloads import workloads_of


def test_changes_of_bags_change_one_thing() -> None:
    grid = GRIDS["das-2"]
    base, _ = generate_grid(grid, 300, 0)
    alike, _ = generate_grid(grid, 300, 0, runtime_causes.alike)
    apart, _ = generate_grid(grid, 300, 0, runtime_causes.apart)
    assert [job.submit_s for job in alike] == [job.submit_s for job in base]
    assert sum(j.runtime_s or 0 for j in alike) == pytest.approx(
        sum(j.runtime_s or 0 for j in base)
    )
    of_bag = {(job.user, job.application, job.submit_s, job.runtime_s) for job in alike}
    assert len(of_bag) == len({job[:3] for job in of_bag})
    runtimes = {job.id: job.runtime_s for job in base}
    assert {job.id: job.runtime_s for job in apart} == runtimes
    assert len({job.submit_s for job in apart}) > 2 * len({job.submit_s for job in base})
    assert [job.submit_s for job in apart] == sorted(job.submit_s for job in apart)


def _past(owner: str, application: str, at_s: float, runtime_s: float) -> PastJob:
    job = Job(site="", owner=owner, application=application, cores=1, estimate_s=None)
    return PastJob(job, at_s, at_s + runtime_s, runtime_s)


def test_shuffled_run_times_are_those_of_the_user() -> None:
    past = [_past("ab"[n % 2], "x", n, 10.0 * n) for n in range(40)]
    changed = runtime_causes.shuffled(past)
    assert [job.runtime_s for job in changed] != [job.runtime_s for job in past]
    for owner in "ab":
        before, after = (
            sorted(one.runtime_s for one in jobs if one.job.owner == owner)
            for jobs in (past, changed)
        )
        assert before == after
    assert all(one.ended_s == one.submitted_s + one.runtime_s for one in changed)


def test_same_jobs_are_those_that_all_classes_predict() -> None:
    """The application y has no history: its job counts for the site and the user alone."""
    past = [
        _past("a", "x", 0, 100),
        _past("a", "y", 200, 50),
        _past("a", "x", 300, 100),
    ]
    cell = runtime_causes.RuntimeCauseCell(workload="w", jobs=None, change="base")
    row = runtime_causes.measured(cell, moments_of(past), runtime_causes.served([]))
    last = 3
    assert row.common == pytest.approx(1 / 3)
    assert row.own[last] == 0.5  # of 50 predicted as 100, and of 100 predicted as 50
    assert row.same[last] == 0.5
    assert row.own[-2] == row.same[-2] == 1.0


def test_spread_bursts_keep_the_others() -> None:
    jobs = [
        ReplayedJob(float(n), 10.0, 20.0, Job(site="", owner="a", application="", cores=n + 1))
        for n in range(20)
    ]
    bursts = [n < 10 for n in range(20)]
    later, moved = wait_causes.spread(jobs, bursts)
    assert sorted(job.job.cores for job in later) == list(range(1, 21))
    assert [job for job, burst in zip(later, moved, strict=True) if not burst] == jobs[10:]
    assert all(0 <= job.submit_s - (job.job.cores - 1) <= wait_causes.DELAY_S for job in later)


def test_moved_bursts() -> None:
    """Of 100 jobs the bounds of the 10 in the burst fail: elsewhere they hold."""
    waits = [JudgedWait(2.0 if n < 10 else 0.0, 1.0, n < 10) for n in range(100)]
    shares = wait_causes.moved_shares(waits)
    assert len(shares) == wait_causes.SHIFTS
    assert shares[len(shares) // 2] == 1.0
    assert shares == sorted(shares)
    assert wait_causes.moved_shares([one._replace(in_burst=False) for one in waits]) == [0.0]


def test_weeks_need_the_logs() -> None:
    setting = PartSetting(True, workloads_of(None, []))
    assert not jgc_weeks.cells(setting)
    assert not list(jgc_weeks.page(jgc_weeks.WeekSamples(setting, [], True), {}))
