"""Measures how many tasks a local site starts and records per second, relative to other tools, and
the memory of a large bag.

Run it with ``python bench/launcher.py [--tasks N] [--slots N] [--rounds N] [--memory-tasks N]``.
Every row runs the same program equally often; LocalSite and wfrun also claim each task, give it a
sandbox and logs, and write its exit record, and wfrun is the whole command, with its start, its
decisions and a log that is on the disk. The rounds are interleaved; the medians of the rates and of
the ratios within a round are printed. Then the largest memory of engine and launcher in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine.events import AttemptEnded, Event
from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources, SiteSpec
from wfrun.sites.local.site import LocalSite

PROGRAM = "/bin/true"
SHARE_OF_XARGS = 1.0
SHARE_OF_LOOP = 0.5
MOST_MEMORY_MB = 200
POLL_S = 0.1
SCRATCH = tempfile.TemporaryDirectory(prefix="wfrun-bench-")
"""Removed at the end: ext4 creates files slowly for some seconds after many were deleted."""


def bare_loop(tasks: int, slots: int) -> None:
    """Run the program with posix_spawn and wait alone."""
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


def start_wfrun(tasks: int, slots: int) -> subprocess.Popen[bytes]:
    """The command on a bag of so many tasks."""
    directory = Path(tempfile.mkdtemp(dir=SCRATCH.name))
    jobs = "".join(f'<job id="t{n}" name="{PROGRAM}"/>\n' for n in range(tasks))
    namespace = "http://pegasus.isi.edu/schema/DAX"
    (directory / "bag.dax").write_text(
        f'<adag xmlns="{namespace}" version="3.6" name="bag">\n{jobs}</adag>\n'
    )
    (directory / "sites.yaml").write_text(f"sites:\n  here:\n    slots: {slots}\n")
    words = ("bag.dax", "--sites", "sites.yaml", "--run-dir", "run", "--quiet")
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("wfrun")), *words],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def whole_wfrun(tasks: int, slots: int) -> None:
    assert start_wfrun(tasks, slots).wait() == 0


def peak_memory_mb(pid: int) -> float:
    """Peak memory of a process; 0 if it has ended. Source: proc(5), VmHWM."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def memory_of_a_run(tasks: int, slots: int) -> tuple[float, float]:
    """MB of the engine and of its launcher."""
    process = start_wfrun(tasks, slots)
    engine = launcher = 0.0
    while process.poll() is None:
        engine = max(engine, peak_memory_mb(process.pid))
        launcher = max([launcher, *map(peak_memory_mb, children(process.pid))])
        time.sleep(POLL_S)
    assert process.returncode == 0
    return engine, launcher


def measure(rows: dict[str, Callable[[int, int], None]], options: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(options.rounds):
        for name, run in rows.items():
            begun_s = time.perf_counter()
            run(options.tasks, options.slots)
            rates[name].append(options.tasks / (time.perf_counter() - begun_s))

    def ratio(name: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(rates[name], rates[other], strict=True))

    loop, reference, _, whole = rows
    table = Table(title=f"{options.tasks:,} × {PROGRAM}, {options.slots} slots")
    for heading in ("what", "tasks/s", "of xargs", "of the bare loop"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for name in rows:
        rate = f"{statistics.median(rates[name]):,.0f}"
        table.add_row(name, rate, f"{ratio(name, reference):.2f}", f"{ratio(name, loop):.2f}")
    console = Console()
    console.print(table)
    for other, target in ((reference, SHARE_OF_XARGS), (loop, SHARE_OF_LOOP)):
        found = ratio(whole, other)
        verdict = "met" if found >= target else "MISSED"
        console.print(f"{whole} / {other}: {found:.2f} (target {target:g}, {verdict})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory-tasks", type=int, default=100_000, help="0: leave it out")
    options = parser.parse_args()
    rows: dict[str, Callable[[int, int], None]] = {
        "bare posix_spawn loop": bare_loop,
        f"xargs -P{options.slots} -n1": xargs,
        "LocalSite": local_site,
        "wfrun": whole_wfrun,
    }
    if options.rounds:
        measure(rows, options)
    if options.memory_tasks:
        engine, launcher = memory_of_a_run(options.memory_tasks, options.slots)
        verdict = "met" if engine + launcher <= MOST_MEMORY_MB else "MISSED"
        print(
            f"{options.memory_tasks:,} tasks: engine {engine:.0f} MB, launcher {launcher:.0f} MB "
            f"(target {MOST_MEMORY_MB} together, {verdict})"
        )


if __name__ == "__main__":
    main()
