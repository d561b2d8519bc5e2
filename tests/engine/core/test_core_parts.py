"""Runs without any capability: the core parts alone."""

from __future__ import annotations

import pytest

from tests.engine.core.test_costs import bags, layered
from wfrun.engine import capabilities
from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, Resources, SiteSpec, Task, Workflow
from wfrun.testing.fake_world import FakeWorld

SITES = Catalog((SiteSpec("a", 4), SiteSpec("b", 2, 1.2), SiteSpec("c", 2, 0.8)))


@pytest.fixture(autouse=True)
def _without_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "CAPABILITIES", [])
    monkeypatch.setattr(capabilities, "AFTER_PLACING", [])


def wide() -> Workflow:
    """Narrow tasks before and after one that needs all cores of the largest site."""
    cores = [1] * 10 + [4] + [1] * 10
    tasks = [
        Task(f"t{i}", "x", "x", resources=Resources(n), runtime_s=5.0 + i)
        for i, n in enumerate(cores)
    ]
    return Workflow("wide", "w.dax", tasks, [], [()] * len(tasks))


def result(key: str, workflow: int, task: int) -> Outcome:
    """The first attempt of every third task fails."""
    if task % 3 == 0 and key.endswith(".1"):
        return Outcome("exit", exit_code=1)
    return Outcome("done", exit_code=0, sizes=(10**6,))


def world_of(some: list[Workflow], settings: ev.Settings) -> FakeWorld:
    return FakeWorld(some, SITES, settings, result=result)


def assert_done(world: FakeWorld) -> None:
    state = world.core.state
    assert (state.ended, state.done) == ("done", state.tasks), state.end_reason
    core = {*capabilities.CORE_FACTS, *capabilities.PLACING}
    assert set(state.parts) <= core


@pytest.mark.parametrize("policy", ["round-robin", "single-cluster", "cluster-min", "coarsening"])
def test_a_workflow_runs_without_capabilities(policy: str) -> None:
    world = world_of([layered(60)], ev.Settings(policy))
    world.run()
    assert_done(world)
    assert world.core.state.retried == 20


def test_bags_run_without_capabilities() -> None:
    world = world_of(bags(6, owners=3), ev.Settings("rr", selection="s-u-rr"))
    world.run()
    assert_done(world)


def test_wide_tasks_run_without_capabilities() -> None:
    world = world_of([wide()], ev.Settings("rr"))
    world.run()
    assert_done(world)
    assert any(isinstance(event, ev.CoresReserved) for event in world.log)


def test_a_run_without_capabilities_goes_on_after_a_crash_with_other_options() -> None:
    world = world_of([layered(60)], ev.Settings("round-robin"))
    for number, _ in enumerate(world.steps()):
        if number == 60:
            world.crash()
            settings = ev.Settings("cluster-min", throttle=3)
            world.change(ev.RunChanged(world.now_s, settings, SITES.sites, ()))
    assert_done(world)
    assert world.core.state.throttle == 3
