"""Computes the figures of ``wfrun bench dispatch`` from the log of a run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec

TASK_S = 0.1
"""Duration of a short task, in seconds. The makespan of the short tasks is compared with the
ideal."""


class BenchCounts(NamedTuple):
    """Numbers of tasks of each kind."""

    empty: int
    """Tasks without work, all ready together."""
    chain: int
    """Tasks without work, each the successor of the task before it."""
    short: int
    """Tasks that run for ``TASK_S``, all ready together."""


class Figures(NamedTuple):
    """Figures of one site. None: the run ended before the figure could be measured."""

    first_s: float | None
    """Time from the start of the run to the start of its first task, in seconds."""
    rate: float | None
    """Throughput of empty tasks that are all ready together, in tasks per second: number of tasks
    that ended, divided by the time from the first start to the last end."""
    latency_s: float | None
    """Median time in the chain from the exit of a task to the start of its successor, in seconds.
    Each time is the interval between two successive known ends, by the engine's clock, minus the
    run time of the successor."""
    slots: float
    """Mean number of slots for the short tasks: slots of live launchers, or of the catalog for a
    site without launchers."""
    ideal_s: float | None
    """Ideal makespan of the short tasks on these slots, in seconds."""
    took_s: float | None
    """Makespan of the short tasks in seconds, from the time at which they were ready to the last
    known end."""


def figures_of(events: Iterable[ev.Event], spec: SiteSpec, sizes: BenchCounts) -> Figures:
    """The figures of a run of ``bench_workflow``. The log may be incomplete."""
    log = _Log(spec)
    for event in events:
        log.take(event)
    empty = range(1, 1 + sizes.empty)
    chain = range(empty.stop, empty.stop + 1 + sizes.chain)
    short = range(chain.stop, chain.stop + sizes.short)
    first_s = log.started_s.get(0)
    begun_s = [log.started_s[n] for n in empty if n in log.started_s]
    ended_s = [log.known_s[n] for n in empty if n in log.known_s]
    rate = None
    if ended_s and begun_s and max(ended_s) > min(begun_s):
        rate = len(ended_s) / (max(ended_s) - min(begun_s))
    steps = [
        log.known_s[n + 1] - log.known_s[n] - log.took_s[n + 1]
        for n in chain[:-1]
        if n + 1 in log.known_s
    ]
    slots, ideal_s, took_s = float(spec.slots), None, None
    if all(n in log.known_s for n in short):
        from_s = log.known_s[chain[-1]]
        took_s = max(log.known_s[n] for n in short) - from_s
        ideal_s = log.ideal_s(from_s, sizes.short * TASK_S)
        slots = sizes.short * TASK_S / ideal_s
    return Figures(
        first_s=None if first_s is None else first_s - log.begun_s,
        rate=rate,
        latency_s=max(0.0, statistics.median(steps)) if steps else None,
        slots=slots,
        ideal_s=ideal_s,
        took_s=took_s,
    )


class _Log:
    """Starts and known ends of the tasks, and the number of slots over time."""

    def __init__(self, spec: SiteSpec) -> None:
        self.begun_s = 0.0
        self.started_s: dict[int, float] = {}
        self.known_s: dict[int, float] = {}
        self.took_s: dict[int, float] = {}
        """Run times, as measured at the site."""
        self._live: dict[str, int] = {}
        by_launchers = spec.access is not None and spec.access.dispatch == "launchers"
        self._slots: list[tuple[float, int]] = [(0.0, 0 if by_launchers else spec.slots)]
        """(time, number of slots from then on)"""

    def take(self, event: ev.Event) -> None:
        if isinstance(event, ev.RunStarted):
            self.begun_s = event.at_s
        elif isinstance(event, ev.AttemptStarted):
            self.started_s[_task(event.key)] = event.at_s
        elif isinstance(event, ev.AttemptEnded):
            self._end(_task(event.key), event.at_s, event.outcome)
        elif isinstance(event, ev.LauncherStarted):
            self._live[event.key] = event.slots
            self._slots.append((event.at_s, sum(self._live.values())))
        elif isinstance(event, (ev.LauncherDraining, ev.LauncherEnded)):
            self._live.pop(event.key, None)
            self._slots.append((event.at_s, sum(self._live.values())))

    def _end(self, task: int, at_s: float, outcome: Outcome) -> None:
        if outcome.cause != "done":
            return
        self.known_s[task] = at_s
        took_s = 0.0
        if outcome.started_s is not None and outcome.ended_s is not None:
            took_s = outcome.ended_s - outcome.started_s
        self.took_s[task] = took_s
        self.started_s.setdefault(task, at_s - took_s)  # if its start was not reported

    def ideal_s(self, from_s: float, work_s: float) -> float:
        """Minimum time in seconds in which all slots do ``work_s`` core seconds of work from
        ``from_s`` on."""
        left_s = work_s
        untils = [at_s for at_s, _ in self._slots[1:]] + [float("inf")]
        for (since_s, slots), until_s in zip(self._slots, untils, strict=True):
            if until_s <= from_s or slots == 0:
                continue
            begin_s = max(since_s, from_s)
            if left_s <= (until_s - begin_s) * slots:
                return begin_s + left_s / slots - from_s
            left_s -= (until_s - begin_s) * slots
        return left_s  # at least one slot existed: the tasks have ended


def _task(key: str) -> int:
    return int(key.rsplit(".", 2)[1])
