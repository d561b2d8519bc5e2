"""Bags with optional tasks: by hand, and in random worlds with crashes."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import pytest

from tests.engine.steps import Meter
from wfrun.engine import events as ev
from wfrun.engine.capabilities.optional import Optionals
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Axis, Bag, Catalog, OptionalTasks, Progression, SiteSpec, Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.testing.fake_sites import Behaviour
from wfrun.testing.fake_world import FakeWorld


def bag(owner: str, tasks: int, runtime_s: float, optional: OptionalTasks | None) -> Workflow:
    """Tasks of this run time each."""
    axis = Axis(("n",), (Progression(0, 1, tasks),))
    return expand(
        Bag(owner, "b", "x", axes=(axis,), estimate=str(runtime_s), owner=owner, optional=optional)
    )


def world_of(
    *bags: Workflow, slots: tuple[int, ...] = (2,), selection: str = "ethic", **options: object
) -> FakeWorld:
    catalog = Catalog(tuple(SiteSpec(f"s{i}", slots=n) for i, n in enumerate(slots)))
    settings = ev.Settings(policy="fpf", selection=selection)
    return FakeWorld(list(bags), catalog, settings, **options)  # type: ignore[arg-type]


def killed(world: FakeWorld) -> list[str]:
    events = (event for event in world.log if isinstance(event, ev.AttemptsKilled))
    return [key for event in events for key in event.keys]


@pytest.mark.parametrize("selection", ["", "s-t", "ethic"])
def test_the_rest_is_not_needed_at_the_deadline(selection: str) -> None:
    world = world_of(bag("a", 50, 1.0, OptionalTasks(3, within_s=5.5)), selection=selection)
    assert world.run() == "done"
    state = world.core.state
    assert (state.done, state.unneeded, state.failed) == (10, 40, 0)
    assert state.workflows[0].ended_s == pytest.approx(5.5, abs=0.2)
    assert not state.attempts


def test_mandatory_tasks_are_awaited_after_the_deadline() -> None:
    """The hard deadline is the end of the last mandatory task (section 3.2)."""
    world = world_of(bag("a", 50, 4.0, OptionalTasks(3, within_s=2.0)))
    assert world.run() == "done"
    bag_ = world.core.state.get(Optionals).bags[0]
    assert bag_.mandatory_s == bag_.closed_s == pytest.approx(8.0, abs=0.2)
    assert world.core.state.done in (3, 4)  # the optional one beside it may end first


def test_no_more_than_the_maximum_are_run() -> None:
    world = world_of(bag("a", 50, 1.0, OptionalTasks(3, max=7)))
    assert world.run() == "done"
    assert (world.core.state.done, world.core.state.unneeded) == (7, 43)


def test_mandatory_tasks_kill_optional_ones_only_without_idle_slots() -> None:
    bags = [bag(o, 50, 10.0, OptionalTasks(2, within_s=35.0)) for o in "ab"]
    world = world_of(*bags, slots=(2, 1), arrive_s=(0.0, 13.0))
    assert world.run() == "done"
    assert len(killed(world)) == 2
    assert all(key.split(".")[1] == "0" for key in killed(world))
    started = [e for e in world.log if isinstance(e, ev.AttemptStarted) and ".1." in e.key]
    assert all(e.at_s < 14.0 for e in started[:2])


def test_a_normal_workflow_kills_optional_tasks() -> None:
    bags = [bag("a", 50, 100.0, OptionalTasks(0, within_s=300.0)), bag("b", 3, 1.0, None)]
    world = world_of(*bags, arrive_s=(0.0, 50.0))
    assert world.run() == "done"
    assert len(killed(world)) >= 2
    assert world.core.state.workflows[1].ended_s == pytest.approx(52.0, abs=1.0)


def test_optional_tasks_are_shared_equally_among_owners() -> None:
    bags = [bag(o, 500, 1.0, OptionalTasks(3, within_s=60.0)) for o in "abcde"]
    world = world_of(*bags, slots=(3, 2), arrive_s=(0.0, 0.1, 0.2, 0.3, 0.4))
    assert world.run() == "done"
    done = [w.done for w in world.core.state.workflows]
    assert max(done) - min(done) <= 3
    assert sum(done) > 0.95 * 300


def test_tasks_that_wait_at_a_site_count_before_they_start() -> None:
    """Short runs, at sites that hold as many tasks as they run: the first ones are all placed
    before any has ended."""
    bags = [bag(o, 100, 1.0, OptionalTasks(1, within_s=4.0)) for o in "ab"]
    world = world_of(*bags, slots=(8, 8), arrive_s=(0.0, 0.0))
    assert world.run() == "done"
    a, b = (w.done for w in world.core.state.workflows)
    assert abs(a - b) <= 1
    assert a + b >= 48


def test_a_mandatory_task_that_fails_for_good_ends_the_bag_at_its_deadline() -> None:
    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome("exit", exit_code=1) if task == 0 else Outcome("done")

    world = world_of(bag("a", 500, 1.0, OptionalTasks(2, within_s=100.0)), result=result)
    assert world.run() == "failed"
    state = world.core.state
    assert state.failed == 1
    assert state.unneeded > 0
    assert state.ended_s is not None
    assert state.ended_s < 150.0


def steps_of_the_end(tasks: int) -> int:
    """The steps of the end of a bag at its deadline, when ten tasks are done."""
    world = world_of(bag("a", tasks, 1.0, OptionalTasks(3, within_s=5.5)))
    meter, step = Meter(), world.core.step
    counted: list[int] = []

    def count(event: ev.Event) -> Any:
        if not isinstance(event, ev.TimerFired):
            return step(event)
        result, steps = meter.count(step, event)
        counted.append(steps)
        return result

    world.core.step = count  # type: ignore[method-assign]
    with meter:
        assert world.run() == "done"
    assert world.core.state.unneeded == tasks - 10
    return sum(counted)


def test_the_end_of_a_bag_costs_no_more_with_more_tasks_left() -> None:
    assert steps_of_the_end(10_000) == steps_of_the_end(100)


def test_bags_that_are_added_together_get_one_decision() -> None:
    """Otherwise the optional tasks of the first bag are started, and killed for mandatory ones of
    the next."""
    bags = [bag(o, 50, 5.0, OptionalTasks(2, within_s=18.0)) for o in "abc"]
    apart, together = (
        world_of(*bags, slots=(4, 3), together=together) for together in (False, True)
    )
    assert apart.run() == together.run() == "done"
    assert killed(apart)
    assert not killed(together)
    placed = [e.workflow for e in together.log if isinstance(e, ev.AttemptPlaced)]
    assert sorted(placed[:6]) == [0, 0, 1, 1, 2, 2]


def test_the_last_of_the_bags_that_are_added_together_may_have_nothing_to_run() -> None:
    tasks = bag("b", 1, 1.0, None)
    reused = (ev.ReusedTasks("before", (0,), ()),)
    world = world_of(bag("a", 4, 1.0, None), tasks, together=True, reused={1: reused})
    assert world.run() == "done"
    assert world.core.state.workflows[0].ended_s == pytest.approx(2.0, abs=0.2)


def test_a_crash_between_bags_that_are_added_together() -> None:
    bags = [bag(o, 20, 2.0, OptionalTasks(3, within_s=9.0)) for o in "abc"]
    for step in range(1, 12):
        for goes_on in (False, True):
            world = world_of(*bags, slots=(2, 1), together=True, behaviour=Slow(step))
            for _ in islice(world.steps(), step):
                pass
            if goes_on:  # as an observer does that reads the log of a run under way
                follower = Core(world.documents)
                follower.replay(world.log)
                world.core = follower
            else:
                world.crash()
            world.run()
            check(world, step)


class Slow(Behaviour):
    """Reports and cancellations that take drawn times, and attempts that crashes lose."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.reports_times = True

    def _random(self, *what: object) -> Random:
        return Random("/".join(map(str, (self._seed, *what))))

    def report_delay_s(self, key: str) -> float:
        return self._random("report", key).choice([0.0, 0.0, 0.5, 2.0])

    def cancel_s(self, key: str) -> float:
        return self._random("cancel", key).choice([0.0, 0.1, 3.0])

    def keeps(self, key: str, crash: int, *, started: bool) -> bool:
        return self._random("keeps", key, crash).random() < 0.8


