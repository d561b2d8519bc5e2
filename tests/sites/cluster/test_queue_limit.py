"""The limit on our jobs in a queue, as it is learned from refusals."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.sites.cluster.queue_limit import CONTRADICTIONS, PROBE_S, QueueLimit


def submit(learned: QueueLimit, limit: int, in_queue: int, pending: int, now_s: float) -> int:
    """Submit what the learned limit allows; returns the number of jobs that were accepted, 0 after
    a refusal."""
    bound = learned.bound(now_s)
    asked = pending if bound is None else min(pending, bound - in_queue)
    assert asked >= 0
    if in_queue + asked > limit:
        learned.refuse(in_queue, asked, now_s)
        return 0
    learned.accept(in_queue + asked)
    return asked


def fill(learned: QueueLimit, limit: int, pending: int, now_s: float = 0.0) -> tuple[int, int]:
    """Submit to an empty queue until the limit is known or nothing is pending; returns the number
    of jobs in the queue, and of refusals."""
    in_queue = refusals = 0
    while in_queue < pending and learned.bound(now_s) != in_queue:
        accepted = submit(learned, limit, in_queue, pending - in_queue, now_s)
        in_queue += accepted
        refusals += not accepted
    return in_queue, refusals


@given(st.integers(1, 500), st.integers(1, 5000))
def test_it_is_found_by_bisection(limit: int, pending: int) -> None:
    learned = QueueLimit()
    in_queue, refusals = fill(learned, limit, pending)
    assert in_queue == min(limit, pending)
    assert refusals <= ceil(log2(pending)) + 1
    assert learned.known == (limit if pending > limit else None)


def test_nothing_is_refused_again_until_the_next_probe() -> None:
    learned = QueueLimit()
    fill(learned, 40, 1000)
    assert learned.bound(PROBE_S - 1) == 40
    assert learned.bound(PROBE_S) == 50
    learned.refuse(40, 10, PROBE_S)
    assert learned.bound(PROBE_S + 1) == 40


def test_a_limit_that_has_risen() -> None:
    learned = QueueLimit()
    fill(learned, 40, 1000)
    learned.accept(50)
    assert learned.known is None
    assert learned.bound(PROBE_S) is None
    assert fill(learned, 60, 1000, PROBE_S)[0] == 60
    assert learned.known == 60


def test_jobs_that_the_batch_system_still_counts_are_no_lower_limit() -> None:
    learned = QueueLimit()
    fill(learned, 40, 1000)
    for _ in range(CONTRADICTIONS - 1):
        learned.refuse(30, 10, 1.0)
        assert learned.known == 40
    learned.accept(40)
    learned.refuse(30, 10, 2.0)
    assert learned.known == 40


@pytest.mark.parametrize("now", [0, 1, 30])
def test_a_limit_that_has_fallen(now: int) -> None:
    learned = QueueLimit()
    fill(learned, 40, 1000)
    for _ in range(CONTRADICTIONS):
        learned.refuse(now, 40 - now, 1.0)
    in_queue = now
    for _ in range(20):
        in_queue += submit(learned, 32, in_queue, 1000, 1.0)
    assert (in_queue, learned.known) == (32, 32)


def test_a_queue_that_takes_nothing_is_asked_for_one() -> None:
    learned = QueueLimit()
    learned.refuse(0, 1, 0.0)
    assert (learned.known, learned.bound(1.0)) == (None, 1)
