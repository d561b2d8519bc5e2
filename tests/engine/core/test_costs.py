"""The cost of an event does not grow with the number of tasks, of workflows, of bags, or of other
users' jobs in the queues of the sites: counted in steps, so that a slow machine fails nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.amounts import some
from tests.engine.steps import (
    ENGINE,
    Costs,
    LauncherWorld,
    Meter,
    Steppable,
    assert_no_growth,
    costs_of,
)
from wfrun.engine import events as ev
from wfrun.engine.model import (
    Access,
    Axis,
    Bag,
    Catalog,
    File,
    LauncherSpec,
    Progression,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.tasks.bag import expand
from wfrun.testing.fake_world import FakeWorld

pytestmark = pytest.mark.always
POLICIES = ("round-robin", "cluster-min", "file-aware", "heft", "single-cluster", "ect", "rr")
SITES = ((4, 1.0), (2, 1.2), (2, 0.8))
"""Slots and speed of each site; fewer slots than the smallest worlds have eligible tasks."""
EVENTS_PER_TASK = 3.5


def layered(tasks: int) -> Workflow:
    """A workflow of ten layers; each task reads files of two tasks of the layer above."""
    width = tasks // 10
    parents: list[tuple[int, ...]] = [()] * width
    for number in range(width, tasks):
        layer, place = divmod(number, width)
        above = {(layer - 1) * width + place, (layer - 1) * width + (place + 1) % width}
        parents.append(tuple(sorted(above)))
    return _passing_files(parents)


def _passing_files(parents: list[tuple[int, ...]], number: int = 0) -> Workflow:
    """Every task writes a file of 1 MB and reads those of its parents."""
    tasks = [
        Task(f"t{i}", f"x{i % 3}", "x", inputs=above, outputs=(i,),
             runtime_s=10.0 + (7 * i + 13 * number) % 23)
        for i, above in enumerate(parents)
    ]  # fmt: skip
    files = [File(f"f{i}", size_bytes=10**6, producer=i) for i in range(len(parents))]
    return Workflow(f"w{number}", "w.dax", tasks, files, parents)


def workflows(count: int) -> list[Workflow]:
    """Workflows of a fork and a join: five tasks, of which up to three are eligible at once."""
    return [_passing_files([(), (0,), (0,), (0,), (1, 2, 3)], n) for n in range(count)]


def bags(count: int, owners: int) -> list[Workflow]:
    """Bags of five tasks each."""
    axis = Axis(("n",), (Progression(0, 1, 5),))
    return [
        expand(
            Bag(f"b{n}", "b.yaml", "x", axes=(axis,), estimate=f"{10 + n % 7}{{n}}",
                owner=f"u{n % owners}")
        )
        for n in range(count)
    ]  # fmt: skip


def world_of(some: list[Workflow], settings: ev.Settings, *, launchers: bool = False) -> Steppable:
    """Costs at the small sites."""
    names = ("a", "b", "c")
    if not launchers:
        specs = [SiteSpec(n, *site) for n, site in zip(names, SITES, strict=True)]
        return FakeWorld(some, Catalog(tuple(specs)), settings, keep_log=False)
    sites = []
    for name, (slots, speed) in zip(names, SITES, strict=True):
        access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(2, max=slots // 2))
        sites.append(SiteSpec(name, slots, speed, kind="slurm", access=access))
    return LauncherWorld(some, tuple(sites), settings)


# The measure itself


@pytest.mark.parametrize(
    ("code", "steps"),
    [
        ("[x for x in xs]", 100),
        ("any(x < 0 for x in xs)", 100),
        ("sum(xs)", 100),
        ("min(xs)", 100),
        ("sorted(set(xs))", 200),
        ("max(y for y in tuple(xs))", 200),
        ("heapq.nsmallest(2, xs)", 100),
        ("max(len(xs), 1)", 0),
    ],
)
def test_a_step_is_counted_for_each_element_that_is_walked(
    code: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("wfrun.engine.probe")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    source = f"import heapq\ndef probe(xs):\n    return {code}\n"
    exec(compile(source, str(Path(ENGINE) / "probe.py"), "exec"), vars(module))
    with Meter() as meter:
        _, counted = meter.count(module.probe, list(range(100)))
    assert steps <= counted <= steps + 10


# Costs


@pytest.mark.slow
@pytest.mark.parametrize("launchers", [False, True], ids=["jobs", "launchers"])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_event_costs_the_same_in_a_large_workflow(policy: str, launchers: bool) -> None:
    small, large = (
        costs_of(
            world_of([layered(tasks)], ev.Settings(policy), launchers=launchers),
            round(EVENTS_PER_TASK * tasks),
            without=(ev.RunStarted, ev.WorkflowAdded),
        )
        for tasks in (200, 1600)
    )
    assert_no_growth(small, large, 1600 / 200)


def test_files_leave_at_little_cost() -> None:
    """The removal of each file, relative to all else that the run decides."""
    steps = {}
    for keep in ("all", "outputs"):
        run = ev.Settings("cluster-min", keep=keep)
        costs = costs_of(world_of([layered(400)], run), 0)
        assert costs.ended == "done"
        steps[keep] = sum(count for _, count in costs.events)
    assert steps["outputs"] <= 1.2 * steps["all"]


@pytest.mark.slow
@pytest.mark.parametrize("throttle", some([None, 1], quick=1), ids=["", "throttled"])
@pytest.mark.parametrize("launchers", [False, True], ids=["jobs", "launchers"])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_event_costs_the_same_beside_many_workflows(
    policy: str, launchers: bool, throttle: int | None
) -> None:
    small, large = (
        costs_of(
            world_of(workflows(count), ev.Settings(policy, throttle=throttle),
                     launchers=launchers),
            round(EVENTS_PER_TASK * 5 * count),
        )
        for count in (16, 200)
    )  # fmt: skip
    assert_no_growth(small, large, 200 / 16)


@pytest.mark.slow
@pytest.mark.parametrize("throttle", some([None, 1], quick=1), ids=["", "throttled"])
@pytest.mark.parametrize("launchers", [False, True], ids=["jobs", "launchers"])
@pytest.mark.parametrize(
    ("selection", "bags_per_owner"),
    [("s-t", 4), ("s-bot", 4), ("s-u-rr", 4), ("s-u-t", 4), ("s-u-rr", None), ("s-u-t", None)],
)
def test_an_event_costs_the_same_beside_many_bags(
    selection: str, bags_per_owner: int | None, launchers: bool, throttle: int | None
) -> None:
    """With ``None`` there are four owners, whatever the number of bags."""
    small, large = (
        costs_of(
            world_of(
                bags(count, owners=count // bags_per_owner if bags_per_owner else 4),
                ev.Settings("rr", selection=selection, throttle=throttle),
                launchers=launchers,
            ),
            round(3 * 5 * count),
        )
        for count in (16, 200)
    )
    assert_no_growth(small, large, 200 / 16)


class SharedWorld(FakeWorld):
    """Each site has ``jobs`` jobs of others, half of them running, before a workflow arrives, and
    still has them 30 s later. Tasks take longer than documented, so that plans of the sites' queues
    become stale."""

    def __init__(self, policy: str, sites: tuple[SiteSpec, ...], jobs: int, tasks: int) -> None:
        super().__init__(
            [layered(tasks)], Catalog(sites), ev.Settings(policy), keep_log=False,
            runtime_s=lambda workflow, task, site: 20.0 + task % 31,
        )  # fmt: skip
        self._jobs = jobs

    def steps(self) -> Iterator[ev.Event]:
        for number, event in enumerate(super().steps()):
            if number == 0:  # the run has started
                for site, spec in enumerate(self.catalog.sites):
                    running = min(self._jobs // 2, spec.slots)
                    for at_s in (0.0, 30.0):  # the first before the workflow of that time
                        jobs = tuple(
                            ev.BackgroundJob(str(n), 1, -50.0 if n < running else None, 60.0 + n)
                            for n in range(self._jobs)
                        )
                        self.post(at_s - 1.0, ev.SiteObserved(at_s, site, jobs))
            yield event


def _beside_jobs(world: SharedWorld) -> Costs:
    return costs_of(world, 0, without=(ev.RunStarted, ev.WorkflowAdded, ev.SiteObserved))


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", ["file-aware", "all-clusters", "cluster-min", "heft", "ect", "ect-p", "rr"]
)
def test_an_event_costs_the_same_beside_many_jobs_of_others(policy: str) -> None:
    """Costs of all events except the observations themselves."""
    sites = tuple(SiteSpec(name, 1200) for name in ("a", "b", "c"))
    small, large = (_beside_jobs(SharedWorld(policy, sites, jobs, 600)) for jobs in (0, 2000))
    assert_no_growth(small, large, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["heft", "ect"])
def test_an_event_costs_the_same_beside_many_jobs_where_a_queue_backfills(policy: str) -> None:
    """The size of a site bounds the plan of its backfilling queue, which 200 jobs fill already."""
    sites = tuple(SiteSpec(name, 8, backfills=True) for name in ("a", "b", "c"))
    small, large = (_beside_jobs(SharedWorld(policy, sites, jobs, 150)) for jobs in (200, 2000))
    assert_no_growth(small, large, 2000 / 200)
