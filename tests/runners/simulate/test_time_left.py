"""The time that is left of simulated runs, as displays show it, against the time that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from wfrun.engine.events import Event
from wfrun.engine.explain.time_left import TimeLeft, TimeLeftEstimator
from wfrun.engine.model import Catalog, SiteSpec, Task, Workflow
from wfrun.engine.settings import Settings
from wfrun.parsers.generate import generate
from wfrun.runners.simulate.simulation import Platform, begun

SITES = (SiteSpec("one", slots=16), SiteSpec("other", slots=8))


class Look(NamedTuple):
    at_s: float
    found: TimeLeft | None
    left_s: float


def looks(
    workflow: Workflow,
    sites: Sequence[SiteSpec] = SITES,
    factors: Sequence[float] | None = None,
    every_s: float = 5.0,
) -> list[Look]:
    """Estimates during a run whose run times are the documented ones times ``factors``."""
    found: list[tuple[float, TimeLeft | None]] = []
    estimator: TimeLeftEstimator | None = None
    next_s = 0.0

    def runtime_s(_: int, task: int) -> float:
        documented_s = workflow.tasks[task].runtime_s or 0.0
        return documented_s * (1.0 if factors is None else factors[task])

    def observe(_: Sequence[Event]) -> None:
        nonlocal next_s, estimator
        state = simulation.state
        if state.open_workflows and state.now_s >= next_s:
            estimator = estimator or TimeLeftEstimator(state)
            found.append((state.now_s, estimator.at(state.now_s)))
            next_s = state.now_s + every_s

    simulation = begun(
        [workflow], Platform(Catalog(tuple(sites))), Settings(policy="all-clusters"),
        observers=[observe], runtime_s=runtime_s,
    )  # fmt: skip
    simulation.core.run.is_watched = True
    end_s = simulation.run().end_s
    assert simulation.state.ended == "done"
    return [Look(at_s, each, end_s - at_s) for at_s, each in found]


def layered(*widths: int, runtime_s: float = 10.0) -> Workflow:
    """Layers of equal tasks; each task waits for all of the layer before."""
    tasks: list[Task] = []
    parents: list[tuple[int, ...]] = []
    before: tuple[int, ...] = ()
    for layer, width in enumerate(widths):
        first = len(tasks)
        for number in range(width):
            tasks.append(Task(f"t{layer}-{number}", f"kind{layer}", "x", runtime_s=runtime_s))
            parents.append(before)
        before = tuple(range(first, len(tasks)))
    return Workflow("layers", "layers", tasks, [], parents)


def test_a_serial_tail_is_not_taken_for_the_last_of_many_tasks() -> None:
    workflow = layered(80, 1, 1, 1, 1)
    for look in looks(workflow, [SiteSpec("a", slots=8)]):
        assert look.found is not None
        assert look.found.value_s == pytest.approx(look.left_s, abs=11)
        assert look.found.low_s <= look.left_s <= look.found.high_s


def test_wide_layers_take_their_share_of_the_slots() -> None:
    first = looks(layered(8, 800, 8, runtime_s=10), [SiteSpec("a", slots=8)])[0]
    assert first.found is not None
    assert first.found.value_s == pytest.approx(1020, rel=0.02)


@pytest.mark.parametrize("family", ["montage", "cybershake", "inspiral", "sipht"])
def test_classical_workflows(family: str) -> None:
    """With exact run times most of the estimates are close, and most intervals hold."""
    workflow = generate(family, 150, 1)
    found = looks(workflow, every_s=sum(t.runtime_s or 0 for t in workflow.tasks) / 24 / 40)
    assert len(found) > 10
    errors = sorted(abs(each.found.value_s - each.left_s) for each in found if each.found)
    assert len(errors) == len(found)
    assert errors[len(errors) // 2] < 0.15 * found[0].left_s
    inside = [e.found.low_s <= e.left_s <= e.found.high_s for e in found if e.found]
    assert sum(inside) >= 0.6 * len(inside)


def test_documents_whose_run_times_are_of_another_machine_are_scaled() -> None:
    workflow = layered(200, 40)
    found = looks(workflow, [SiteSpec("a", slots=10)], factors=[3.0] * 240)
    last = found[len(found) // 2]
    assert last.found is not None
    assert last.found.value_s == pytest.approx(last.left_s, rel=0.1)


def test_run_times_that_vary_give_a_wider_interval() -> None:
    random = Random(1)
    factors = [random.lognormvariate(0, 0.8) for _ in range(100)]
    width = {}
    for name, each in (("same", None), ("varied", factors)):
        look = looks(layered(100), [SiteSpec("a", slots=10)], each)[5]
        assert look.found is not None
        assert look.found.low_s <= look.left_s <= look.found.high_s
        width[name] = look.found.high_s - look.found.low_s
    assert width["varied"] > 1.2 * width["same"]


def test_nothing_known_gives_no_estimate() -> None:
    workflow = layered(4, runtime_s=10)
    bare = [Task(t.id, t.name, t.executable) for t in workflow.tasks]
    assert all(task.runtime_s is None for task in bare)
    simulation = begun([workflow], Platform(Catalog(SITES)), Settings(policy="all-clusters"))
    assert TimeLeftEstimator(simulation.state).at(0.0) is None  # nothing has begun
    state = simulation.run()
    assert TimeLeftEstimator(state).at(state.now_s) is None  # it has ended
