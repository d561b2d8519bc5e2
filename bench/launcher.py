"""How many tasks a second a local site starts and records, beside what else starts processes.

Run it with ``python bench/launcher.py [--tasks N] [--slots N] [--rounds N]``. Every row runs the
same program as often; LocalSite alone also makes a sandbox, two logs and an exit record of each.
The rounds are interleaved, and the medians and their ratios printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine.events import AttemptEnded, Event
from wfrun.engine.model import Resources, SiteSpec
from wfrun.engine.records import AttemptRequest
from wfrun.sites.local import LocalSite

PROGRAM = "/bin/true"
SCRATCH = tempfile.TemporaryDirectory(prefix="wfrun-bench-")
"""Removed at the end: ext4 creates files slowly for some seconds after many were deleted."""


def bare_loop(tasks: int, slots: int) -> None:
    """posix_spawn and wait, and nothing else."""
    running = 0
    for _ in range(tasks):
        if running == slots:
            os.wait()
            running -= 1
        os.posix_spawn(PROGRAM, [PROGRAM], os.environ)
        running += 1
    for _ in range(running):
        os.wait()


def xargs(tasks: int, slots: int) -> None:
    words = "\n".join(map(str, range(tasks))).encode()
    subprocess.run(["xargs", f"-P{slots}", "-n1", PROGRAM], input=words, check=True)


def local_site(tasks: int, slots: int) -> None:
    asyncio.run(_local_site(tasks, slots, Path(tempfile.mkdtemp(dir=SCRATCH.name))))


async def _local_site(tasks: int, slots: int, directory: Path) -> None:
    site = LocalSite(SiteSpec("here", slots), 0, directory)
    left = tasks
    done = asyncio.Event()

    def post(event: Event) -> None:
        nonlocal left
        if isinstance(event, AttemptEnded):
            assert event.outcome.cause == "done", event
            left -= 1
            if not left:
                done.set()

    await site.open(post)
    resources = Resources()
    await site.submit(
        [
            AttemptRequest(f"b-{n}", (PROGRAM,), {}, (), (), None, None, None, resources)
            for n in range(tasks)
        ]
    )
    await done.wait()
    await site.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows: dict[str, Callable[[int, int], None]] = {
        "bare posix_spawn loop": bare_loop,
        f"xargs -P{options.slots} -n1": xargs,
        "LocalSite": local_site,
    }
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(options.rounds):
        for name, run in rows.items():
            begun_s = time.perf_counter()
            run(options.tasks, options.slots)
            rates[name].append(options.tasks / (time.perf_counter() - begun_s))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    reference = medians[f"xargs -P{options.slots} -n1"]
    table = Table(title=f"{options.tasks} × {PROGRAM}, {options.slots} slots")
    for heading in ("what", "tasks/s", "ratio to xargs"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for name, rate in medians.items():
        table.add_row(name, f"{rate:,.0f}", f"{rate / reference:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
