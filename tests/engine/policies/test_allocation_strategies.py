"""The allocation strategies on worlds worked out by hand, and what they compare."""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import pstdev
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.policies.test_policies import bag, places, run, sites
from wfrun.engine import events as ev
from wfrun.engine.capabilities.view import refusals
from wfrun.engine.core.core import Core
from wfrun.engine.jobs.open_sums import OpenSums, Overdue, Weight
from wfrun.engine.model import SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.allocation import STRATEGIES, Strategy
from wfrun.engine.policies.placement.allocation.loads import Mpl
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.engine.queues.queue_model import QueueModel, make_queue_model
from wfrun.testing import FakeView

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


def test_mst_prefers_free_processors_to_those_of_an_overdue_task() -> None:
    """Task 0 takes much longer at the first site than is expected."""
    later = Workflow("later", "w.dax", [Task("t", "x", "x", runtime_s=1.0)], [], [()])
    core = Core({"0": bag(1), "1": later})
    specs = SiteSpec("a", 1), SiteSpec("b", 1)
    core.step(ev.RunStarted(0.0, "r", ev.Settings("mst"), specs, (), 2))
    core.step(ev.WorkflowAdded(0.0, 0, "bag", "0"))
    core.step(ev.AttemptStarted(0.0, "r.0.0.1"))
    (placed,), _ = core.step(ev.WorkflowAdded(500.0, 1, "later", "1"))
    assert isinstance(placed, ev.AttemptPlaced)
    assert placed.site == 1


@BOTH
def test_an_overdue_task_is_completed_now_at_the_earliest(backfills: bool) -> None:
    """Two tasks of two cores and 10 s run since time 0; at time 30 one of them is still there, and
    a third one has run for 4 s."""
    model = make_queue_model(4, backfills=backfills)
    for key, at_s in (("a", 0.0), ("b", 0.0), ("c", 26.0)):
        model.place(key, 2, 10.0, at_s, at_s)
        model.start(key, at_s)
        if key == "b":
            model.end("b", 10.0)
    assert model.sums.weighted_completion == pytest.approx(20.0 * (10.0 + 36.0))
    assert model.overdue_work(30.0) == pytest.approx(20.0 * (30.0 - 10.0))
    model.end("a", 40.0)
    assert model.overdue_work(36.0) == 0.0
    assert model.overdue_work(37.0) == pytest.approx(20.0)


@BOTH
def test_a_task_behind_an_overdue_one_is_completed_now_at_the_earliest(backfills: bool) -> None:
    """Two tasks of 10 s on one core; at time 500 the first one still runs."""
    model = make_queue_model(1, backfills=backfills)
    model.place("a", 1, 10.0, 0.0, 0.0)
    model.place("b", 1, 10.0, 0.0, 0.0)
    model.start("a", 0.0)
    assert model.sums.weighted_completion == pytest.approx(10.0 * (10.0 + 20.0))
    assert model.overdue_work(500.0) == pytest.approx(10.0 * (490.0 + 480.0))
    model.end("a", 500.0)
    model.start("b", 500.0)
    assert model.overdue_work(500.0) == 0.0


@pytest.mark.parametrize("seed", range(10))
def test_overdue_tasks_are_those_of_a_list(seed: int) -> None:
    """Tasks come, change and leave; one of both sums is asked all the time, the other at the end,
    as after a replay."""
    random, now_s = Random(seed), 1.7e9
    asked, silent = Overdue[int](), Overdue[int]()
    tasks: dict[int, tuple[float, float]] = {}
    for number in range(500):
        now_s += random.expovariate(0.2)
        for key in random.sample(list(tasks), min(len(tasks), random.choice([0, 1, 1, 2]))):
            del tasks[key]
            asked.remove(key)
            silent.remove(key)
        for key in (number, random.choice([number, *tasks])):
            tasks[key] = now_s + random.uniform(-5.0, 100.0), random.uniform(0.1, 1e5)
            asked.expect(key, *tasks[key])
            silent.expect(key, *tasks[key])
        expected = sum(work_s * max(0.0, now_s - end_s) for end_s, work_s in tasks.values())
        assert asked.work(now_s) == pytest.approx(expected, abs=1.0)
    assert silent.work(now_s) == asked.work(now_s)


def test_mwt_goes_where_tasks_wait_least_on_average() -> None:
    """Two sites of one core. Each task that goes to a site raises the mean wait there: means are
    0, 5 and 10 s with one, two and three tasks of 10 s."""
    world = run("mwt", [bag(5)], sites((1, 1.0), (1, 1.0)))
    # 0/0: first; 0/0: first, though it waits there; 5/0: second; 5/0: second; 5/5: first
    assert list(places(world).values()) == [0, 0, 1, 1, 0]


