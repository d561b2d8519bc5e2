"""Measures what runs of a million tasks cost those who start, watch and resume them.

    python bench/million.py [--tasks N] [--run SECONDS]

A bag and a layered workflow of N tasks (1,000,000), emulated with tasks that take no time, run for
some time (300 s), until their engine is killed. For each:

- start    from the start of the process to the start of the first task in the log
- log      bytes of the log for each task that has ended, checkpoints included, documents not
- status, list, watch
           until the command has ended; of ``watch``, in a terminal, until its first picture
- results  until its first row, and until its end
- resume   until the log has ``run-resumed``

Seconds are those of the processor, which count on a machine that does other work, too; the time
that a user waits is beside them, and so is peak memory.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store

WFRUN = Path(sys.executable).with_name("wfrun")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
LIMIT_S = 600.0
"""Maximum time of a command, in seconds."""
SITES = "sites:\n  here: {slots: 8}\n"
BAG = 'command: "true"\nparameters:\n  n: {{range: [1, {tasks}]}}\nestimate: 1 s\n'
STATUS_S, RESUME_S, WATCH_S, LOG_BYTES = 1.0, 15.0, 2.0, 120.0
"""The targets."""


class Cost(NamedTuple):
    """What a process has cost until some moment."""

    cpu_s: float
    wall_s: float
    peak_bytes: int


class Process:
    """A ``wfrun`` process whose output, in a terminal or a pipe, is read by this one."""

    def __init__(self, folder: Path, *words: object, in_terminal: bool = False) -> None:
        self._began_s = time.monotonic()
        if in_terminal:
            self._own, far = pty.openpty()
        else:
            self._own, far = os.pipe()
        self._process = subprocess.Popen(
            [str(WFRUN), *map(str, words)], cwd=folder, start_new_session=True,
            stdin=far if in_terminal else subprocess.DEVNULL, stdout=far, stderr=subprocess.DEVNULL,
            env={**os.environ, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(far)
        self.began_at_s = time.time()

    def cost(self) -> Cost:
        """What it has cost so far."""
        pid = self._process.pid
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        peak = next((int(line.split()[1]) * 1024 for line in status if "VmHWM" in line), 0)
        cpu_s = (int(fields[11]) + int(fields[12])) * TICK_S
        return Cost(cpu_s, time.monotonic() - self._began_s, peak)

    def read(self, timeout_s: float) -> bytes:
        """What it has written; empty: nothing, or it has closed its output."""
        ready, _, _ = select.select([self._own], [], [], timeout_s)
        with suppress(OSError):  # the far end of the terminal is closed
            return os.read(self._own, 1 << 16) if ready else b""
        return b""

    def until(self, is_reached: Callable[[bytes], bool]) -> Cost:
        """Its cost when its output is enough."""
        shown = b""
        while not is_reached(shown):
            more = self.read(LIMIT_S)
            if not more:
                raise SystemExit(f"the output has ended too soon: {shown!r}")
            shown += more
        return self.cost()

    def to_end(self) -> Cost:
        """Its cost at its end."""
        cost = self.cost()
        while self.read(LIMIT_S):
            cost = self.cost()
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._own)
        return Cost(used.ru_utime + used.ru_stime, cost.wall_s, used.ru_maxrss * 1024)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._own)

    def until_logged(self, run: Path, kind: type[ev.Event]) -> Cost:
        """Its cost when the log has an event of a kind from its time."""
        while self._process.poll() is None:
            if (run / "events.sqlite").exists() and has_event(run, kind, self.began_at_s):
                return self.cost()
            time.sleep(0.1)
        raise SystemExit(f"wfrun has ended before its {kind.__name__}")


def has_event(run: Path, kind: type[ev.Event], since_s: float) -> bool:
    """Whether one of the last events of a log is of this kind."""
    store = Store(run)
    try:
        store.seek(rows(run, "max(first_seq)") - 5000)
        return any(isinstance(e, kind) and e.at_s >= since_s for e in store.load_more())
    finally:
        store.close()


def rows(run: Path, what: str, table: str = "events") -> int:
    """A sum over a table of a log."""
    with closing(sqlite3.connect(f"file:{run}/events.sqlite?mode=ro", uri=True)) as log:
        with suppress(sqlite3.OperationalError):  # there is no such table yet
            return int(log.execute(f"SELECT {what} FROM {table}").fetchone()[0] or 0)
        return 0


def ended_tasks(run: Path) -> int:
    """Number of attempts that have ended."""
    store = Store(run)
    try:
        return sum(isinstance(e, ev.AttemptEnded) for e in store.load())
    finally:
        store.close()


class Report:
    """The table of all measurements."""

    def __init__(self) -> None:
        self.table = Table("what", "CPU s", "wall s", "peak MB", "target", "")

    def add(self, what: str, cost: Cost, limit_s: float | None = None) -> None:
        met = "" if limit_s is None else "met" if cost.cpu_s <= limit_s else "MISSED"
        target = "" if limit_s is None else f"≤ {limit_s:g} s"
        numbers = (f"{cost.cpu_s:.1f}", f"{cost.wall_s:.1f}", f"{cost.peak_bytes / 1e6:.0f}")
        self.table.add_row(what, *numbers, target, met)

    def add_log(self, what: str, run: Path) -> None:
        tasks = ended_tasks(run)
        events = rows(run, "sum(length(body))") / tasks
        checkpoints = rows(run, "sum(length(body))", "checkpoints") / tasks
        met = "met" if events + checkpoints <= LOG_BYTES else "MISSED"
        measured = (
            f"{what}, {tasks:,} tasks: {events:.0f} B a task, checkpoints {checkpoints:.0f} B"
        )
        self.table.add_row(measured, "", "", "", f"≤ {LOG_BYTES:g} B", met)


def measure(report: Report, folder: Path, document: Path, run_s: float) -> None:
    """Run a document for a while, kill its engine, and look at what is left."""
    what, run = document.stem, folder / "wfrun-runs" / document.stem
    words = ("--sites", "sites.yaml", "--emulate", "--time-scale", "0", "--quiet")
    engine = Process(folder, "run", document, *words, "--run-dir", run)
    try:
        report.add(f"{what}: start", engine.until_logged(run, ev.AttemptStarted))
        time.sleep(run_s)
    finally:
        engine.kill()
    report.add_log(f"{what}: log", run)
    report.add(f"{what}: status", Process(folder, "status", run).to_end(), STATUS_S)
    report.add(f"{what}: list", Process(folder, "list").to_end())
    watch = Process(folder, "watch", run, in_terminal=True)
    try:
        report.add(f"{what}: watch", watch.until(lambda text: b"tasks done" in text), WATCH_S)
    finally:
        watch.kill()
    results = Process(folder, "results", run)
    report.add(f"{what}: results, first row", results.until(lambda text: text.count(b"\n") > 1))
    report.add(f"{what}: results", results.to_end())
    resumed = Process(folder, "resume", run, "--quiet")
    try:
        report.add(f"{what}: resume", resumed.until_logged(run, ev.RunResumed), RESUME_S)
    finally:
        resumed.kill()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--run", type=float, default=300.0, metavar="SECONDS")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as scratch:
        folder = Path(scratch)
        (folder / "sites.yaml").write_text(SITES)
        bag, dax = folder / "bag.yaml", folder / "workflow.dax"
        bag.write_text(BAG.format(tasks=options.tasks))
        generate = [str(WFRUN), "generate", "layered", "--tasks", str(options.tasks), "--seed", "1"]
        subprocess.run([*generate, "-o", str(dax)], check=True, stdout=subprocess.DEVNULL)
        for document in (bag, dax):
            measure(report, folder, document, options.run)
    Console(width=110).print(report.table)


if __name__ == "__main__":
    main()
