"""Measures what the history across runs costs: the start of a run with a full one, additions to it,
and the core's time for each task of a run that feeds it.

    python bench/history.py [--rounds 5] [--tasks 100000]

- start    processor seconds to read a history of 10,000 classes with 50 run times each, all of the
           owner and the sites of the run, and to apply what was read, by predictor
- add      seconds to add one run's tasks of 100 classes to the full file
- task     microseconds of processor time in ``Core.step`` for each task of a bag on the five sites
           of the DAS-3, without and with a history; the two alternate
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.observations import (
    MAX_CLASSES,
    MAX_OBSERVATIONS,
    Class,
    Observation,
)
from wfrun.engine.core.actions import Action
from wfrun.engine.core.core import Core
from wfrun.engine.model import Axis, Bag, Catalog, Progression, Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import place_of
from wfrun.runners.run.history.runtime_history import (
    Harvest,
    StoredClass,
    add_history,
    read_history,
)
from wfrun.sites.catalog import read_catalog
from wfrun.testing.fake_world import FakeWorld

START_S = 0.5
CATALOG = Path(__file__).parent.parent / "examples" / "das3.yaml"
OWNER, APPLICATION = "ann", "a7"
NO_HISTORY = ev.HistoryRead(0.0, "history", (), {})


def bag(tasks: int) -> Workflow:
    axes = (Axis(("i",), (Progression(0, 1, tasks),)),)
    estimate = "100"
    return expand(
        Bag("bag", "bag.yaml", "x", ("{i}",), axes=axes, owner=OWNER, application=APPLICATION,
            estimate=estimate)
    )  # fmt: skip


def harvest(catalog: Catalog, classes: range, run: int = 0) -> Harvest:
    """What a run learns that has run 50 tasks of each of these classes."""
    random, at_s = Random(run), time.time() - 1e6 + 1e4 * run
    found = {}
    for number in classes:
        site = catalog.sites[number % len(catalog.sites)]
        kind = Class(OWNER, f"a{number // len(catalog.sites)}", 1, site.name)
        found[StoredClass(kind, place_of(site))] = [
            Observation(at_s + number + n / 100, random.lognormvariate(5, 1),
                        f"r{run:07x}.0.{number}{n:02}.1", 3600.0, 1e9)
            for n in range(MAX_OBSERVATIONS)
        ]  # fmt: skip
    return Harvest(found, [])


def start_s(file: HistoryFile, catalog: Catalog, predictor: str) -> tuple[float, int]:
    """Processor seconds from the question to the end of its interpretation; number of run times
    read."""
    workflow = bag(10)
    settings = ev.Settings(policy="ect-p", predictor=predictor)  # type: ignore[arg-type]
    core = Core({"w": workflow})
    core.step(ev.RunStarted(0.0, "r", settings, catalog.sites, catalog.links, 1))
    begun_s = time.thread_time()
    read = read_history(HistoryFile(file.path), [workflow], catalog.sites, 0.0)
    core.step(read)
    return time.thread_time() - begun_s, sum(len(one.runtimes_s) for one in read.classes)


def us_per_task(catalog: Catalog, tasks: int, *, with_history: bool) -> float:
    """Time in the core of one run."""
    workflow = bag(tasks)
    gc.collect()
    world = FakeWorld([workflow], catalog, ev.Settings("round-robin"), keep_log=False)
    step, spent_s = world.core.step, 0.0

    def timed(event: ev.Event) -> tuple[list[ev.Event], list[Action]]:
        nonlocal spent_s
        begun_s = time.thread_time()
        result = step(event)
        spent_s += time.thread_time() - begun_s
        if with_history and isinstance(event, ev.RunStarted):
            step(NO_HISTORY)
        return result

    world.core.step = timed  # type: ignore[method-assign]
    if world.run() != "done":
        raise SystemExit(f"the run ended as {world.core.state.ended}")
    return spent_s / tasks * 1e6


def verdict(values: Sequence[float], goal: float) -> str:
    return "met" if statistics.median(values) <= goal else "not met"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=100_000)
    options = parser.parse_args()
    catalog, console = read_catalog(CATALOG), Console()
    table = Table(title=f"a full history, medians of {options.rounds}")
    for heading in ("measured", "seconds", "goal"):
        table.add_column(heading)
    with tempfile.TemporaryDirectory() as folder:
        file = HistoryFile(Path(folder) / "history.sqlite")
        begun_s = time.perf_counter()
        add_history(file, harvest(catalog, range(MAX_CLASSES)))
        table.add_row("fill", f"{time.perf_counter() - begun_s:.2f}", "")
        table.add_row("size", f"{file.path.stat().st_size / 1e6:.1f} MB", "")
        for predictor in ("last2", "auto"):
            found = [start_s(file, catalog, predictor) for _ in range(options.rounds)]
            times_s = [elapsed_s for elapsed_s, _ in found]
            what = f"start with {predictor}, {found[0][1]:,} run times"
            seconds = f"{statistics.median(times_s):.3f}"
            table.add_row(what, seconds, f"{START_S} s: {verdict(times_s, START_S)}")
        times_s = []
        for number in range(1, options.rounds + 1):
            learned = harvest(catalog, range(100), number)
            begun_s = time.perf_counter()
            add_history(file, learned)
            times_s.append(time.perf_counter() - begun_s)
        table.add_row("add 5,000 tasks of 100 classes", f"{statistics.median(times_s):.3f}", "")
    console.print(table)
    rounds = [
        (us_per_task(catalog, options.tasks, with_history=False),
         us_per_task(catalog, options.tasks, with_history=True))
        for _ in range(min(options.rounds, 3))
    ]  # fmt: skip
    console.print(
        f"{options.tasks:,} tasks: {statistics.median(a for a, _ in rounds):.1f} µs a task without "
        f"a history, {statistics.median(b for _, b in rounds):.1f} with one, "
        f"{statistics.median(b / a for a, b in rounds):.2f} times"
    )


if __name__ == "__main__":
    main()
