"""Runs whose tasks wait behind a gate until all launchers run, and figures from their logs."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tests.testbed.layout import Layout, MissingError, Site, TestbedError
from tests.testbed.testbed import Testbed, registered
from wfrun.engine import events as ev
from wfrun.engine.model import Task, Workflow
from wfrun.runners.api import run_async
from wfrun.runners.run.directory.run_directory import RunDir

CORES = 8
"""Of a node of the cluster: so large are launchers, where there are slots enough."""
LIMIT_S = 1200.0
"""Timeout of one run."""
GRACE_S = 60.0
"""Timeout for the end of the processes of a run that was given up."""


class FailedError(Exception):
    """A run did not do what was to be measured; the message says why."""


class Cluster(Layout):
    """A testbed whose alpha has 4 nodes of 8 cores: 32 slots."""

    @property
    def sites(self) -> tuple[Site, ...]:
        alpha, *others = super().sites
        assert alpha.slurm is not None
        return (replace(alpha, slurm=replace(alpha.slurm, cpus=CORES)), *others)


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
        """Tasks per second, from the first start to the last end."""
        return len(self.ended_s) / (max(self.ended_s) - min(self.started_s))

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last end."""
        return max(self.ended_s) - min(self.placed_s)


class BenchSites:
    """The sites of a benchmark: a folder of this machine, and a testbed."""

    def __init__(self, scratch: Path, base: int) -> None:
        self.scratch = scratch
        self._testbed = Testbed(Cluster.of(base))
        self._runs = 0

    @contextmanager
    def cluster(self) -> Iterator[None]:
        """Bring the testbed up for a block. Raises TestbedError where it cannot be, MissingError if
        that is for what this machine lacks."""
        base = self._testbed.layout.base
        if base in registered():
            raise TestbedError(
                f"a testbed with base {base} is there already; choose another --base, or bring it "
                f"down: python -m tests.testbed --base {base} down"
            )
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
    """Run to the end, or give up after a timeout."""
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
    """Run time of one such process alone, from its start until it is reaped."""
    taken = []
    for _ in range(times):
        begun_s = time.perf_counter()
        os.waitpid(os.posix_spawn(argv[0], list(argv), {}), 0)
        taken.append(time.perf_counter() - begun_s)
    return statistics.median(taken)


def together_s(argv: Sequence[str], count: int) -> float:
    """Makespan of ``count`` such processes started by a bare loop without pauses."""
    begun_s = time.perf_counter()
    pids = [os.posix_spawn(argv[0], list(argv), {}) for _ in range(count)]
    for pid in pids:
        os.waitpid(pid, 0)
    return time.perf_counter() - begun_s
