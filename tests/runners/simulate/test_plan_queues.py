"""The present queue of a cluster as jobs of a simulated one."""

from __future__ import annotations

import pytest

from wfrun.runners.simulate.plan_queues import ASSUMED_S, MIN_AGE_S, jobs_ahead
from wfrun.sites.batch.jobs import JobInQueue, State
from wfrun.sites.simulated.queues import SimulatedJob

NOW_S = 10_000.0


def job(cores: int, state: State = "running", started_s: float | None = None) -> JobInQueue:
    return JobInQueue("1", 1, "theirs", "other", state, cores, started_s=started_s)


def lengths(jobs: list[SimulatedJob]) -> list[tuple[int, float]]:
    return [(each.cores, each.runtime_s) for each in jobs]


def test_idle_slots_have_no_jobs_ahead_even_if_others_wait() -> None:
    jobs = [job(8, started_s=NOW_S - 100), job(4, "queued"), job(2, "held")]
    assert jobs_ahead(jobs, 4, 4, 16, NOW_S) == []


def test_a_running_job_goes_on_for_as_long_as_it_has_run() -> None:
    jobs = [job(3, started_s=NOW_S - 500), job(9, started_s=NOW_S - 1)]
    assert lengths(jobs_ahead(jobs[:1], 8, 5, 8, NOW_S)) == [(3, 500.0)]
    # Two busy slots belong to the youngest job.
    assert lengths(jobs_ahead(jobs, 8, 6, 16, NOW_S)) == [(2, MIN_AGE_S)]


def test_cores_whose_job_is_hidden_or_shows_no_start_are_busy_for_the_assumed_time() -> None:
    assert lengths(jobs_ahead([], 4, 1, 4, NOW_S)) == [(3, ASSUMED_S)]
    assert lengths(jobs_ahead([job(3)], 4, 1, 4, NOW_S)) == [(3, ASSUMED_S)]


def test_waiting_jobs_have_the_site_s_share_of_the_queue() -> None:
    jobs = [job(64, started_s=NOW_S - 300), job(32, "queued"), job(32, "held")]
    assert lengths(jobs_ahead(jobs, 8, 0, 64, NOW_S)) == [(8, 300.0), (4, 300.0)]


def test_limits_of_jobs_shorten_their_expected_times() -> None:
    limited = JobInQueue(
        "1", 1, "theirs", "other", "running", 4, started_s=9_000.0, requested_s=1_500.0
    )
    (ahead,) = jobs_ahead([limited], 4, 0, 4, NOW_S)
    assert ahead.requested_s == 500
    # It has run for 1,000 s: of P(R > r) = 1000 / (1000 + r) a third is before the limit of 500 s,
    # and half of that third is before 200 s.
    assert ahead.runtime_s == pytest.approx(200)
    waiting = JobInQueue("2", 1, "theirs", "other", "queued", 2, requested_s=1_000.0)
    _, behind = jobs_ahead([job(4, started_s=9_000.0), waiting], 4, 0, 4, NOW_S)
    assert behind.requested_s == 1_000
    assert behind.runtime_s == pytest.approx(1_000 / 3)


def test_a_job_past_its_limit_is_about_to_end() -> None:
    late = JobInQueue("1", 1, "theirs", "other", "running", 4, started_s=0.0, requested_s=60.0)
    (ahead,) = jobs_ahead([late], 4, 0, 4, NOW_S)
    assert 0 < ahead.runtime_s < ahead.requested_s == MIN_AGE_S
    unseen = JobInQueue("1", 1, "theirs", "other", "running", 4, requested_s=60.0)
    (ahead,) = jobs_ahead([unseen], 4, 0, 4, NOW_S)
    assert 0 < ahead.runtime_s < ahead.requested_s == 60
