"""How fast tasks are dispatched: locally beside other tools, and by launchers over each channel.

    python bench/dispatch.py [--quick | --full] [--only PART]... [--figure PNG] [--base PORT]

Parts (one table at the end, each target with "met" or by how much it is missed):

- peers     local site, two slots, the ordinary ``wfrun`` as a user runs it, reading and summary
            included, beside xargs, a bare posix_spawn loop, HyperQueue and Parsl (see peers.py);
            rounds in turns, medians of the rounds' ratios
- memory    the most that engine and launcher of such a run hold (VmHWM), with many more tasks
- channels  tasks/s through SSH, Slurm and a launcher with two slots, beside a local site with two
- overhead  1,000 tasks of 0.1 s on eight slots: how much longer than ideal
- sweep     Fig. 4.3 of Sonmez' thesis (section 4.3.1): one-second tasks on 32 slots, with launchers
            and with a batch job for each
- commands  what the head node is asked to run, for ever more tasks

In the last four the engine runs in this process, and the work waits behind a gate that opens once
all launchers live: queue wait and start-up are not in the numbers. Rates count from the first
start to the last end, makespans from the first submission to the last end, of tasks as the run's
log has them. Ideal is ceil(tasks / slots) times what one such task takes by itself, measured.

The last four need what the testbed needs (docs/testbed.md), and bring up one of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench import peers  # noqa: E402
from tests.testbed.layout import Layout, MissingError, Site  # noqa: E402
from tests.testbed.testbed import Testbed  # noqa: E402
from wfrun.engine import events as ev  # noqa: E402
from wfrun.engine.model import Task, Workflow  # noqa: E402
from wfrun.runners.api import run_async  # noqa: E402
from wfrun.runners.rundir import RunDir  # noqa: E402

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
CORES = 8
"""Of a node of the cluster: so large are launchers, where there are slots enough."""
LIMIT_S = 600.0
"""For one run."""
GRACE_S = 60.0
"""For what a run has started to end, once it is given up."""


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


class Cluster(Layout):
    """A testbed whose alpha has 4 nodes of 8 cores: 32 slots."""

    @property
    def sites(self) -> tuple[Site, ...]:
        alpha, *others = super().sites
        assert alpha.slurm is not None
        return (replace(alpha, slurm=replace(alpha.slurm, cpus=CORES)), *others)


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


class FailedError(Exception):
    """A run did not do what was to be measured; the message says why."""


# ------------------------------------------------------------------------ runs behind a gate


class Seen:
    """What a run's events say, and the gate that they open."""

    def __init__(self, gate: Path | None, slots: int) -> None:
        self._gate = gate
        self._wanted = slots
        """Slots of launchers that are waited for."""
        self._slots: dict[str, int] = {}
        self._waits = ""
        """The attempt that waits at the gate."""
        self.channels: Counter[str] = Counter()
        self.placed_s: list[float] = []
        self.started_s: list[float] = []
        self.ended_s: list[float] = []
        self.commands: Counter[str] = Counter()
        self.launchers = 0

    def __call__(self, events: Sequence[ev.Event]) -> None:
        for event in events:
            if isinstance(event, ev.LauncherStarted):
                self._slots[event.key] = event.slots
                self.channels[event.channel] += 1
            elif isinstance(event, ev.LaunchersAsked):
                self.launchers += len(event.launchers)
            elif isinstance(event, ev.AttemptPlaced):
                if event.task != 0 or self._gate is None:
                    self.placed_s.append(event.at_s)
                else:
                    self._waits = event.key
            elif isinstance(event, ev.AttemptEnded) and event.key != self._waits:
                outcome = event.outcome
                assert outcome.started_s is not None, event
                assert outcome.ended_s is not None, event
                self.started_s.append(outcome.started_s)
                self.ended_s.append(outcome.ended_s)
            elif isinstance(event, ev.SiteCounted):
                self.commands.update(event.commands)
        if self._gate is not None and sum(self._slots.values()) >= self._wanted:
            self._gate.touch()

    @property
    def rate(self) -> float:
        """Tasks a second, from the first start to the last end."""
        return len(self.ended_s) / (max(self.ended_s) - min(self.started_s))

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last end."""
        return max(self.ended_s) - min(self.placed_s)


class Bench:
    """One session of measurements: where its files are, and its cluster."""

    def __init__(self, sizes: Sizes, scratch: Path, base: int) -> None:
        self.sizes = sizes
        self.scratch = scratch
        self._testbed = Testbed(Cluster.of(base))
        self._runs = 0
        self.console = Console(width=max(110, Console().width))

    def say(self, words: str) -> None:
        self.console.print(words, highlight=False)

    @contextmanager
    def cluster(self) -> Iterator[None]:
        """The testbed is up in here. Raises MissingError where it can't be."""
        self.say("bringing up a testbed …")
        try:
            self._testbed.up()
            yield
        finally:
            with suppress(MissingError):
                self._testbed.down()

    def local(self, slots: int) -> str:
        return f"sites:\n  here: {{slots: {slots}}}\n"

    def alpha(self, slots: int, channel: str | None) -> str:
        """A catalog with this many slots of alpha: in launchers, or with a job for each task."""
        lines = [
            "sites:",
            "  alpha:",
            "    kind: slurm",
            "    host: alpha",
            f"    ssh_config: {self._testbed.layout.ssh_config}",
            "    directory: ~/scratch",
            f"    slots: {slots}",
            "    queue: main",
            "    max_array: 1000",
        ]
        if channel is not None:
            cores = min(slots, CORES)
            count = slots // cores
            address = "" if channel == "spool" else ", address: 127.0.0.1"
            lines.append("    dispatch: launchers")
            lines.append(
                f"    launchers: {{cores: {cores}, min: {count}, max: {count}, backlog: {count}, "
                f"walltime: 30 min, channels: {channel}{address}}}"
            )
        return "\n".join(lines) + "\n"

    def run(
        self, catalog: str, count: int, argv: Sequence[str], slots: int = 0, *, gate: bool = True
    ) -> Seen:
        """Run so many of this command, once launchers with so many slots live. Raises FailedError
        where they do not all end well."""
        self._runs += 1
        directory = self.scratch / f"run-{self._runs}"
        directory.mkdir(mode=0o755)
        sites = directory / "sites.yaml"
        sites.write_text(catalog)
        door = directory / "gate" if gate else None
        seen = Seen(door, slots)
        workflow = bag(count, argv, door)
        asyncio.run(_run(workflow, sites, directory / "run", seen))
        if len(seen.ended_s) != count:
            raise FailedError(f"{len(seen.ended_s)} of {count} ends were seen")
        return seen

    def launched(self, slots: int, channel: str, count: int, argv: Sequence[str]) -> Seen:
        """The same in launchers that use this channel."""
        seen = self.run(self.alpha(slots, channel), count, argv, slots)
        if set(seen.channels) != {channel}:
            raise FailedError(f"launchers used {', '.join(seen.channels)}, not {channel}")
        return seen


