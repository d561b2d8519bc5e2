"""Measures the dispatch rate: locally relative to other tools, and by launchers over each channel.

    python bench/dispatch.py [--quick | --full] [--only PART]... [--figure PNG] [--base PORT]

Parts (one table at the end, each target with "met" or by how much it is missed):

- peers     local site, two slots, the ordinary ``wfrun`` as a user runs it, reading and summary
            included, relative to xargs, a bare posix_spawn loop, HyperQueue and Parsl (see
            peers.py); the tools alternate, and the medians of the rounds' ratios count
- memory    peak memory of engine and launcher (VmHWM) of such a run with many more tasks
- channels  tasks/s through SSH, Slurm and a launcher with two slots, relative to a local site with
            two
- overhead  1,000 tasks of 0.1 s on eight slots: how much longer than ideal
- sweep     Fig. 4.3 of Sonmez' thesis (section 4.3.1): one-second tasks on 32 slots, with launchers
            and with a batch job for each
- commands  commands run on the head node, for growing numbers of tasks

In the last four the engine runs in this process, and the work waits behind a gate that opens once
all launchers live: queue wait and start-up are not in the numbers. Rates count from the first
start to the last end, makespans from the first submission to the last end, of tasks as the run's
log has them. Ideal is ceil(tasks / slots) times what one such task takes by itself, measured.

The last four need what the testbed needs (docs/testbed.md), and bring up one of their own.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench import peers  # noqa: E402
from bench.shared import gated_runs  # noqa: E402
from bench.shared.gated_runs import BenchSites, FailedError, Seen, alone_s, together_s  # noqa: E402
from tests.testbed.layout import TestbedError  # noqa: E402
from wfrun.engine.errors import WfrunError  # noqa: E402

PARTS = ("peers", "memory", "channels", "overhead", "sweep", "commands")
CHANNELS = ("tcp", "ssh", "spool")
RATE_TARGETS = {"tcp": 0.5, "spool": 0.3}
PEER_TARGETS = {
    "xargs -P2": 1.0,
    "posix_spawn loop": 0.5,
    "HyperQueue": 3.0,
    "Parsl HTEX": 4.0,
}
MEMORY_TARGET_MB = 200.0
OVERHEAD_TARGET = 1.05
SWEEP_TARGET = 1.03
REPEATED_S = 10.0
"""Sizes of the sweep that take less time than this are measured in several rounds."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many tasks, rounds and seconds."""

    peers: int
    memory: int
    channels: int
    rounds: int
    short: int
    launched: tuple[int, ...]
    """Of the sweep, with launchers."""
    jobs: tuple[int, ...]
    """Of the sweep, with a job for each."""
    commands: tuple[int, ...]


POWERS = tuple(2**n for n in range(5, 13))
DEFAULT = Sizes(20_000, 100_000, 10_000, 3, 1000, POWERS, POWERS[:6], (100, 1000, 10_000))
QUICK = Sizes(2000, 10_000, 2000, 1, 1000, POWERS[:4], POWERS[:3], (100, 1000))
FULL = replace(DEFAULT, jobs=POWERS)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    part: str
    what: str
    measured: str
    ratio: float | None = None
    target: float | None = None
    at_most: bool = False
    """The target is a bound from above."""

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        if self.ratio is None:
            return "not measured"
        short = self.ratio / self.target - 1 if self.at_most else 1 - self.ratio / self.target
        return "met" if short <= 0 else f"MISSED by {short:.1%}"

    @property
    def bound(self) -> str:
        if self.target is None:
            return ""
        return f"{'≤' if self.at_most else '≥'} {self.target:g}"


@dataclass(frozen=True, slots=True)
class Bench:
    """One session of measurements."""

    sizes: Sizes
    sites: BenchSites
    console: Console

    def say(self, words: str) -> None:
        self.console.print(words, highlight=False)


# ----------------------------------------------------------------------------- local, alone


def measure_peers(bench: Bench) -> list[Row]:
    peers.install_peers()
    tools = {
        "posix_spawn loop": peers.Tool("posix_spawn loop", peers.run_spawn_loop, bench.sizes.peers),
        "xargs -P2": peers.Tool("xargs -P2", peers.run_xargs, bench.sizes.peers),
        "wfrun": peers.Tool("wfrun", peers.run_wfrun, bench.sizes.peers),
    }
    for tool in peers.tools():
        if tool.name in PEER_TARGETS:
            tool.tasks = min(tool.tasks, 1000)  # they are slow, and rates do not depend on it
            tools.setdefault(tool.name, tool)
    peers.measure(list(tools.values()))
    wfrun = tools["wfrun"]
    rows = [Row("peers", f"wfrun, {wfrun.tasks:,} tasks", _rates(wfrun))]
    for name, target in PEER_TARGETS.items():
        ratio = wfrun.ratio(tools[name])
        rows.append(Row("", f"{name}; wfrun / it", _rates(tools[name]), ratio, target))
    return rows


