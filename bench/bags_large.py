"""Measures start-up time and memory of a bag of a million tasks, new and resumed.

    python bench/bags_large.py [--quick]

- start    seconds from the start of the process to the start of the first task in the log
- memory   peak memory of the engine (VmHWM) after five seconds, minus that of a bag of 20,000, per
           additional task; for bags without and with outputs
- resume   start and memory of a run that is resumed after an interruption
- rate     tasks/s of a bag of 20,000, relative to a workflow of the same tasks; they alternate, and
           the median of the rounds' ratios counts

Each run is an ordinary ``wfrun`` with one local site of two slots; all but those of the last
measurement are interrupted after five seconds.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from wfrun import Task, Workflow, write_dax
from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store

WFRUN = Path(sys.executable).with_name("wfrun")
BASE = 20_000
RUN_S = 5.0
"""Time after which a run is interrupted."""
LIMIT_S = 200.0
ROUNDS = 3
START_S, BYTES = 2.0, 200.0
CATALOG = "sites:\n  here: {slots: 2}\n"
OUTPUT = 'stdout: "{n}.txt"\n'


class Cost(NamedTuple):
    """Start-up time and memory of one engine process."""

    start_s: float
    most_bytes: int


def write_bag(folder: Path, tasks: int, *, outputs: bool) -> Path:
    path = folder / f"bag-{tasks}-{outputs:d}.yaml"
    document = f'command: "true"\nparameters:\n  n: {{range: [1, {tasks}]}}\n'
    path.write_text(document + (OUTPUT if outputs else ""))
    return path


def interrupted(folder: Path, run: Path, *words: str | Path) -> Cost:
    """Run the command and interrupt it."""
    began_s = time.time()
    argv = [str(WFRUN), *map(str, words)]
    process = subprocess.Popen(
        argv, cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(RUN_S)
            raise SystemExit(f"{' '.join(argv)} ended too soon")
        most_bytes = most_held(process.pid)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 130:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}: {told.decode()}")
    with_starts = (e.at_s for e in events_of(run) if isinstance(e, ev.AttemptStarted))
    return Cost(next(at_s for at_s in with_starts if at_s >= began_s) - began_s, most_bytes)


def most_held(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024


def events_of(run: Path) -> list[ev.Event]:
    store = Store(run)
    try:
        return list(store.load())
    finally:
        store.close()


def rate(folder: Path, document: Path) -> float:
    """Tasks/s of the whole command."""
    run = folder / f"rate-{time.monotonic_ns()}"
    tasks = int(document.stem.split("-")[1])
    argv = [str(WFRUN), str(document), "--sites", "sites.yaml", "--run-dir", str(run)]
    began_s = time.perf_counter()
    subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)
    return tasks / (time.perf_counter() - began_s)


def compare_rates(folder: Path, tasks: int, rounds: int) -> tuple[float, float, float]:
    """Tasks/s of the bag and of the workflow, and the median of their ratios."""
    bag = write_bag(folder, tasks, outputs=False)
    workflow = folder / f"workflow-{tasks}.dax"
    alike = [Task(f"t{n}", "true", "true", (str(n),)) for n in range(tasks)]
    write_dax(Workflow("w", "w", alike, [], [()] * tasks), workflow)
    pairs = [(rate(folder, bag), rate(folder, workflow)) for _ in range(rounds)]
    ratio = statistics.median(b / w for b, w in pairs)
    return statistics.median(b for b, _ in pairs), statistics.median(w for _, w in pairs), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 tasks, and one round")
    quick = parser.parse_args().quick
    sizes = (100_000,) if quick else (100_000, 1_000_000)
    table = Table("what", "measured", "target", "")
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as scratch:
        folder = Path(scratch)
        (folder / "sites.yaml").write_text(CATALOG)
        for outputs in (False, True):
            least = 0
            for tasks in (BASE, *sizes):
                run = folder / f"run-{tasks}-{outputs:d}"
                bag = write_bag(folder, tasks, outputs=outputs)
                words = (bag, "--sites", "sites.yaml", "--run-dir", run, "--pack-logs")
                for what, cost in (
                    ("new", interrupted(folder, run, *words)),
                    ("resumed", interrupted(folder, run, "resume", run)),
                ):
                    label = f"{tasks:,} tasks{' with an output each' * outputs}, {what}"
                    add_cost(table, label, tasks, cost, least if what == "new" else 0)
                    if tasks == BASE and what == "new":
                        least = cost.most_bytes
        of_bag, of_workflow, ratio = compare_rates(
            folder, 5000 if quick else 20_000, 1 if quick else ROUNDS
        )
        measured = f"{of_bag:,.0f} and {of_workflow:,.0f} tasks/s: {ratio:.2f}"
        table.add_row("rate of a bag, of a workflow", measured, "≥ 1", "met" * (ratio >= 0.97))
    Console(width=110).print(table)


def add_cost(table: Table, label: str, tasks: int, cost: Cost, least: int) -> None:
    words = f"first start {cost.start_s:.2f} s, {cost.most_bytes / 1e6:.0f} MB"
    each = (cost.most_bytes - least) / (tasks - BASE) if least and tasks > BASE else None
    if each is not None:
        words += f", {each:.0f} B/task"
    met = cost.start_s <= START_S and (each is None or each <= BYTES)
    target = f"≤ {START_S:g} s" + (f", ≤ {BYTES:g} B" if each is not None else "")
    table.add_row(label, words, target, "met" if met else "MISSED")


if __name__ == "__main__":
    main()
