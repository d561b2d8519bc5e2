"""Regression tests of the core: lost inputs, usage, selection, replicas."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from itertools import repeat
from time import process_time
from types import FunctionType, ModuleType

import pytest

from tests.engine.policies.test_policies import bag, chain, sites
from tests.engine.policies.test_selection import bag as owned_bag
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.engine.policies.selection import SELECTION, SelectBags
from wfrun.testing.fake_world import FakeWorld

FAILED = Outcome("exit", exit_code=1)


def placed(events: Iterable[ev.Event]) -> list[str]:
    """Attempts that were placed, by key."""
    return [event.key for event in events if isinstance(event, ev.AttemptPlaced)]


def end(core: Core, at_s: float, key: str, outcome: Outcome | None = None) -> list[ev.Event]:
    """Start the attempt, if it has not started, and end it: by default with a file of one byte."""
    decided, _ = core.step(ev.AttemptStarted(at_s, key))
    return (
        decided + core.step(ev.AttemptEnded(at_s, key, outcome or Outcome("done", sizes=(1,))))[0]
    )


# Inputs that are lost while their reader is dispatched


def pair(settings: ev.Settings, catalog: Catalog, *paused: int) -> Core:
    """P (task 0) is done at site 0; its successor C (task 1) is submitted there."""
    core = Core({"d": chain((0, 1, 1), runtimes_s=[10.0, 10.0])})
    core.step(ev.RunStarted(0.0, "r", settings, catalog.sites, (), 1))
    for site in paused:
        core.step(ev.SitePaused(0.0, site, "paused by the test"))
    core.step(ev.WorkflowAdded(0.0, 0, "dag", "d"))
    assert placed(end(core, 1.0, "r.0.0.1")) == ["r.0.1.1"]
    core.step(ev.AttemptsSubmitted(1.0, 0, ("r.0.1.1",)))
    return core


def lose(core: Core) -> list[str]:
    """Resume the run; the site has C and not the file of P. Returns the placements."""
    decided, _ = core.step(ev.RunResumed(10.0, ((0, 0, 0),)))
    found, _ = core.step(ev.AttemptsFound(10.0, 0, (), ("r.0.1.1",)))
    return placed(decided + found)


def test_a_retry_waits_for_a_lost_input() -> None:
    core = pair(ev.Settings("round-robin"), sites((2, 1.0)))
    core.step(ev.AttemptStarted(2.0, "r.0.1.1"))
    assert lose(core) == ["r.0.0.2"]
    end(core, 11.0, "r.0.1.1", FAILED)
    decided, _ = core.step(ev.TimerFired(20.0, "retry:0:1"))
    assert placed(decided) == []
    assert placed(end(core, 21.0, "r.0.0.2")) == ["r.0.1.2"]
    end(core, 22.0, "r.0.1.2", Outcome("done"))
    assert core.state.ended == "done"


def test_a_task_whose_attempt_is_withdrawn_waits_for_a_lost_input() -> None:
    core = pair(ev.Settings("round-robin"), sites((2, 1.0)))
    core.step(ev.AttemptsWithdrawn(2.0, 0, ("r.0.1.1",)))
    assert lose(core) == ["r.0.0.2"]
    decided, _ = core.step(ev.AttemptEnded(11.0, "r.0.1.1", Outcome("cancelled")))
    assert placed(decided) == []
    assert placed(end(core, 21.0, "r.0.0.2")) == ["r.0.1.2"]


def test_a_task_that_a_drain_cancels_waits_for_a_lost_input() -> None:
    core = pair(ev.Settings("round-robin"), sites((2, 1.0)))
    assert lose(core) == ["r.0.0.2"]
    core.step(ev.AttemptsSubmitted(10.0, 0, ("r.0.0.2",)))
    core.step(ev.AttemptStarted(10.0, "r.0.0.2"))
    core.step(ev.CancelAsked(11.0, "drain"))
    core.step(ev.AttemptEnded(12.0, "r.0.1.1", Outcome("cancelled")))
    decided, _ = core.step(ev.RunResumed(20.0))
    found, _ = core.step(ev.AttemptsFound(20.0, 0, (), ("r.0.0.2",)))
    assert placed(decided + found) == []
    assert placed(end(core, 21.0, "r.0.0.2")) == ["r.0.1.2"]


def test_a_task_whose_lost_input_can_not_be_made_again_is_blocked() -> None:
    core = pair(ev.Settings("round-robin", retries=1), sites((2, 1.0)))
    core.step(ev.AttemptStarted(2.0, "r.0.1.1"))
    lose(core)
    end(core, 11.0, "r.0.0.2", FAILED)
    assert placed(core.step(ev.TimerFired(20.0, "retry:0:0"))[0]) == ["r.0.0.3"]
    end(core, 21.0, "r.0.0.3", FAILED)
    end(core, 22.0, "r.0.1.1", FAILED)
    core.step(ev.TimerFired(30.0, "retry:0:1"))
    w = core.state.workflows[0]
    assert (w.failed, w.blocked) == (1, 1)
    assert core.state.ended == "failed"


def test_a_running_task_gets_no_replica_while_its_lost_input_is_made_again() -> None:
    settings = ev.Settings("wqr", replicas=1)
    core = pair(settings, sites((1, 1.0), (1, 1.0), (1, 1.0), (1, 1.0)), 1, 2, 3)
    core.step(ev.AttemptStarted(2.0, "r.0.1.1"))
    again = lose(core)
    assert again
    assert not [key for key in again if key.startswith("r.0.1.")]


# Usage


def test_what_has_never_run_is_no_usage_of_its_owner() -> None:
    """An attempt was believed to run for 100 s, and its site reports that it never started."""
    bags = [owned_bag("u", 1), owned_bag("v", 1), owned_bag("u", 1)]
    core = Core({str(n): b for n, b in enumerate(bags)})
    settings = ev.Settings(policy="fpf", selection="s-u-t")
    core.step(ev.RunStarted(0.0, "r", settings, (SiteSpec("one", 1),), (), 3))
    core.step(ev.HistoryRead(0.0, "h", (), {"v": 50.0}))
    for number in range(3):
        core.step(ev.WorkflowAdded(0.0, number, "b", str(number)))
    core.step(ev.AttemptStarted(0.0, "r.0.0.1"))
    core.step(ev.RunResumed(100.0))
    core.step(ev.AttemptsFound(100.0, 0, ("r.0.0.1",), ()))
    core.step(ev.AttemptStarted(101.0, "r.0.0.1"))
    decided, _ = core.step(ev.AttemptEnded(102.0, "r.0.0.1", Outcome("done")))
    assert placed(decided) == ["r.2.0.1"], "u has used 1 s, v 50 s"


# Selection policies


class Nothing(SelectBags):
    name = "bad"

    def select(self) -> list[tuple[int, int | None]]:
        return []


class Unknown(Nothing):
    def select(self) -> list[tuple[int, int | None]]:
        return [(7, None)]


class Twice(Nothing):
    def select(self) -> list[tuple[int, int | None]]:
        return [(self.queue.waiting.first(), None)] * 2


class NoTasks(Nothing):
    def select(self) -> list[tuple[int, int | None]]:
        return [(self.queue.waiting.first(), 0)]


class Endless(Nothing):
    def select(self) -> Iterator[tuple[int, int | None]]:  # type: ignore[override]
        return repeat((self.queue.waiting.first(), None))


@pytest.mark.parametrize("policy", [Nothing, Unknown, Twice, NoTasks, Endless])
def test_a_selection_policy_that_selects_what_it_must_not_is_named(
    policy: type[SelectBags], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SELECTION, "bad", policy)
    core = Core({"a": owned_bag("u", 1, 1)})
    settings = ev.Settings(policy="fpf", selection="bad")
    core.step(ev.RunStarted(0.0, "r", settings, (SiteSpec("one", 1),), (), 1))
    with pytest.raises(PolicyError, match="'bad'") as failed:
        core.step(ev.WorkflowAdded(0.0, 0, "a", "a"))
    assert failed.value.source is not None
    assert failed.value.line is not None


class Raising(Nothing):
    def select(self) -> list[tuple[int, int | None]]:
        raise ZeroDivisionError


def test_a_selection_policy_that_raises_is_named_when_the_log_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reader that blamed the log would advise to restore it from a backup."""
    monkeypatch.setitem(SELECTION, "bad", Raising)
    documents = {"a": owned_bag("u", 1, 1)}
    settings = ev.Settings(policy="fpf", selection="bad")
    log: list[ev.Event] = [
        ev.RunStarted(0.0, "r", settings, (SiteSpec("one", 1),), (), 1),
        ev.WorkflowAdded(0.0, 0, "a", "a"),
    ]
    with pytest.raises(PolicyError, match="selection policy 'bad' raised ZeroDivisionError"):
        Core(documents).replay(log)


