"""Measures `wfrun watch`: its first picture, its load, and what it costs the engine.

    python bench/watch.py [--tasks N] [--rounds N] [--window SECONDS]

A bag of N tasks (100,000) is emulated with tasks that take no time, which keeps the engine busy.
Windows of time without watchers and with three of them, each in a terminal of its own, alternate in
this one run. Reported: the processor seconds of a watcher until its first picture; the share of a
core that it takes from then on; and the ratios, with watchers to without, of the events that the
engine logs in a second, and of its processor seconds for an event. The first ratio is that of a
user; on two cores watchers take time from the engine and its launchers, which the second does not
show. Targets: 1 s, 10 % of a core, 0.98.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WFRUN = (sys.executable, "-m", "wfrun.runners.cli.main")
WATCHERS = 3
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
FIRST_S, SHARE, RATIO = 1.0, 0.10, 0.98
"""The targets."""
SITES = "sites:\n  a: {kind: local, slots: 8}\n  b: {kind: local, slots: 8}\n"
BAG = "command: work {{n}}\nparameters:\n  n: {{range: [1, {tasks}]}}\nestimate: 1 s\n"


class Window(NamedTuple):
    """A part of the run."""

    events_per_s: float
    cpu_per_event_s: float
    """Of the engine."""
    shares: tuple[float, ...]
    """Share of a core of each watcher."""


class Watcher:
    """A ``wfrun watch`` in a terminal of 120 × 40."""

    def __init__(self, run: Path) -> None:
        self._own, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        self._process = subprocess.Popen(
            [*WFRUN, "watch", str(run)], cwd=ROOT, stdin=far, stdout=far, stderr=far,
            env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(far)
        shown = b""
        while b"tasks done" not in shown:  # in the heading
            shown += self._read(60.0)
        self.first_cpu_s = cpu_s(self.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self, timeout_s: float) -> bytes:
        ready, _, _ = select.select([self._own], [], [], timeout_s)
        return os.read(self._own, 1 << 16) if ready else b""

    def drain(self) -> None:
        """Read what it has drawn, as a terminal does."""
        while self._read(0.0):
            pass

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        while self._process.poll() is None:
            try:
                self._read(0.1)
            except OSError:
                break
        self._process.wait()
        os.close(self._own)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def logged(run: Path) -> int:
    """Number of events in the log, nearly."""
    with closing(sqlite3.connect(f"file:{run}/events.sqlite?mode=ro", uri=True)) as log:
        return int(log.execute("SELECT max(first_seq) FROM events").fetchone()[0] or 0)


def window(run: Path, engine: int, watchers: list[Watcher], length_s: float) -> Window:
    """Measure for a while."""
    pids = [watcher.pid for watcher in watchers]
    events, began_s = logged(run), time.monotonic()
    engine_s, before = cpu_s(engine), [cpu_s(pid) for pid in pids]
    while time.monotonic() < began_s + length_s:
        for watcher in watchers:
            watcher.drain()
        time.sleep(0.05)
    events, elapsed_s = logged(run) - events, time.monotonic() - began_s
    shares = [(cpu_s(pid) - b) / elapsed_s for pid, b in zip(pids, before, strict=True)]
    return Window(events / elapsed_s, (cpu_s(engine) - engine_s) / events, tuple(shares))


def measure(run: Path, engine: int, rounds: int, length_s: float) -> bool:
    """Alternate windows, and print what they show. Returns whether all targets are met."""
    without, watched = [], []
    first_s: list[float] = []
    for _ in range(rounds):
        without.append(window(run, engine, [], length_s))
        watchers = [Watcher(run) for _ in range(WATCHERS)]
        first_s += [watcher.first_cpu_s for watcher in watchers]
        watched.append(window(run, engine, watchers, length_s))
        for watcher in watchers:
            watcher.close()
    without.append(window(run, engine, [], length_s))
    rates, costs = [], []
    for number, one in enumerate(watched):  # beside the windows before and after it
        beside = without[number : number + 2]
        rates.append(one.events_per_s / statistics.mean(w.events_per_s for w in beside))
        costs.append(one.cpu_per_event_s / statistics.mean(w.cpu_per_event_s for w in beside))
    first, share = (
        statistics.median(first_s),
        statistics.median(s for w in watched for s in w.shares),
    )
    rate, cost = statistics.median(rates), statistics.median(costs)
    print(f"first picture             {first:6.2f} processor s (longest {max(first_s):.2f})")
    print(f"load of a watcher         {share:6.1%} of a core")
    print(f"events of the engine / s  {rate:6.3f} of those without watchers")
    print(f"processor s of an event   {cost:6.3f} of those without watchers")
    return first <= FIRST_S and share <= SHARE and max(rate, 1 / cost) >= RATIO


def main() -> int:
    """Print the table. Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, bag, sites = (Path(folder) / name for name in ("run", "bag.yaml", "sites.yaml"))
        bag.write_text(BAG.format(tasks=options.tasks))
        sites.write_text(SITES)
        words = ["run", bag, "--sites", sites, "--emulate", "--time-scale", "0", "--run-dir", run]
        engine = subprocess.Popen(
            [*WFRUN, *map(str, words), "--quiet"], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        try:
            while not (run / "events.sqlite").exists() or logged(run) < 1000:
                time.sleep(0.1)
            is_met = measure(run, engine.pid, options.rounds, options.window)
        finally:
            engine.send_signal(signal.SIGINT)
            engine.send_signal(signal.SIGINT)
            engine.wait()
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
