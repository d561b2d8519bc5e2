"""What a task costs the core, counted: ``python -m tests.engine.ratchet`` prints the counts beside
those that are kept in ``ratchet.json``; ``--write`` keeps those that are lower.

Counted are the executed lines of files under ``wfrun/engine``, and the calls of functions in C that
they make. Both depend on the version of Python, and neither on the machine. The kept counts go
down. One that goes up needs a decision record in docs/decisions that names what is gained.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tests.engine.core.test_costs import layered, world_of
from tests.engine.steps import ENGINE, LauncherWorld, Steppable
from wfrun.engine import events as ev
from wfrun.engine.model import (
    Axis,
    Bag,
    Catalog,
    LinkSpec,
    Moldable,
    Progression,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.tasks.bag import expand
from wfrun.testing.fake_world import FakeWorld

KEPT = Path(__file__).with_suffix(".json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MOST = 1.05
"""Maximum ratio of a count to the kept one."""
_BEGINNING = (ev.RunStarted, ev.WorkflowAdded)

SITES = Catalog((SiteSpec("a", 16), SiteSpec("b", 8, 1.2), SiteSpec("c", 8, 0.8)))


class Counts(NamedTuple):
    """What a task costs."""

    lines: float
    c_calls: float


def _dag() -> Steppable:
    """A workflow over sites that have room for part of it, simulated."""
    return FakeWorld(
        [layered(400)], SITES, ev.Settings("cluster-min"), keep_log=False, own_outputs=False
    )


def _bag() -> Steppable:
    """A bag of independent tasks, simulated."""
    bag = expand(Bag("b", "b.yaml", "x", axes=(Axis(("n",), (Progression(0, 1, 400),)),),
                     estimate="10"))  # fmt: skip
    settings = ev.Settings("rr", selection="s-t")
    return FakeWorld([bag], SITES, settings, keep_log=False, own_outputs=False)


def _launchers() -> Steppable:
    """A workflow in launchers, real."""
    world = world_of([layered(200)], ev.Settings("round-robin"), launchers=True)
    assert isinstance(world, LauncherWorld)
    return world


def _throttle() -> Steppable:
    """A workflow whose tasks are held back and planned at busy sites, simulated."""
    return FakeWorld([layered(400)], SITES, ev.Settings("heft"), keep_log=False, own_outputs=False)


def _transfers() -> Steppable:
    """A workflow whose files move between sites, and are removed when no task needs them, real."""
    links = tuple(
        LinkSpec(a, b, 1e7, 0.01) for a in ("a", "b", "c", "origin") for b in "abc" if a != b
    )
    catalog = Catalog(SITES.sites, links)
    return FakeWorld([layered(400)], catalog, ev.Settings("round-robin"), keep_log=False)


def _jobs() -> Steppable:
    """Moldable jobs that move between queues."""
    sizes = (1, 2, 4)
    tasks = [
        Task(f"j{n}", "j", "j", runtime_s=400.0 + 7 * (n % 31),
             resources=Resources(walltime_s=1000.0, parallel=True))
        for n in range(100)
    ]  # fmt: skip
    moldable = {n: Moldable(sizes, tuple(1000.0 / size for size in sizes)) for n in range(100)}
    jobs = Workflow("jobs", "jobs", tasks, [], [()] * 100, moldable=moldable)
    settings = ev.Settings(
        policy="mst", sizing="exhaustive", reallocate="mct-reg", reallocate_every_s=200.0
    )
    return FakeWorld([jobs], SITES, settings, keep_log=False)


WORKLOADS: dict[str, tuple[Callable[[], Steppable], int]] = {
    "dag": (_dag, 400),
    "bag": (_bag, 400),
    "launchers": (_launchers, 200),
    "throttle": (_throttle, 400),
    "transfers": (_transfers, 400),
    "jobs": (_jobs, 100),
}
"""The workloads, with their numbers of tasks."""


class _Counter:
    """Counts the lines of the engine, and the functions in C that these call."""

    def __init__(self) -> None:
        self.lines = self.c_calls = 0

    def trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        if event == "line":
            self.lines += 1
        elif event == "call" and not frame.f_code.co_filename.startswith(ENGINE):
            return None
        return self.trace

    def profile(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "c_call" and frame.f_code.co_filename.startswith(ENGINE):
            self.c_calls += 1

    def count(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function, and return its result."""
        sys.settrace(self.trace)
        sys.setprofile(self.profile)
        try:
            return function(*args)
        finally:
            sys.setprofile(None)
            sys.settrace(None)


def counts_of(name: str) -> Counts:
    """The counts of a workload, from the first placement to the end. Its documents count for
    nothing."""
    make, tasks = WORKLOADS[name]
    world, counter = make(), _Counter()
    step = world.core.step

    def counted(event: ev.Event) -> Any:
        return step(event) if isinstance(event, _BEGINNING) else counter.count(step, event)

    world.core.step = counted  # type: ignore[method-assign]
    for _ in world.steps():
        pass
    assert world.core.state.ended == "done", f"{name}: it ended as {world.core.state.ended}"
    return Counts(round(counter.lines / tasks, 1), round(counter.c_calls / tasks, 1))


def kept() -> dict[str, Counts]:
    """The kept counts of this version of Python, by workload; empty if there are none."""
    everything = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return {name: Counts(*counts) for name, counts in everything.get(PYTHON, {}).items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.ratchet", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the counts that are lower")
    write = parser.parse_args().write
    before, now = kept(), {name: counts_of(name) for name in WORKLOADS}
    print(f"{'a task':12} {'lines':>8} {'kept':>8} {'C calls':>8} {'kept':>8}")
    for name, counts in now.items():
        known = before.get(name, Counts(0, 0))
        print(f"{name:12} {counts.lines:8} {known.lines:8} {counts.c_calls:8} {known.c_calls:8}")
    if write:
        everything = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        everything[PYTHON] = {
            name: Counts(*map(min, counts, before.get(name, counts)))
            for name, counts in now.items()
        }
        KEPT.write_text(json.dumps(everything, indent=2) + "\n")


if __name__ == "__main__":
    main()
