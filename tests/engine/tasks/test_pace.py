"""The pace of a site: how many tasks are prefetched follows from what was observed."""

from __future__ import annotations

import pytest

from wfrun.engine.tasks.pace import Pace


def observed(
    *, slots: int, latencies_s: list[float], runtimes_s: list[float], rounds: int = 1
) -> Pace:
    """The pace of a site whose slots all ended these tasks, one after another."""
    pace, now_s = Pace(10.0), 0.0
    for _ in range(rounds):
        for latency_s, runtime_s in zip(latencies_s, runtimes_s, strict=True):
            now_s += runtime_s / slots
            pace.on_end(now_s, 1, slots, others_wait=True)
            pace.on_success(runtime_s, latency_s, found_idle=True)
    return pace


def test_nothing_is_prefetched_before_the_first_end() -> None:
    pace = Pace(10.0)
    assert pace.prefetched_cores(16) == 0
    assert pace.latency_s == 10.0
    assert pace.cores_per_s(16) is None


def test_prefetching_begins_with_as_many_cores_as_have_ended() -> None:
    for ended in (1, 4, 10):
        pace = observed(slots=16, latencies_s=[1.0] * ended, runtimes_s=[0.1] * ended)
        assert pace.prefetched_cores(16) == ended


def test_what_starts_during_the_latency_is_prefetched() -> None:
    pace = observed(slots=16, latencies_s=[1.0] * 20, runtimes_s=[0.5] * 20, rounds=10)
    assert pace.latency_s == pytest.approx(1.0)
    assert pace.cores_per_s(16) == pytest.approx(32)
    assert pace.prefetched_cores(16) == pytest.approx(32, abs=1)


def test_the_spread_of_latencies_and_run_times_counts() -> None:
    even = observed(slots=8, latencies_s=[1.0] * 20, runtimes_s=[1.0] * 20, rounds=5)
    late = observed(slots=8, latencies_s=[0.5, 1.5] * 10, runtimes_s=[1.0] * 20, rounds=5)
    uneven = observed(slots=8, latencies_s=[1.0] * 20, runtimes_s=[0.2, 1.8] * 10, rounds=5)
    assert even.prefetched_cores(8) == pytest.approx(8, abs=1)
    assert late.prefetched_cores(8) == pytest.approx(8 * 2, abs=1)
    assert uneven.prefetched_cores(8) == pytest.approx(8 + 2 * 0.8 * 8**0.5, abs=1)


def test_a_batch_system_that_starts_jobs_slowly_gets_fewer() -> None:
    """Tasks of 0.1 s on 16 slots would end at 160 a second, but only four a second start."""
    pace = Pace(10.0)
    for number in range(200):
        pace.on_end(number / 4, 1, 16, others_wait=True)
        pace.on_success(0.1, 1.0, found_idle=True)
    assert pace.cores_per_s(16) == pytest.approx(4, rel=0.1)
    assert pace.prefetched_cores(16) <= 6


def test_long_tasks_are_not_prefetched() -> None:
    pace = observed(slots=16, latencies_s=[1.0] * 20, runtimes_s=[60.0] * 20)
    assert pace.prefetched_cores(16) == 0


def test_long_tasks_are_prefetched_where_one_of_many_slots_is_soon_free() -> None:
    """Tasks of 1 s and a latency of 15 ms: a prefetched task waits up to 25 ms with 40 slots, less
    than twice the latency, and 33 ms with 30 slots."""
    few, many = (
        observed(slots=slots, latencies_s=[0.015] * 20, runtimes_s=[1.0] * 20, rounds=10)
        for slots in (30, 40)
    )
    assert few.prefetched_cores(30) == 0
    assert many.prefetched_cores(40) == 1


def test_tasks_that_started_together_are_prefetched_for_their_common_end() -> None:
    """40 slots whose tasks of 1 s all end within 40 ms, and then none until the next second."""
    pace, now_s = Pace(10.0), 0.0
    for second in range(10):
        for number in range(40):
            now_s = second + number / 1000
            pace.on_end(now_s, 1, 40, others_wait=True)
            pace.on_success(1.0, 0.015, found_idle=True)
    assert 6 <= pace.prefetched_cores(40) <= 15  # 15 of them end within a latency.


def test_staging_alone_prefetches_no_long_tasks() -> None:
    """The copies of a prefetched task are lost if it starts at another site."""
    pace = Pace(10.0)
    for number in range(50):
        pace.on_end(float(number), 1, 100, others_wait=True)
        pace.on_success(100.0, 1.5, 1.5, found_idle=True)
    assert pace.prefetched_cores(100) == 0


def test_a_wait_for_a_slot_is_no_latency() -> None:
    pace = observed(slots=2, latencies_s=[1.0] * 20, runtimes_s=[5.0] * 20)
    pace.on_success(5.0, 40.0, found_idle=False)
    assert pace.latency_s == pytest.approx(1.0)
    for _ in range(20):  # an upper bound of it
        pace.on_success(5.0, 0.5, found_idle=False)
    assert pace.latency_s < 0.8


def test_a_site_without_slots_starts_nothing() -> None:
    pace = observed(slots=2, latencies_s=[1.0] * 20, runtimes_s=[5.0] * 20)
    assert pace.cores_per_s(0) == 0
    assert pace.prefetched_cores(0) == 0
