"""The placement queue: order, tries, and what a placement takes."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine.jobs.coallocation import (
    IdleProcessors,
    PlacementQueue,
    PlacementRequest,
    Try,
    place,
)


def queue_of(*sizes: int, max_tries: int | None = None) -> PlacementQueue[str]:
    queue: PlacementQueue[str] = PlacementQueue("fcm", max_tries=max_tries)
    for number, size in enumerate(sizes):
        queue.add(f"j{number}", PlacementRequest(size))
    return queue


def test_a_job_that_cannot_be_placed_does_not_block_those_behind() -> None:
    queue, idle = queue_of(20, 4, 2), IdleProcessors([8, 8])
    assert list(queue.scan(idle)) == [Try("j1", ((0, 4),)), Try("j2", ((1, 2),))]
    assert list(queue) == ["j0"]
    assert idle.counts == (4, 6)


def test_a_job_is_given_up_above_the_maximum_number_of_tries() -> None:
    queue, idle = queue_of(20, max_tries=2), IdleProcessors([8])
    assert list(queue.scan(idle)) == []
    assert list(queue.scan(idle)) == []
    assert queue.tries("j0") == 2
    assert list(queue.scan(idle)) == [Try("j0", None)]
    assert not len(queue)


def test_jobs_behind_one_that_is_given_up_are_tried_once() -> None:
    queue = queue_of(20, 30, 4, 50, max_tries=0)
    queue.add("j4", PlacementRequest(60), tries=-1)
    tried = list(queue.scan(IdleProcessors([8])))
    expected = {"j0": None, "j1": None, "j2": ((0, 4),), "j3": None}
    assert {each.job: each.placement for each in tried} == expected
    assert queue.tries("j4") == 0


def test_a_scan_that_stops_counts_no_try_of_the_jobs_behind() -> None:
    queue = queue_of(20, 4, 20)
    assert [each.job for each in islice(queue.scan(IdleProcessors([8])), 1)] == ["j1"]
    assert [queue.tries(job) for job in queue] == [1, 0]


def test_processors_that_come_back_are_seen() -> None:
    queue, idle = queue_of(8, 8), IdleProcessors([8])
    (first,) = queue.scan(idle)
    assert list(queue.scan(idle)) == []
    assert first.placement is not None
    idle.give_back(first.placement)
    assert [each.job for each in queue.scan(idle)] == ["j1"]


def test_renewed_requests_are_tried_in_the_order_of_the_queue() -> None:
    queue = queue_of(20, 20, 4)
    queue.renew(lambda job: PlacementRequest({"j0": 6, "j1": 5, "j2": 5}[job]))
    assert list(queue.scan(IdleProcessors([10]))) == [Try("j0", ((0, 6),))]
    queue.remove("j1")
    assert list(queue.scan(IdleProcessors([10]))) == [Try("j2", ((0, 5),))]
    assert not len(queue)


@given(
    st.lists(st.integers(1, 20), max_size=12),
    st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_scans_equal_tries_of_each_job_in_order(sizes: list[int], seen: list[list[int]]) -> None:
    """What the queue remembers of equal requests changes no answer."""
    queue, idle = queue_of(*sizes), IdleProcessors([0, 0, 0])
    waiting = {f"j{number}": PlacementRequest(size) for number, size in enumerate(sizes)}
    for counts in seen:
        idle.set(counts)
        left, expected = IdleProcessors(counts), []
        for job, request in list(waiting.items()):
            found = place(request, left, "fcm")
            if found is not None:
                left.take(found)
                expected.append(Try(job, found))
                del waiting[job]
        assert list(queue.scan(idle)) == expected
        assert idle.counts == left.counts
        assert min(idle.counts) >= 0
    assert list(queue) == list(waiting)