def bag(count: int, argv: Sequence[str], gate: Path | None) -> Workflow:
    """These tasks, and before them one that ends when the gate is there."""
    tasks = [Task(f"t{n}", "task", argv[0], tuple(argv[1:])) for n in range(count)]
    parents: list[tuple[int, ...]] = [() for _ in tasks]
    if gate is not None:
        wait = f"until test -e {gate}; do sleep 0.05; done"
        tasks.insert(0, Task("gate", "gate", "/bin/sh", ("-c", wait)))
        parents = [(), *((0,) for _ in parents)]
    return Workflow("bag", "bag", tasks, [], parents)


async def _run(workflow: Workflow, sites: Path, directory: Path, seen: Seen) -> None:
    """To its end, or given up after a while."""
    work = asyncio.create_task(
        run_async(workflow, sites=sites, run_dir=directory, retries=0, observer=seen)
    )
    done, _ = await asyncio.wait({work}, timeout=LIMIT_S)
    if not done:
        RunDir(directory).ask_to_cancel("kill")
        await asyncio.wait({work}, timeout=GRACE_S)
        work.cancel()
        raise FailedError(f"took more than {LIMIT_S:g} s")
    result = work.result()
    if result.outcome != "done":
        raise FailedError("; ".join(f.message or f.cause for f in result.failures) or "not done")


