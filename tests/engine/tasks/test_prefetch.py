"""The number of prefetched tasks covers the latency, and no more than pays."""

from __future__ import annotations

import pytest

from wfrun.engine.tasks.prefetch import MAX_PREFETCH_PER_SLOT, prefetch_per_slot


@pytest.mark.parametrize(
    ("latency_s", "task_s", "expected"),
    [
        (0.1, None, 0),  # nothing is known: wait and see
        (0.1, 3600.0, 0),
        (0.1, 5.1, 0),
        (0.1, 4.9, 1),
        (0.1, 0.1, 2),
        (0.1, 0.001, 200),
        (1.0, 1e-6, MAX_PREFETCH_PER_SLOT),
        (1.0, 0.0, MAX_PREFETCH_PER_SLOT),
    ],
)
def test_stock(latency_s: float, task_s: float | None, expected: int) -> None:
    assert prefetch_per_slot(latency_s, task_s) == expected


@pytest.mark.parametrize("latency_s", [0.001, 0.05, 0.5])
def test_a_slot_is_busy_until_the_answer_comes(latency_s: float) -> None:
    task_s = 1e-3
    while (prefetch := prefetch_per_slot(latency_s, task_s)) > 0:
        assert prefetch * task_s >= min(latency_s, MAX_PREFETCH_PER_SLOT * task_s)
        task_s *= 1.7
    assert latency_s / task_s < 0.02
