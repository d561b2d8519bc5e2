"""Measures the load of a run on head nodes, and the delay until the engine knows that a task ended.

Three measurements on real batch systems, the testbed's by default (`make testbed-up`; without it
this says so and ends):

1. A bag of short tasks over all of the catalog's batch systems: commands on each head node,
   connections, and the time from a task's exit, as its exit record has it, to the event of it.
2. The agent alone, idle and with the files of many running attempts in its directory: CPU time of
   the agent and its commands, from the operating system.
3. A bag that fills the queue of the first Slurm cluster to its limit: CPU time and memory of the
   engine, CPU time of the agent, queue queries; then the cancellation of the bag.

    python bench/cluster.py [--sites CATALOG] [--tasks 1000] [--seconds 0.5] [--open 10000]
                            [--watch 30] [--only bag|agent|queue]
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from wfrun import read_catalog
from wfrun.engine.events import (
    AttemptEnded,
    AttemptPlaced,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    RunStarted,
    SiteCounted,
)
from wfrun.engine.model import Catalog, SiteSpec, Task, Workflow
from wfrun.runners.api import run_async
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.sites.kinds import BATCH_KINDS
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.host import NewFile

ROOT = Path(__file__).parent.parent
TESTBED = ROOT / "tests" / "testbed" / "sites.yaml"

SUBMITTERS = frozenset({"sbatch", "qsub"})
QUERIES = frozenset({"squeue", "qstat"})
PER_SUBMISSION_GOAL = 20
DELAY_GOAL_S = 2.0
IDLE_GOAL = 0.01
OPEN_GOAL = 0.05
FULL_S = 20.0
"""Time without an accepted submission after which a queue counts as full."""


def bag(name: str, count: int, seconds: float) -> Workflow:
    tasks = [
        Task(id=f"T{n:05}", name="nap", executable="sleep", arguments=(f"{seconds:g}",))
        for n in range(count)
    ]
    return Workflow(name, name, tasks, [], [() for _ in tasks])


class Seen:
    """Figures taken from the events of a run."""

    def __init__(self) -> None:
        self.run_id = ""
        self.site: dict[str, int] = {}
        self.started = 0
        self.submitted = 0
        self.ended: list[tuple[int, float]] = []
        """Site, and seconds from the exit to the event."""
        self.last_s: dict[int, float] = {}
        self.connections: Counter[int] = Counter()
        self.commands: dict[int, Counter[str]] = {}
        self.cpu_s: defaultdict[int, float] = defaultdict(float)

    def __call__(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, RunStarted):
                self.run_id = event.run_id
            elif isinstance(event, AttemptPlaced):
                self.site[event.key] = event.site
            elif isinstance(event, AttemptsSubmitted):
                self.submitted += len(event.keys)
            elif isinstance(event, AttemptStarted):
                self.started += 1
            elif isinstance(event, AttemptEnded):
                site = self.site[event.key]
                self.last_s[site] = event.at_s
                if event.outcome.ended_s is not None:
                    self.ended.append((site, event.at_s - event.outcome.ended_s))
            elif isinstance(event, SiteCounted):
                self.connections[event.site] += event.connections
                self.commands.setdefault(event.site, Counter()).update(event.commands)
                self.cpu_s[event.site] += event.cpu_s


def met(value: bool) -> str:
    return "met" if value else "MISSED"


def headed(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return table


async def clock_offset_s(site: SiteSpec) -> float:
    assert site.access is not None
    connection = connection_of(site.access)
    await connection.open(lambda reason: None)
    try:
        return (await (await connection.host()).facts()).clock_offset_s
    finally:
        await connection.close()


# ------------------------------------------------------------------------------- a bag


async def measure_bag(catalog: Catalog, count: int, seconds: float, scratch: Path) -> Table:
    offsets_s = [await clock_offset_s(site) for site in catalog.sites]
    seen = Seen()
    begun_s = time.time()
    result = await run_async(
        bag("bag", count, seconds),
        sites=catalog,
        policy="round-robin",
        run_dir=scratch / "bag",
        observer=seen,
    )
    assert result.outcome == "done", result
    assert result.makespan_s is not None
    table = headed(
        f"{count} × sleep {seconds:g}: {result.makespan_s:.0f} s, {count / result.makespan_s:.1f} "
        "tasks/s",
        "site", "tasks", "tasks/s", "connections", "commands", "tasks per\nsubmission",
        "s per\nquery", "exit to event:\nmedian", "\n95%", "\nmost", "CPU s", "goals",
    )  # fmt: skip
    for number, site in enumerate(catalog.sites):
        delays_s = sorted(d + offsets_s[number] for index, d in seen.ended if index == number)
        commands = seen.commands[number]
        lasted_s = seen.last_s[number] - begun_s
        submissions = sum(commands[name] for name in SUBMITTERS)
        queries = sum(commands[name] for name in QUERIES)
        median_s = statistics.median(delays_s)
        good = (
            seen.connections[number] == 1
            and submissions * PER_SUBMISSION_GOAL <= len(delays_s)
            and median_s < DELAY_GOAL_S
        )
        table.add_row(
            site.name,
            str(len(delays_s)),
            f"{len(delays_s) / lasted_s:.1f}",
            str(seen.connections[number]),
            ", ".join(f"{n} {name}" for name, n in commands.most_common()),
            f"{len(delays_s) / submissions:.0f}",
            f"{lasted_s / max(1, queries):.1f}",
            f"{median_s:.2f} s",
            f"{delays_s[int(0.95 * len(delays_s))]:.2f} s",
            f"{delays_s[-1]:.2f} s",
            f"{seen.cpu_s[number]:.1f}",
            met(good),
        )
    return table


# -------------------------------------------------------------------- the agent by itself


async def agent_share(site: SiteSpec, count: int, watch_s: float) -> float:
    """Of a core, over ``watch_s``, while ``count`` attempts run: each has a file of 8 kB in the
    directory that is watched, where its record is going to be."""
    assert site.access is not None
    connection = connection_of(site.access)
    await connection.open(lambda reason: None)
    host = await connection.host()
    home = (await host.facts()).home
    directory = f"{home}/wfrun-bench-{count}"
    try:
        await host.make_directories([directory])
        await host.write(
            [NewFile(f"{directory}/k.0.{n}.1.node-7.part", bytes(8192)) for n in range(count)]
        )
        await connection.watch(directory, lambda records: None)
        await asyncio.sleep(10)  # until it looks as seldom as it does
        before_s = await cpu_s(connection)
        begun_s = time.monotonic()
        await asyncio.sleep(watch_s)
        return (await cpu_s(connection) - before_s) / (time.monotonic() - begun_s)
    finally:
        await host.remove([directory])
        await connection.close()


async def cpu_s(connection: Connection) -> float:
    return (await connection.counts()).cpu_s


async def measure_agent(site: SiteSpec, count: int, watch_s: float) -> Table:
    table = headed(f"The agent at {site.name}", "attempts that run", "of a core", "goal", "")
    idle, full = await asyncio.gather(
        agent_share(site, 0, watch_s), agent_share(site, count, watch_s)
    )
    table.add_row("0", f"{idle:.2%}", f"{IDLE_GOAL:.0%}", met(idle < IDLE_GOAL))
    table.add_row(str(count), f"{full:.2%}", f"{OPEN_GOAL:.0%}", met(full < OPEN_GOAL))
    return table


# --------------------------------------------------------------------------- a full queue


def own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def measure_queue(site: SiteSpec, count: int, watch_s: float, scratch: Path) -> Table:
    """The agent's CPU time comes in the events that count it, once a minute."""
    assert site.access is not None
    site = msgspec.structs.replace(
        site, access=msgspec.structs.replace(site.access, max_jobs=count)
    )
    directory = scratch / "queue"
    seen = Seen()
    before_mb, begun_cpu_s, begun_s = resident_mb(), own_cpu_s(), time.monotonic()
    work = asyncio.create_task(
        run_async(
            bag("queue", count, 3600),
            sites=Catalog((site,), ()),
            run_dir=directory,
            observer=seen,
        )
    )
    filled_s, filled_cpu_s, submitted = 0.0, 0.0, 0
    while submitted < count and not work.done() and time.monotonic() < begun_s + filled_s + FULL_S:
        await asyncio.sleep(0.2)
        if seen.submitted > submitted:
            filled_s, filled_cpu_s = time.monotonic() - begun_s, own_cpu_s() - begun_cpu_s
            submitted = seen.submitted
    await asyncio.sleep(max(5.0, 61.0 - (time.monotonic() - begun_s)))  # past the first count
    commands = Counter(seen.commands.get(0, {}))
    agent_before_s, steady_cpu_s, steady_s = seen.cpu_s[0], own_cpu_s(), time.monotonic()
    await asyncio.sleep(max(60.0, watch_s))
    engine = (own_cpu_s() - steady_cpu_s) / (time.monotonic() - steady_s)
    agent = (seen.cpu_s[0] - agent_before_s) / 60.0
    queries = Counter(seen.commands.get(0, {})) - commands
    grown_mb = resident_mb() - before_mb
    cancelled_s = time.monotonic()
    RunDir(directory).ask_to_cancel("kill")
    await work
    cancelled_s = time.monotonic() - cancelled_s
    table = headed(f"{submitted} jobs in the queue of {site.name}", "what", "", "goal", "")
    table.add_row("submitted within", f"{filled_s:.0f} s", "", "")
    table.add_row("by", ", ".join(f"{n} {name}" for name, n in commands.most_common()), "", "")
    table.add_row("engine's CPU time for that", f"{filled_cpu_s:.1f} s", "", "")
    table.add_row("engine, then", f"{engine:.2%} of a core", "", "")
    table.add_row("engine's memory", f"{grown_mb:.0f} MB more", "", "")
    table.add_row(
        "agent and its commands, a minute of it", f"{agent:.2%} of a core", f"{OPEN_GOAL:.0%}",
        met(agent < OPEN_GOAL),
    )  # fmt: skip
    table.add_row(
        "of which", ", ".join(f"{n} {name}" for name, n in queries.most_common()) or "none", "", ""
    )
    table.add_row("all cancelled within", f"{cancelled_s:.1f} s", "", "")
    return table


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=Path, default=TESTBED, metavar="CATALOG")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.5, help="that each task takes")
    parser.add_argument("--open", type=int, default=10_000, help="attempts")
    parser.add_argument("--watch", type=float, default=30.0, help="seconds that CPU is watched")
    parser.add_argument("--only", action="append", choices=("bag", "agent", "queue"))
    options = parser.parse_args()
    if options.sites == TESTBED and not (TESTBED.parent / ".run").exists():
        print("cluster.py needs the testbed, which is not up: make testbed-up (docs/testbed.md)")
        return
    parts = options.only or ("bag", "agent", "queue")
    sites = [site for site in read_catalog(options.sites).sites if site.kind in BATCH_KINDS]
    console = Console(width=max(160, Console().width))
    slurm = next((site for site in sites if site.kind == "slurm"), None)
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as scratch:
        catalog = Catalog(tuple(sites), ())
        if "bag" in parts:
            console.print(await measure_bag(catalog, options.tasks, options.seconds, Path(scratch)))
        if "agent" in parts:
            console.print(await measure_agent(sites[0], options.open, options.watch))
        if "queue" in parts and slurm is not None:
            console.print(await measure_queue(slurm, options.open, options.watch, Path(scratch)))


if __name__ == "__main__":
    asyncio.run(main())
