"""The queue of transfers that share a rate evenly."""

from __future__ import annotations

from math import inf

import pytest

from wfrun.sites.transfers.fair_queue import FairQueue


def test_transfers_end_when_they_have_got_their_bytes() -> None:
    queue = FairQueue()
    assert queue.due_s == inf
    queue.join(0, 100, 5.0)
    queue.set_rate(10, 5.0)
    assert queue.due_s == 15
    queue.join(1, 20, 10.0)  # 50 bytes are left of the first
    queue.set_rate(5, 10.0)
    assert queue.due_s == 14
    assert queue.leave(14.0) == [1]
    queue.set_rate(10, 14.0)  # 30 bytes are left
    assert (queue.count, queue.due_s) == (1, 17)
    assert queue.leave(17.0) == [0]
    queue.set_rate(0, 17.0)
    assert (queue.count, queue.due_s) == (0, inf)


def test_equal_transfers_end_together_and_cancelled_ones_never() -> None:
    queue = FairQueue()
    for serial, size_bytes in enumerate((40, 10, 40, 40)):
        queue.join(serial, size_bytes, 0.0)
    queue.set_rate(1, 0.0)
    assert queue.due_s == 10
    queue.remove(1, 8.0)
    queue.remove(2, 8.0)
    queue.set_rate(2, 8.0)
    assert queue.due_s == 8 + (40 - 8) / 2
    assert queue.leave(queue.due_s) == [0, 3]


def test_rounding_never_puts_an_end_into_the_past() -> None:
    queue = FairQueue()
    queue.join(0, 0.3, 0.0)
    queue.set_rate(0.1, 0.0)
    queue.set_rate(0.1, 3.0000000000000004)  # a little more than it takes
    assert queue.due_s == 3.0000000000000004
    assert queue.leave(queue.due_s) == [0]


@pytest.mark.parametrize("size_bytes", [0, 0.0])
def test_empty_files_end_at_once(size_bytes: float) -> None:
    queue = FairQueue()
    queue.join(0, size_bytes, 3.0)
    queue.set_rate(7, 3.0)
    assert queue.due_s == 3