def alone_s(argv: Sequence[str], times: int) -> float:
    """What such a process takes by itself, from its start until it is waited for."""
    taken = []
    for _ in range(times):
        begun_s = time.perf_counter()
        os.waitpid(os.posix_spawn(argv[0], list(argv), {}), 0)
        taken.append(time.perf_counter() - begun_s)
    return statistics.median(taken)


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
    directory = bench.scratch / "memory"
    directory.mkdir()
    argv = peers.wfrun_command(count, directory)
    process = subprocess.Popen(
        argv, cwd=directory, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    most: dict[int, int] = {}
    until_s = time.monotonic() + LIMIT_S
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
    parts = [kib / 1024 for kib in most.values()]
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
        rates["local"].append(bench.run(bench.local(2), count, ["/bin/true"]).rate)
        for channel in CHANNELS:
            rates[channel].append(bench.launched(2, channel, count, ["/bin/true"]).rate)
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
        "local": lambda: bench.run(bench.local(slots), count, argv),
        "tcp": lambda: bench.launched(slots, "tcp", count, argv),
        "ssh": lambda: bench.launched(slots, "ssh", count, argv),
        "spool": lambda: bench.launched(slots, "spool", count, argv),
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
        seen = bench.launched(sweep.slots, "tcp", count, argv)
        sweep.launchers[count] = seen.makespan_s
        if count in bench.sizes.jobs:
            bench.say(f"sweep: {count:,} tasks, jobs")
            # A run without launchers has nothing to wait for.
            seen = bench.run(bench.alpha(sweep.slots, None), count, argv, gate=False)
            sweep.jobs[count] = seen.makespan_s
    rows = [Row("sweep", "1 s tasks, 32 slots", f"{sweep.each_s:.4f} s each")]
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
        seen = bench.launched(8, "tcp", count, ["/bin/true"])
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


def measure(bench: Bench, parts: Sequence[str], figure: Path | None) -> list[Row]:
    alone = {"peers": measure_peers, "memory": measure_memory}
    launched: dict[str, Callable[[Bench], list[Row]]] = {
        "channels": measure_channels,
        "overhead": measure_overhead,
        "sweep": lambda bench: measure_sweep(bench, figure),
        "commands": measure_commands,
    }
    rows: list[Row] = []

    def take(name: str, part: Callable[[Bench], list[Row]]) -> None:
        try:
            rows.extend(part(bench))
        except (FailedError, peers.AbsentError) as error:
            rows.append(Row(name, "", f"not measured: {error}"))

    for name in [name for name in alone if name in parts]:
        take(name, alone[name])
    wanted = [name for name in launched if name in parts]
    if wanted:
        try:
            with bench.cluster():
                for name in wanted:
                    take(name, launched[name])
        except MissingError as error:
            rows.append(Row(", ".join(wanted), "", f"not measured: {error}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few tasks: does it work?")
    size.add_argument("--full", action="store_true", help="the whole sweep with jobs, too")
    parser.add_argument("--only", action="append", choices=PARTS, help="more than once, too")
    parser.add_argument("--figure", type=Path, metavar="PNG", help="draw the sweep")
    parser.add_argument("--base", type=int, default=34000, help="port of the testbed (34000)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sizes = QUICK if options.quick else FULL if options.full else DEFAULT
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as scratch:
        Path(scratch).chmod(0o755)  # tasks of the cluster's users look for the gate
        bench = Bench(sizes, Path(scratch), options.base)
        rows = measure(bench, options.only or PARTS, options.figure)
        print_table(bench, rows, options.quick)


if __name__ == "__main__":
    main()