def random_world(seed: int) -> FakeWorld:
    random = Random(seed)
    bags = []
    for number in range(random.randint(1, 5)):
        least, tasks = random.randint(0, 6), random.randint(6, 60)
        optional = OptionalTasks(
            least,
            random.choice([None, least + random.randint(0, 20)]),
            within_s=random.choice([1.0, 10.0, 40.0]),
        )
        runtime_s = random.choice([0.3, 1.0, 7.0])
        is_normal = random.random() < 0.25
        owner = "abc"[number % 3]
        bags.append(bag(owner, tasks % 20 + 1 if is_normal else tasks, runtime_s,
                        None if is_normal else optional))  # fmt: skip
    arrive_s = sorted(random.uniform(0.0, 20.0) for _ in bags)
    slots = tuple(random.randint(1, 4) for _ in range(random.randint(1, 3)))
    selection = random.choice(["", "s-t", "s-u-rr", "ethic", "ethic"])
    return world_of(
        *bags, slots=slots, selection=selection, arrive_s=arrive_s, behaviour=Slow(seed)
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_nobody_loses_mandatory_tasks_in_random_worlds(part: int) -> None:
    for seed in range(part * 50, part * 50 + 50):
        world = random_world(seed)
        random = Random(f"crashes {seed}")
        for _ in range(random.choice([0, 1, 2, 5])):
            for _ in islice(world.steps(), random.randint(1, 60)):
                pass
            if world.core.state.ended is None:
                world.crash(away_s=random.choice([0.0, 1.0, 15.0]))
        for _ in world.steps():
            pass
        check(world, seed)


def check(world: FakeWorld, seed: int) -> None:
    state = world.core.state
    assert state.ended == "done", (seed, state.ended, state.end_reason)
    optionals = state.get(Optionals)
    for w in state.workflows:
        found = optionals.bags.get(w.index)
        mandatory = len(w.status) if found is None else found.mandatory
        assert set(w.status[:mandatory]) <= {TaskStatus.DONE}, seed
        assert set(w.status[mandatory:]) <= {TaskStatus.DONE, TaskStatus.UNNEEDED}, seed
        if found is not None:
            assert set(w.status[found.most :]) <= {TaskStatus.UNNEEDED}, seed
    for key in killed(world):
        _, workflow, task, *_ = key.split(".")
        assert not optionals.is_mandatory(int(workflow), int(task)), seed
    assert not any(optionals._open), seed
    assert not any(optionals._dying_cores), seed


@pytest.mark.slow
def test_a_crash_after_any_step_loses_no_mandatory_task() -> None:
    kinds = set()
    for step in range(1, 90):
        bags = [bag(o, 20, 2.0, OptionalTasks(3, within_s=9.0)) for o in "ab"]
        world = world_of(*bags, slots=(2, 1), arrive_s=(0.0, 3.5), behaviour=Slow(step))
        *_, last = islice(world.steps(), step)
        if world.core.state.ended is not None:
            break
        kinds.add(type(last))
        world.crash(away_s=1.0)
        world.run()
        check(world, step)
    assert kinds >= {ev.AttemptStarted, ev.AttemptEnded, ev.TimerFired}
