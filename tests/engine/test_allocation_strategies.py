"""MST and MWT on small queues worked out by hand."""

from __future__ import annotations

import pytest

from tests.engine.test_policies import bag, places, run, sites
from wfrun.engine.queue_model import QueueModel, make_queue_model

BOTH = pytest.mark.parametrize("backfills", [False, True])


@BOTH
def test_the_mean_wait_counts_open_tasks_only(backfills: bool) -> None:
    """Two cores, three tasks of 10 s at time 0, one of 4 s at time 1."""
    model: QueueModel = make_queue_model(2, backfills=backfills)
    assert model.sums.mean_wait("one") == 0.0
    for key in "abc":
        model.place(key, 1, 10.0, 0.0, 0.0)
    model.place("d", 1, 4.0, 1.0, 1.0)
    assert model.sums.mean_wait("one") == pytest.approx((0 + 0 + 10 + 9) / 4)
    model.start("a", 0.0)
    model.start("b", 0.0)
    model.end("a", 10.0)
    model.start("c", 10.0)
    assert model.sums.mean_wait("one") == pytest.approx((0 + 10 + 9) / 3)
    for key, at_s in (("b", 10.0), ("c", 20.0), ("d", 14.0)):
        model.end(key, at_s)
    assert model.sums.mean_wait("one") == 0.0


@BOTH
def test_the_mean_wait_follows_ends_that_were_not_expected(backfills: bool) -> None:
    """One core, six tasks of 10 s; five of them end after 1 s, with which the plan is made anew."""
    model = make_queue_model(1, backfills=backfills)
    for key in "abcdef":
        model.place(key, 1, 10.0, 0.0, 0.0)
    assert model.sums.mean_wait("one") == pytest.approx(25.0)
    for now_s, key in enumerate("abcde"):
        model.start(key, now_s)
        model.end(key, now_s + 1.0)
    assert model.rebuilds == 1
    assert model.sums.mean_wait("one") == pytest.approx(5.0)


def test_mst_goes_where_a_queue_starts_a_task_first() -> None:
    """Sites of 1 and 2 cores: the first start at once, then every 10 s, ties to the first."""
    world = run("mst", [bag(6)], sites((1, 1.0), (2, 5.0)))
    # Starts at (0, 0), (-, 0), (-, 0); then the second site has cores again after 2 s.
    assert list(places(world).values()) == [0, 1, 1, 1, 1, 1]


def test_mwt_goes_where_tasks_wait_least_on_average() -> None:
    """Two sites of one core. Each task that goes to a site raises the mean wait there: means are
    0, 5 and 10 s with one, two and three tasks of 10 s."""
    world = run("mwt", [bag(5)], sites((1, 1.0), (1, 1.0)))
    # 0/0: first; 0/0: first, though it waits there; 5/0: second; 5/0: second; 5/5: first
    assert list(places(world).values()) == [0, 0, 1, 1, 0]
