"""Measures how well a bag of short tasks is spread over several sites, relative to static splits.

The bag runs over all hosts of an SSH configuration, the testbed's by default (`make testbed-up`;
without it this says so and ends), with a catalog as `wfrun sites init` writes it: once with a job
for each task, once with launchers. Then the same tasks run in static splits: each site gets a fixed
number of them, all at once. Splits are tried in proportion to the rate of each site alone, to the
slots, and to what each site did of the bag before. All take turns in each round; the best split is
the one with the smallest median.

    python bench/spread.py [--ssh-config FILE] [--tasks 500] [--least 0.1] [--most 2]
                           [--rounds 3] [--only jobs|launchers]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar

import msgspec
from rich.console import Console
from rich.table import Table

import wfrun
from wfrun.engine import events as ev
from wfrun.engine.fitting.information import Information
from wfrun.engine.model import Catalog, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.protocols import View
from wfrun.runners.admin.init import access_of, init
from wfrun.runners.api import run_async

ROOT = Path(__file__).parent.parent
TESTBED = ROOT / "tests" / "testbed" / ".run" / "ssh_config"
HOSTS = ("alpha", "beta", "gamma", "delta")
GOAL = 1.3
ALONE_TASKS = 60
"""Number of tasks by which the rate of a site alone is measured."""
SPREAD = "as spread"
"""The split that repeats what each site did of the bag."""


class StaticSplit(BasePlacement):
    """Gives each site a fixed number of tasks."""

    name = "static-split"
    information = Information()
    summary = "a fixed number of tasks for each site"
    options: ClassVar[Mapping[str, int | float | str]] = {"counts": ""}

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._left = [int(count) for count in str(options["counts"]).split()]

    def place(self, task: int) -> int | None:
        return max(
            (site for site in self.view.candidates(task) if self._left[site] > 0),
            key=lambda site: self._left[site],
            default=None,
        )

    def placed(self, task: int, site: int) -> None:
        self._left[site] -= 1


PLACEMENT[StaticSplit.name] = StaticSplit


class Seen:
    """Makespan of a run, and what each site did of it."""

    def __init__(self) -> None:
        self.done: Counter[int] = Counter()
        self.withdrawn = 0
        self._site: dict[str, int] = {}
        self._first_s = float("inf")
        self._last_s = 0.0

    def __call__(self, events: Sequence[ev.Event]) -> None:
        for event in events:
            if isinstance(event, (ev.AttemptPlaced, ev.LaunchersAsked)):
                self._first_s = min(self._first_s, event.at_s)
            if isinstance(event, ev.AttemptPlaced):
                self._site[event.key] = event.site
            elif isinstance(event, ev.AttemptsWithdrawn):
                self.withdrawn += len(event.keys)
            elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
                self.done[self._site[event.key]] += 1
                self._last_s = max(self._last_s, event.at_s)

    @property
    def makespan_s(self) -> float:
        """From the first decision to the last known end."""
        return self._last_s - self._first_s


class Bench:
    """The sites, and the durations of the tasks."""

    def __init__(self, scratch: Path, durations_s: Sequence[float]) -> None:
        self._scratch = scratch
        self._durations_s = durations_s
        self._runs = 0

    async def spread(self, catalog: Catalog) -> Seen:
        """Run the bag as a user does."""
        bag = wfrun.bag("bag", "sleep {s}", points=[{"s": s} for s in self._durations_s])
        return await self._run(bag, catalog, {})

    async def split(self, catalog: Catalog, counts: Sequence[int]) -> Seen:
        """Run as many of the tasks as the counts say, in a static split. They are a workflow, since
        the sites take all tasks of one at once."""
        durations_s = self._durations_s[: sum(counts)]
        tasks = [
            Task(f"t{n}", "nap", "sleep", (str(s),)) for n, s in enumerate(durations_s)
        ]  # fmt: skip
        workflow = Workflow("split", "split", tasks, [], [()] * len(tasks))
        policy = {
            "policy": StaticSplit.name,
            "policy_options": {"counts": " ".join(map(str, counts))},
        }
        return await self._run(workflow, catalog, policy)

    async def _run(
        self, workflow: Workflow, catalog: Catalog, options: Mapping[str, object]
    ) -> Seen:
        self._runs += 1
        seen = Seen()
        result = await run_async(
            workflow,
            sites=catalog,
            run_dir=self._scratch / f"run-{self._runs}",
            observer=seen,
            **options,  # type: ignore[arg-type]
        )
        assert result.outcome == "done", result
        return seen


def parts_of(total: int, weights: Sequence[float]) -> list[int]:
    """Split a number in proportion to weights."""
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [int(share) for share in exact]
    by_rest = sorted(range(len(parts)), key=lambda i: parts[i] - exact[i])
    for i in by_rest[: total - sum(parts)]:
        parts[i] += 1
    return parts


async def write_catalog(ssh_config: Path, path: Path) -> Catalog:
    for host in HOSTS:
        access = access_of(
            host,
            user=None,
            port=None,
            transport="asyncssh",
            ssh_config=ssh_config,
            known_hosts=None,
        )
        await init(host, access, path, None, lambda words: None)
    return wfrun.read_catalog(path)


def with_jobs(catalog: Catalog) -> Catalog:
    """The catalog with a job for each task."""
    sites = []
    for site in catalog.sites:
        assert site.access is not None, "all sites are hosts"
        access = msgspec.structs.replace(site.access, dispatch="jobs", launchers=None)
        sites.append(msgspec.structs.replace(site, access=access))
    return msgspec.structs.replace(catalog, sites=tuple(sites))


async def measure(
    bench: Bench, catalog: Catalog, tasks: int, rounds: int, title: str, console: Console
) -> Table:
    slots = [site.slots for site in catalog.sites]
    rates = []
    for index, site in enumerate(catalog.sites):
        counts = [ALONE_TASKS * (other == index) for other in range(len(slots))]
        rates.append(ALONE_TASKS / (await bench.split(catalog, counts)).makespan_s)
        console.print(f"{title}: {site.name} alone {rates[-1]:.1f} tasks/s", highlight=False)
    splits = {"by rate alone": parts_of(tasks, rates), "by slots": parts_of(tasks, slots)}
    spread_s: list[float] = []
    split_s: dict[str, list[float]] = {}
    for number in range(rounds):
        seen = await bench.spread(catalog)
        splits[SPREAD] = [seen.done[index] for index in range(len(slots))]
        spread_s.append(seen.makespan_s)
        line = f"spread {seen.makespan_s:.1f} s, {seen.withdrawn} withdrawn"
        for name, counts in splits.items():
            split_s.setdefault(name, []).append((await bench.split(catalog, counts)).makespan_s)
            line += f"; {name} {counts} {split_s[name][-1]:.1f} s"
        console.print(f"{title}, round {number + 1}: {line}", highlight=False)
    table = Table(title=f"{tasks} tasks, {title}", title_justify="left")
    for heading in ("", "median, s", "spread / it", f"best split, goal {GOAL}"):
        table.add_column(heading, justify="right" if table.columns else "left")
    middle_s = statistics.median(spread_s)
    table.add_row("spread", f"{middle_s:.1f}")
    best_s = min(statistics.median(times) for times in split_s.values())
    for name, times in split_s.items():
        it_s = statistics.median(times)
        met = "met" if middle_s / it_s <= GOAL else "MISSED"
        ratio = f"{middle_s / it_s:.2f}"
        table.add_row(name, f"{it_s:.1f}", ratio, met if it_s == best_s else "")
    return table


async def run_bench(arguments: argparse.Namespace, scratch: Path, console: Console) -> None:
    random = Random(1)
    durations_s = [
        round(random.uniform(arguments.least, arguments.most), 2) for _ in range(arguments.tasks)
    ]
    bench = Bench(scratch, durations_s)
    catalog = await write_catalog(arguments.ssh_config, scratch / "sites.yaml")
    for title, sites in (("jobs", with_jobs(catalog)), ("launchers", catalog)):
        if arguments.only in (None, title):
            table = await measure(bench, sites, arguments.tasks, arguments.rounds, title, console)
            console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ssh-config", type=Path, default=TESTBED)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--least", type=float, default=0.1, help="seconds of the shortest task")
    parser.add_argument("--most", type=float, default=2.0, help="seconds of the longest task")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["jobs", "launchers"])
    arguments = parser.parse_args()
    console = Console()
    if not arguments.ssh_config.exists():
        console.print(f"{arguments.ssh_config} is missing: the testbed is not up (make testbed-up)")
        return
    with tempfile.TemporaryDirectory(prefix="wfrun-spread-") as directory:
        asyncio.run(run_bench(arguments, Path(directory), console))


if __name__ == "__main__":
    main()