VIEW = FakeView(
    site_count=3,
    site_slots={0: 4, 1: 8, 2: 16},
    tasks_open={0: 1, 1: 4, 2: 6},  # per core 0.25, 0.5, 0.375
    loads={0: 1.0, 1: 0.5, 2: 0.75},
    times_s={0: 80.0, 1: 40.0, 2: 800.0},  # per core 20, 5, 50
    works_s={0: 80.0, 1: 400.0, 2: 160.0},  # per core 20, 50, 10
    last_ends_s={0: 30.0, 1: 20.0, 2: 10.0},
    waits_s={0: 5.0, 1: 3.0, 2: 4.0},
    mean_waits={
        (0, "one"): 1.0, (1, "one"): 2.0, (2, "one"): 3.0,
        (0, "size"): 3.0, (1, "size"): 2.0, (2, "size"): 1.0,
        (0, "time"): 2.0, (1, "time"): 1.0, (2, "time"): 3.0,
        (0, "work"): 5.0, (1, "work"): 2.0, (2, "work"): 1.0,
    },
    weighted_completions={0: 7.0, 1: 9.0, 2: 8.0},
    task_cores={0: 2},
    task_runtimes_s={0: 10.0},
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("mlp", 0), ("mpl", 1), ("mlb", 2), ("mct", 2), ("mwt", 0), ("mwwt-s", 2), ("mwwt-t", 1),
        ("mwwt-w", 2), ("mst", 1), ("mswct-w", 0), ("lbal-s", 1), ("lbal-t", 1), ("lbal-w", 0),
    ],
)  # fmt: skip
def test_each_strategy_minimizes_what_table_1_says(name: str, site: int) -> None:
    policy = PLACEMENT[name](VIEW, {})
    assert policy.place(0) == site


@given(
    loads=st.lists(st.floats(0, 3), min_size=2, max_size=6),
    slots=st.lists(st.integers(2, 64), min_size=6, max_size=6),
    cores=st.integers(1, 64),
)
def test_lbal_leaves_the_least_deviation(loads: list[float], slots: list[int], cores: int) -> None:
    """The formula of Table 1 with the deviation computed for each site."""
    view = FakeView(
        site_count=len(loads), loads=dict(enumerate(loads)), site_slots=dict(enumerate(slots)),
        task_cores={0: cores},
    )  # fmt: skip

    def deviation(site: int) -> float:
        after = [load + (n == site) * cores / slots[n] for n, load in enumerate(loads)]
        return pstdev(after)

    chosen = PLACEMENT["lbal-s"](view, {}).place(0)
    assert chosen is not None
    assert deviation(chosen) == pytest.approx(min(map(deviation, range(len(loads)))), abs=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_has_the_information_of_its_level(strategy: type[Strategy]) -> None:
    """Level 1: sizes. Level 2: also run times. Level 3: also schedules."""
    refused = {method for method, _ in refusals(strategy.information)}
    assert not refused & {"open_tasks", "load"}
    assert {"open_work_s", "predict_s"} <= refused or strategy.level > 1
    assert {"estimate_start_s", "mean_wait", "last_end_s"} <= refused or strategy.level > 2


def test_a_strategy_that_asks_for_more_than_its_level_is_an_error() -> None:
    class Curious(Mpl):
        def place(self, task: int) -> int:
            return int(self.view.open_work_s(0))

    with patch.dict(PLACEMENT, {"mpl": Curious}), pytest.raises(PolicyError, match="task_runtime"):
        run("mpl", [bag(1)], sites((1, 1.0)))


def test_random_takes_every_site_about_equally_often() -> None:
    view = FakeView(site_count=4, parents=[()] * 2000)
    policy = PLACEMENT["random"](view, {})
    counts = Counter(policy.place(task) for task in range(2000))
    assert all(400 < counts[site] < 600 for site in range(4))
    assert [policy.place(task) for task in range(9)] == [policy.place(task) for task in range(9)]


SHAPES = st.tuples(st.integers(1, 8), st.floats(1, 500), st.floats(0, 1000), st.floats(0, 1000))


@given(open_=st.lists(SHAPES, min_size=1, max_size=8), seed=st.integers(0, 9))
def test_sums_are_those_of_the_open_jobs(
    open_: list[tuple[int, float, float, float]], seed: int
) -> None:
    """Jobs come, wait longer than planned and leave, all but the first half."""
    sums, random = OpenSums(), Random(seed)
    waits = {}
    for n, (cores, runtime_s, at_s, wait_s) in enumerate(open_):
        sums.add(cores, runtime_s, at_s, wait_s)
        more_s = random.uniform(-wait_s, 100)
        sums.wait(cores, runtime_s, more_s)
        waits[n] = wait_s + more_s
    kept = range((len(open_) + 1) // 2)
    for n in range(len(kept), len(open_)):
        cores, runtime_s, at_s, _ = open_[n]
        sums.remove(cores, runtime_s, at_s, waits[n])
    jobs = [(c, r, at, waits[n]) for n, (c, r, at, _) in enumerate(open_) if n in kept]
    weights = {"one": 0.0, "size": 0.0, "time": 0.0, "work": 0.0}
    for cores, runtime_s, _, wait_s in jobs:
        weights["one"] += wait_s / len(jobs)
        weights["size"] += wait_s * cores / len(jobs)
        weights["time"] += wait_s * runtime_s / len(jobs)
        weights["work"] += wait_s * runtime_s * cores / len(jobs)
    assert sums.jobs == len(jobs)
    assert sums.time_s == pytest.approx(sum(job[1] for job in jobs))
    assert sums.work_s == pytest.approx(sum(job[0] * job[1] for job in jobs))
    for weight in get_args(Weight):
        assert sums.mean_wait(weight) == pytest.approx(weights[weight], rel=1e-6, abs=1e-6)
    completions = sum((at + w + r) * c * r for c, r, at, w in jobs)
    assert sums.weighted_completion == pytest.approx(completions)