def _rates(tool: peers.Tool) -> str:
    if tool.absent or not tool.rates:
        return tool.absent or "–"
    least, middle, most = min(tool.rates), statistics.median(tool.rates), max(tool.rates)
    return f"{middle:,.0f} tasks/s ({least:,.0f}–{most:,.0f})"


def measure_memory(bench: Bench) -> list[Row]:
    count = bench.sizes.memory
    bench.say(f"memory: {count:,} tasks")
    directory = bench.sites.scratch / "memory"
    directory.mkdir()
    argv = peers.wfrun_command(count, directory)
    process = subprocess.Popen(
        argv, cwd=directory, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    most: dict[int, int] = {}
    until_s = time.monotonic() + gated_runs.LIMIT_S
    try:
        while process.poll() is None and time.monotonic() < until_s:
            for pid in _engine_and_launcher(process.pid):
                most[pid] = max(most.get(pid, 0), _most_kib(pid))
            time.sleep(0.2)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    if status != 0 or len(most) < 2:
        raise FailedError(f"wfrun ended with {status}, {len(most)} of two processes were seen")
    parts = [kib * 1024 / 1e6 for kib in most.values()]
    total = sum(parts)
    words = f"{total:.0f} MB ({' + '.join(f'{part:.0f}' for part in parts)})"
    return [
        Row("memory", f"{count:,} tasks, engine + launcher", words, total, MEMORY_TARGET_MB, True)
    ]


def _engine_and_launcher(engine: int) -> Iterator[int]:
    yield engine
    with suppress(OSError):
        for child in Path(f"/proc/{engine}/task/{engine}/children").read_text().split():
            with suppress(OSError):
                if b"launcher.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield int(child)


def _most_kib(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


# ---------------------------------------------------------------------------- with launchers


def measure_channels(bench: Bench) -> list[Row]:
    count = bench.sizes.channels
    rates: dict[str, list[float]] = {name: [] for name in ("local", *CHANNELS)}
    for number in range(1, bench.sizes.rounds + 1):
        bench.say(f"channels: round {number} of {bench.sizes.rounds}, {count:,} tasks each")
        rates["local"].append(bench.sites.run(bench.sites.local(2), count, ["/bin/true"]).rate)
        for channel in CHANNELS:
            rates[channel].append(bench.sites.launched(2, channel, count, ["/bin/true"]).rate)
    middle = {name: statistics.median(values) for name, values in rates.items()}
    rows = [Row("channels", f"local, 2 slots, {count:,} tasks", f"{middle['local']:,.0f} tasks/s")]
    for channel in CHANNELS:
        pairs = zip(rates[channel], rates["local"], strict=True)
        ratio = statistics.median(there / here for there, here in pairs)
        words = f"{middle[channel]:,.0f} tasks/s"
        rows.append(Row("", f"{channel}; it / local", words, ratio, RATE_TARGETS.get(channel)))
    return rows


def measure_overhead(bench: Bench) -> list[Row]:
    count, slots, nominal_s = bench.sizes.short, 8, 0.1
    argv = ["/bin/sleep", f"{nominal_s:g}"]
    each_s = alone_s(argv, 21)
    waves = math.ceil(count / slots)
    runs: dict[str, Callable[[], Seen]] = {
        "local": lambda: bench.sites.run(bench.sites.local(slots), count, argv),
        "tcp": lambda: bench.sites.launched(slots, "tcp", count, argv),
        "ssh": lambda: bench.sites.launched(slots, "ssh", count, argv),
        "spool": lambda: bench.sites.launched(slots, "spool", count, argv),
    }
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(1, bench.sizes.rounds + 1):
        bench.say(f"overhead: round {number} of {bench.sizes.rounds}")
        for name, run in runs.items():
            taken[name].append(run().makespan_s)
    words = f"{waves * each_s:.2f} s ({each_s * 1e3:.1f} ms each)"
    rows = [Row("overhead", f"ideal, {count:,} × {nominal_s:g} s, {slots} slots", words)]
    for name, values in taken.items():
        middle_s = statistics.median(values)
        ratio = middle_s / (waves * each_s)
        of_nominal = f"{middle_s:.2f} s ({middle_s / (waves * nominal_s):.3f} of nominal)"
        rows.append(Row("", f"{name}; it / ideal", of_nominal, ratio, OVERHEAD_TARGET, True))
    return rows


@dataclass(slots=True)
class Sweep:
    """Makespans by the number of tasks."""

    each_s: float
    slots: int = 32
    launchers: dict[int, float] = field(default_factory=dict)
    jobs: dict[int, float] = field(default_factory=dict)

    def ideal_s(self, count: int) -> float:
        return math.ceil(count / self.slots) * self.each_s


def measure_sweep(bench: Bench, figure: Path | None) -> list[Row]:
    argv = ["/bin/sleep", "1"]
    sweep = Sweep(alone_s(argv, 3))
    for count in bench.sizes.launched:
        bench.say(f"sweep: {count:,} tasks, launchers")
        # Short ones cost little, and say little when measured once.
        times = bench.sizes.rounds if sweep.ideal_s(count) < REPEATED_S else 1
        sweep.launchers[count] = statistics.median(
            bench.sites.launched(sweep.slots, "tcp", count, argv).makespan_s for _ in range(times)
        )
        if count in bench.sizes.jobs:
            bench.say(f"sweep: {count:,} tasks, jobs")
            # A run without launchers has nothing to wait for.
            seen = bench.sites.run(bench.sites.alpha(sweep.slots, None), count, argv, gate=False)
            sweep.jobs[count] = seen.makespan_s
    bare_s = together_s(argv, sweep.slots)
    words = f"{sweep.each_s:.3f} s each; {sweep.slots} by a bare loop {bare_s:.3f} s"
    rows = [Row("sweep", f"1 s tasks, {sweep.slots} slots", words)]
    for count, taken_s in sweep.launchers.items():
        ideal_s = sweep.ideal_s(count)
        jobs = f"; jobs {sweep.jobs[count]:.1f} s" if count in sweep.jobs else ""
        words = f"{taken_s:.2f} s, ideal {ideal_s:.2f} s{jobs}"
        rows.append(
            Row("", f"{count:,} launchers / ideal", words, taken_s / ideal_s, SWEEP_TARGET, True)
        )
    if figure is not None:
        draw(sweep, figure)
    return rows


def draw(sweep: Sweep, path: Path) -> None:
    """Makespan over size, both logarithmic, as Fig. 4.3 of the thesis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(list(sweep.jobs), list(sweep.jobs.values()), "s-", label="a batch job for each task")
    axes.plot(list(sweep.launchers), list(sweep.launchers.values()), "o-", label="launchers")
    ideal = [sweep.ideal_s(count) for count in sweep.launchers]
    axes.plot(list(sweep.launchers), ideal, "k--", label="ideal")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(sweep.launchers), [f"{count:,}" for count in sweep.launchers])
    axes.set_xlabel(f"one-second tasks, on {sweep.slots} slots")
    axes.set_ylabel("makespan (s)")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend()
    figure.savefig(path, dpi=120)


def measure_commands(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    first = 0
    for count in bench.sizes.commands:
        bench.say(f"commands: {count:,} tasks")
        seen = bench.sites.launched(8, "tcp", count, ["/bin/true"])
        # The queue is asked at intervals while launchers live, whatever they do.
        asked = seen.commands.total() - seen.commands["squeue"]
        first = first or asked
        words = ", ".join(f"{n} {name}" for name, n in sorted(seen.commands.items()))
        what = f"{count:,} tasks; but for squeue / with {bench.sizes.commands[0]}"
        rows.append(Row("" if rows else "commands", what, words, asked / first, 1.0, True))
    return rows


# ----------------------------------------------------------------------------------- the table


def print_table(bench: Bench, rows: Sequence[Row], quick: bool) -> None:
    title = "dispatch, --quick: too short to judge by" if quick else "dispatch"
    table = Table(title=title, title_justify="left")
    table.add_column("part", no_wrap=True)
    table.add_column("what")
    table.add_column("measured")
    for heading in ("ratio", "target", "verdict"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        table.add_row(row.part, row.what, row.measured, ratio, row.bound, row.verdict)
    bench.console.print(table)


def measure(bench: Bench, parts: Sequence[str], figure: Path | None, rows: list[Row]) -> None:
    """Append to ``rows`` what the parts give, one after the other."""
    alone = {"peers": measure_peers, "memory": measure_memory}
    launched: dict[str, Callable[[Bench], list[Row]]] = {
        "channels": measure_channels,
        "overhead": measure_overhead,
        "sweep": lambda bench: measure_sweep(bench, figure),
        "commands": measure_commands,
    }

    def take(name: str, part: Callable[[Bench], list[Row]]) -> None:
        try:
            rows.extend(part(bench))
        except (FailedError, WfrunError, peers.AbsentError) as error:
            rows.append(Row(name, "", f"not measured: {error}"))

    for name in [name for name in alone if name in parts]:
        take(name, alone[name])
    wanted = [name for name in launched if name in parts]
    if wanted:
        try:
            bench.say("bringing up a testbed …")
            with bench.sites.cluster():
                for name in wanted:
                    take(name, launched[name])
        except TestbedError as error:
            rows.append(Row(", ".join(wanted), "", f"not measured: {error}"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few tasks: does it work?")
    size.add_argument("--full", action="store_true", help="the whole sweep with jobs, too")
    parser.add_argument("--only", action="append", choices=PARTS, help="more than once, too")
    parser.add_argument("--figure", type=Path, metavar="PNG", help="draw the sweep")
    parser.add_argument("--base", type=int, default=32200, help="of the testbed's ports (32200)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sizes = QUICK if options.quick else FULL if options.full else DEFAULT
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as scratch:
        Path(scratch).chmod(0o755)  # tasks of the cluster's users look for the gate
        console = Console(width=max(110, Console().width))
        bench = Bench(sizes, BenchSites(Path(scratch), options.base), console)
        rows: list[Row] = []
        try:
            measure(bench, options.only or PARTS, options.figure, rows)
        finally:  # interrupted: what there is
            print_table(bench, rows, options.quick)


if __name__ == "__main__":
    main()
