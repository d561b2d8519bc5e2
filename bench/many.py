"""Measures the cost of an event with many workflows, and with many jobs of other users.

First 16 to 1,600 workflows of ten tasks at once in one simulated run, at five sites that are full
all the time, with batch jobs and with launchers: processor time a task inside ``Core.step``, and of
the whole simulation. Then one workflow of 2,000 tasks at the five sites of the DAS-3, each with 0,
2,000 or 20,000 jobs of other users: processor time inside ``Core.step`` a placement, with all other
events of the task, and that of an observation of a site by itself.

    python bench/many.py [--rounds 3] [--quick]

Sizes take turns in each round; small ones are run several times in theirs.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.core.actions import Action
from wfrun.engine.core.core import Core
from wfrun.engine.model import Access, Catalog, LauncherSpec, LinkSpec, SiteSpec, Workflow
from wfrun.parsers.generate import generate
from wfrun.runners.simulate import simulation
from wfrun.sites.catalog import read_catalog
from wfrun.testing.fake_world import FakeWorld

GROWTH_GOAL = 1.2
"""Maximum ratio of the time at the largest size to that at the smallest, a task."""

COUNTS = (16, 200, 400, 800, 1600)
QUICK_COUNTS = (16, 200, 400)
POLICIES = ("round-robin", "file-aware", "heft", "rr")
TASKS = 10
"""Of each workflow."""
SLOTS = 4
"""Of each site: 16 workflows have more eligible tasks than five sites have slots."""
LEAST_RUN = 200
"""A size with fewer workflows is run several times in a turn, until as many have run."""

JOBS = (0, 2000, 20_000)
QUICK_JOBS = (0, 2000)
SHARED_POLICIES = ("file-aware", "cluster-min", "heft", "ect")
SHARED_TASKS = 2000
OBSERVED_S = (0.0, 60.0)
"""When the sites are observed: before the workflow arrives, and while it runs."""
OVERRUN = 1.2
"""Tasks take as many times as long as documented, so that plans of queues become stale."""
CATALOG = Path(__file__).parent.parent / "examples" / "das3.yaml"

Step = Callable[[ev.Event], tuple[list[ev.Event], list[Action]]]


# Many workflows


def sites(*, launchers: bool) -> Catalog:
    """Five sites with links between all of them."""
    speeds = {"a": 1.0, "b": 0.9, "c": 1.1, "d": 1.0, "e": 1.2}
    specs = []
    for name, speed in speeds.items():
        access = None
        if launchers:
            spec = LauncherSpec(cores=2, max=SLOTS // 2)
            access = Access(("head",), dispatch="launchers", launchers=spec)
        specs.append(SiteSpec(name, SLOTS, speed, kind="slurm", access=access))
    links = [LinkSpec(x, y, 50e6, 1e-3) for x in speeds for y in speeds if x != y]
    return Catalog(tuple(specs), tuple(links))


@contextmanager
def timed_core() -> Iterator[list[float]]:
    """The processor seconds that were spent in each ``Core.step``, in one number."""
    spent_s = [0.0]
    step = Core.step

    def timed(core: Core, event: ev.Event) -> tuple[list[ev.Event], list[Action]]:
        begun_s = time.thread_time()
        result = step(core, event)
        spent_s[0] += time.thread_time() - begun_s
        return result

    Core.step = timed  # type: ignore[assignment, method-assign]
    try:
        yield spent_s
    finally:
        Core.step = step  # type: ignore[method-assign]


def many_workflows(
    workflows: Sequence[Workflow], policy: str, *, launchers: bool
) -> tuple[float, float]:
    """Microseconds a task in the core, and in the simulation with it."""
    repeats = max(1, LEAST_RUN // len(workflows))
    tasks = repeats * sum(len(w.tasks) for w in workflows)
    world = simulation.Platform(sites(launchers=launchers))
    gc.collect()
    with timed_core() as core_s:
        begun_s = time.thread_time()
        for _ in range(repeats):
            state = simulation.simulate(workflows, world, ev.Settings(policy=policy))
            if state.ended != "done":
                raise SystemExit(f"{policy}: the run ended as {state.ended}: {state.end_reason}")
        all_s = time.thread_time() - begun_s
    return core_s[0] / tasks * 1e6, all_s / tasks * 1e6


# Many jobs of others


class SharedWorld(FakeWorld):
    """The sites of a catalog with ``jobs`` jobs of others at each. Half of these run, as far as
    they hold no more than half of the site."""

    def __init__(self, workflow: Workflow, catalog: Catalog, policy: str, jobs: int) -> None:
        super().__init__(
            [workflow], catalog, ev.Settings(policy=policy), keep_log=False,
            runtime_s=self._real_s,
        )  # fmt: skip
        self._background = [_background(site.slots, jobs) for site in catalog.sites]
        self._tasks = workflow.tasks
        self.core_s = 0.0
        """Processor seconds in the core, observations of sites excluded."""
        self.observed_s: list[float] = []
        """Processor seconds of each observation."""
        self._step: Step = self.core.step
        self.core.step = self._timed  # type: ignore[method-assign]

    def _real_s(self, workflow: int, task: int, site: int) -> float:
        documented_s = self._tasks[task].runtime_s or 0.0
        return OVERRUN * documented_s / self.catalog.sites[site].speed_ratio

    def _timed(self, event: ev.Event) -> tuple[list[ev.Event], list[Action]]:
        begun_s = time.thread_time()
        result = self._step(event)
        spent_s = time.thread_time() - begun_s
        if isinstance(event, ev.SiteObserved):
            self.observed_s.append(spent_s)
        else:
            self.core_s += spent_s
        return result

    def steps(self) -> Iterator[ev.Event]:
        for number, event in enumerate(super().steps()):
            if number == 0:  # the run has started
                for at_s in OBSERVED_S:
                    for site, jobs in enumerate(self._background):
                        # before all else of that time, the workflow's arrival too
                        self.post(at_s - 1e-3, ev.SiteObserved(at_s, site, jobs))
            yield event


def _background(slots: int, jobs: int) -> tuple[ev.BackgroundJob, ...]:
    running = min(jobs // 2, slots // 2)
    return tuple(
        ev.BackgroundJob(str(n), 1, -50.0 if n < running else None, 60.0 + n % 600)
        for n in range(jobs)
    )


def many_jobs(workflow: Workflow, catalog: Catalog, policy: str, jobs: int) -> tuple[float, float]:
    """Microseconds a placement, and milliseconds an observation of one site."""
    world = SharedWorld(workflow, catalog, policy, jobs)
    gc.collect()
    if world.run() != "done":
        raise SystemExit(f"{policy}: the run ended as {world.core.state.ended}")
    placement_us = world.core_s / len(workflow.tasks) * 1e6
    return placement_us, statistics.median(world.observed_s) * 1e3


# Tables

Measure = Callable[[int], tuple[float, float]]
"""A size → two measures of one run."""

Rounds = dict[int, list[tuple[float, float]]]
"""By size, what was measured in each round."""


def in_turns(sizes: Sequence[int], rounds: int, measure: Measure) -> Rounds:
    """Every size once a round. A run that does not count comes first."""
    measure(sizes[0])
    found: Rounds = {size: [] for size in sizes}
    for _ in range(rounds):
        for size in sizes:
            found[size].append(measure(size))
    return found


def medians(found: Rounds, which: int) -> list[str]:
    """Of one of the two measures, by size."""
    return [f"{statistics.median(one[which] for one in rounds):.1f}" for rounds in found.values()]


def growth(found: Rounds, which: int) -> list[str]:
    """The median over the rounds of the ratio of the largest to the smallest, and whether that
    meets the goal."""
    sizes = list(found)
    pairs = zip(found[sizes[0]], found[sizes[-1]], strict=True)
    ratio = statistics.median(large[which] / small[which] for small, large in pairs)
    return [f"{ratio:.2f}", "met" if ratio <= GROWTH_GOAL else "not met"]


def table_of_workflows(counts: Sequence[int], rounds: int) -> Table:
    table = Table(title=f"Workflows of {TASKS} tasks at once: µs a task (medians of {rounds})")
    for heading in ("policy", "by", "of"):
        table.add_column(heading, no_wrap=True)
    for heading in (*(f"{count:,}" for count in counts), "growth", "goal"):
        table.add_column(heading, justify="right")
    some = [generate("layered", TASKS, seed=seed) for seed in range(counts[0])]
    for policy in POLICIES:
        for launchers in (False, True):
            found = in_turns(
                counts,
                rounds,
                lambda count, policy=policy, launchers=launchers: many_workflows(  # type: ignore[misc]
                    [some[n % len(some)] for n in range(count)], policy, launchers=launchers
                ),
            )
            by = "launchers" if launchers else "jobs"
            table.add_row(policy, by, "core", *medians(found, 0), *growth(found, 0))
            table.add_row("", "", "simulation", *medians(found, 1), *growth(found, 1))
    return table


def table_of_jobs(jobs: Sequence[int], rounds: int) -> Table:
    table = Table(
        title=f"Jobs of others at each of five sites: µs a placement, ms an observation of a site "
        f"(medians of {rounds})"
    )
    table.add_column("policy", no_wrap=True)
    for heading in (*(f"{n:,}: µs" for n in jobs), "growth", "goal", *(f"{n:,}: ms" for n in jobs)):
        table.add_column(heading, justify="right")
    workflow = generate("layered", SHARED_TASKS, seed=1)
    catalog = read_catalog(CATALOG)
    for policy in SHARED_POLICIES:
        found = in_turns(
            jobs,
            rounds,
            lambda count, policy=policy: many_jobs(workflow, catalog, policy, count),  # type: ignore[misc]
        )
        table.add_row(policy, *medians(found, 0), *growth(found, 0), *medians(found, 1))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round without the largest sizes")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    console = Console(width=110)
    console.print(table_of_workflows(QUICK_COUNTS if options.quick else COUNTS, rounds))
    console.print(table_of_jobs(QUICK_JOBS if options.quick else JOBS, rounds))
    print(f"goal: growth at most {GROWTH_GOAL}")


if __name__ == "__main__":
    main()