# Tasks that wait for a paused site


def entries(core: Core) -> int:
    """Number of entries in all lists of the core, including heaps, without the documents."""
    seen: set[int] = set()
    left: list[object] = gc.get_referents(core)
    total = 0
    while left:
        held = left.pop()
        if id(held) in seen or isinstance(held, (type, ModuleType, FunctionType, Workflow)):
            continue
        seen.add(id(held))
        if isinstance(held, list):
            total += len(held)
        left.extend(gc.get_referents(held))
    return total


@pytest.mark.parametrize("policy", ["fpf", "fplt"])
@pytest.mark.parametrize("selection", ["", "s-t", "s-u-rr"])
def test_heaps_do_not_grow_while_a_site_is_paused(policy: str, selection: str) -> None:
    """Tasks of three bags end at one site, each second time as failures, whose retries wait for
    the other site. By fplt each of these comes before those that wait already."""
    bags = [owned_bag(owner, *map(float, range(n, 1500 + n, 3))) for n, owner in enumerate("uvw")]
    core = Core({str(n): b for n, b in enumerate(bags)})
    settings = ev.Settings(policy, selection=selection, retries=5)
    core.step(ev.RunStarted(0.0, "r", settings, sites((500, 1.0), (500, 1.0)).sites, (), 3))
    core.step(ev.SitePaused(0.0, 1, "paused by the test"))
    for number in range(3):
        core.step(ev.WorkflowAdded(0.0, number, "b", str(number)))
    sizes: list[int] = []
    for count in range(1000):
        if count in (100, 999):
            waiting = sum(w.eligible.count for w in core.state.workflows)
            sizes.append(entries(core) - waiting)
        attempt = min(core.state.attempts.values(), key=lambda a: 3 * a.task + a.workflow)
        end(core, float(count), attempt.key, FAILED if count % 2 else None)
        timer = f"retry:{attempt.workflow}:{attempt.task}"
        if timer in core.state.timers:
            core.step(ev.TimerFired(core.state.timers[timer], timer))
    assert sizes[1] - sizes[0] < 100


