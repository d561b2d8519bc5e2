"""Expected waits in the present queue of a cluster."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from wfrun.engine.queues import SimulatedJob
from wfrun.runners.simulate.queue_waits import expected_wait, sampled


def job(runtime_s: float, cores: int) -> SimulatedJob:
    return SimulatedJob(0.0, runtime_s, cores, runtime_s)


def test_an_idle_cluster_has_no_wait() -> None:
    wait = expected_wait(4, 3600, 8, [])
    assert (wait.wait_s, wait.bound_s) == (0, 0)
    wait = expected_wait(4, 3600, 8, [job(100, 4)])
    assert (wait.wait_s, wait.bound_s) == (0, 0)


def test_a_full_cluster_has_one_and_its_bound_is_larger() -> None:
    wait = expected_wait(1, 3600, 8, [job(600, 8)])
    assert 300 < wait.wait_s < 1200 < wait.bound_s <= 19 * 600
    assert expected_wait(1, 3600, 8, [job(600, 8)]) == wait  # seeded


def test_wide_jobs_wait_longer_and_short_ones_are_backfilled() -> None:
    ahead = [job(600, 1) for _ in range(8)]
    one, whole = (expected_wait(cores, 3600, 8, ahead) for cores in (1, 8))
    assert one.bound_s < whole.wait_s
    ahead = [job(600, 7), job(600, 8)]
    short, long = (expected_wait(1, requested_s, 8, ahead) for requested_s in (1, 1e6))
    assert short.wait_s == 0 < long.wait_s


def test_sampled_times_have_their_expected_time_as_median() -> None:
    random = Random(1)
    times = [sampled([job(100, 1)], random)[0].runtime_s for _ in range(2000)]
    assert median(times) == pytest.approx(100, rel=0.1)
    assert sum(each > 900 for each in times) / 2000 == pytest.approx(0.1, abs=0.02)
    assert max(times) <= 1900


def test_no_job_is_sampled_past_its_limit() -> None:
    limited = SimulatedJob(0.0, 100.0, 8, 400.0)
    random = Random(3)
    times = [sampled([limited], random)[0] for _ in range(500)]
    assert max(each.runtime_s for each in times) == 400
    assert {each.requested_s for each in times} == {400}
    assert expected_wait(8, 3600, 8, [limited]).bound_s == 400
    assert expected_wait(8, 3600, 8, [job(100, 8)]).bound_s > 400
