"""Reservations for a wide task whose policy does not use them."""

from __future__ import annotations

import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.information import Information
from wfrun.engine.model import Catalog, File, Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.testing.fake_world import FakeWorld


class Narrow(BasePlacement):
    """A policy that never places a task of several cores."""

    name = "narrow"
    information = Information()
    summary = "narrow tasks alone"
    binds_late = True

    def place(self, task: int) -> int | None:
        return None if self.view.cores(task) > 1 else self.view.candidates(task)[0]


def bag(tasks: int, cores: int) -> Workflow:
    asked = Resources(cores=cores)
    return Workflow(
        "bag",
        "bag",
        [Task(f"t{i}", "x", "x", resources=asked, runtime_s=10.0) for i in range(tasks)],
        [],
        [()] * tasks,
    )


@pytest.mark.parametrize("selection", ["", "s-t"])
def test_room_that_a_policy_leaves_is_kept_no_longer(
    monkeypatch: pytest.MonkeyPatch, selection: str
) -> None:
    monkeypatch.setitem(PLACEMENT, "narrow", Narrow)
    bags = [bag(2, 1), bag(1, 4), bag(20, 1)]
    catalog = Catalog((SiteSpec("alpha", slots=4),))
    settings = ev.Settings(policy="narrow", selection=selection)
    world = FakeWorld(bags, catalog, settings, arrive_s=(0.0, 1.0, 2.0))
    assert world.run() == "failed"
    assert world.core.state.done == 22
    decided = [type(e) for e in world.log if isinstance(e, ev.DECISIONS)]
    assert decided.count(ev.CoresReserved) == decided.count(ev.ReservationDeclined) == 1
    again = Core({str(i): one for i, one in enumerate(bags)})
    again.replay(world.log)
    assert not again.state.get(Reservations).at


@pytest.mark.parametrize("selection", ["", "s-t"])
def test_a_wide_task_of_a_raised_workflow_is_not_overtaken(selection: str) -> None:
    """Another wide task, of a workflow that arrived earlier, waits behind the narrow ones."""
    bags = [bag(40, 1), bag(1, 4), bag(1, 4)]
    catalog = Catalog((SiteSpec("alpha", slots=4),))
    world = FakeWorld(bags, catalog, ev.Settings(policy="fplt", selection=selection))
    world.post(1.0, ev.PriorityRaised(1.0, 2))
    assert world.run() == "done"
    order = [e.workflow for e in world.log if isinstance(e, ev.AttemptPlaced)]
    assert order.index(2) < 10


def test_a_reservation_ends_when_its_task_must_wait_for_a_lost_input() -> None:
    """The task that writes the input again needs the room that was reserved."""
    tasks = [
        Task("writer", "x", "x", outputs=(0,)),
        Task("wide", "x", "x", inputs=(0,), resources=Resources(cores=4)),
    ]
    pair = Workflow("pair", "pair", tasks, [File("f", producer=0)], [(), (0,)])
    core = Core({"0": pair, "1": bag(8, 1)})
    sites = (SiteSpec("alpha", slots=4),)
    core.step(ev.RunStarted(0.0, "r", ev.Settings(policy="fplt"), sites, (), 2))
    core.step(ev.WorkflowAdded(0.0, 0, "pair", "0"))
    core.step(ev.WorkflowAdded(0.0, 1, "bag", "1"))
    core.step(ev.AttemptEnded(1.0, "r.0.0.1", Outcome("done", sizes=(9,))))
    assert core.state.get(Reservations).at[0].task == 1
    core.step(ev.FilesLost(2.0, 0, ((0, 0),)))
    assert not core.state.get(Reservations).at
    assert "r.0.0.2" in core.state.attempts