# Many classes of tasks


@pytest.mark.slow
def test_a_workflow_may_have_more_classes_of_tasks_than_16_bits_count() -> None:
    count = 70_000
    tasks = [
        Task(f"t{n}", "x", "x", resources=Resources(memory_bytes=n + 1), runtime_s=1.0)
        for n in range(count)
    ]
    core = Core({"d": Workflow("w", "w.dax", tasks, [], [()] * count)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("fpf"), (SiteSpec("one", 4),), (), 1))
    began_s = process_time()
    decided, _ = core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    assert process_time() - began_s < 20
    assert placed(decided) == [f"r.0.{n}.1" for n in range(4)]


# Replicas


def test_replicas_are_not_subtracted_from_the_tasks_that_wait() -> None:
    workflow = chain((0, 3, 1), (1, 3, 1), (2, 3, 1), runtimes_s=[9.0, 8.0, 7.0, 1.0])
    world = FakeWorld(
        [workflow, bag(3)], sites((2, 0.5), (2, 1.0), (2, 1.0)), ev.Settings("wqr", replicas=2)
    )
    seen = [world.core.state.counts[TaskStatus.WAITING] for _ in world.steps()]
    assert world.core.state.ended == "done"
    assert set(seen) == {0, 1}
    assert len([key for key in placed(world.log) if key.endswith(".2")]) > 0
