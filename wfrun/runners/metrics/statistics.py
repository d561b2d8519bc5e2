"""Statistics of a run: as a whole, by workflow, by type of task and by site."""

from __future__ import annotations

import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.core.state import RunState, TaskStatus, WorkflowState
from wfrun.engine.model import Resources
from wfrun.runners.metrics.critical_path import CriticalPath, critical_path
from wfrun.runners.metrics.log import FailedAttempt, RunTimings, TimingCollector
from wfrun.runners.metrics.optional_bags import OptionalShares, optional_shares
from wfrun.runners.metrics.resource_use import ResourceUse, resource_use
from wfrun.runners.metrics.samples import percentile
from wfrun.runners.metrics.workflows import (
    TaskTiming,
    WorkflowTiming,
    bag_schedule_length,
    total_makespan_s,
)
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.directory.simulated import SIMULATED_ID
from wfrun.runners.run.store.collecting import collect


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the ended attempts of a run, a workflow, a type of tasks or a site. Times are
    in seconds. Waits and run times are means over the successful attempts, unless stated otherwise.
    None: undefined or unknown."""

    name: str
    tasks: int | None = None
    """Number of tasks. None in the statistics of a site."""
    done: int
    failed: int | None = None
    """Number of tasks that failed for good."""
    failed_attempts: int
    runtime_s: float | None = None
    runtime_median_s: float | None = None
    runtime_p95_s: float | None = None
    """95th percentile of the run times."""
    runtime_max_s: float | None = None
    wait_s: float | None = None
    """Time from when the task became eligible to its start: the sum of the next five fields."""
    throttle_s: float | None = None
    """Part of the wait in which the workflow was at its throttle."""
    launcher_s: float | None = None
    """Part of the wait in which no site had cores, because no launcher was ready."""
    room_s: float | None = None
    """Rest of the wait before placement: no site had free cores, or the policy waited."""
    staging_s: float | None = None
    """Wait for file transfers: file transfer delay (FTD)."""
    queue_s: float | None = None
    """Wait in the queue of the site: queue wait time (QWT)."""
    overhead_s: float | None = None
    """Time from the arrival of the last input to the report of the task's end, minus the run time,
    at sites with free cores."""
    cpu_share: float | None = None
    """CPU time divided by core time, over the attempts whose CPU time was measured."""
    peak_memory_bytes: int | None = None
    """Maximum peak memory of the attempts, in bytes."""
    used_core_s: float
    """Core time of all attempts."""
    failed_core_s: float
    """Core time of attempts that failed or were cancelled, except superseded attempts."""
    replica_core_s: float
    """Core time of superseded attempts: another attempt of the task succeeded first."""
    cost: float | None = None
    """Price of the core time used at sites with a price. None: no such site was used."""
    energy_kwh: float | None = None
    """Energy of the core time used at sites whose watts are known. None: no such site was used."""


class TypeStatistics(Statistics, frozen=True, kw_only=True):
    """Statistics of a type of tasks."""

    use: ResourceUse


class WorkflowStatistics(Statistics, frozen=True, kw_only=True):
    """Statistics of a workflow, or of all workflows of a run."""

    makespan_s: float | None
    nsl: float | None
    speedup: float | None
    """Run time of all successful attempts on one core of the fastest site, divided by the
    makespan."""
    efficiency: float | None
    """Speedup divided by the number of cores of all sites."""
    transfers: int
    """Number of files copied between sites."""
    moved_bytes: int


class SiteStatistics(Statistics, frozen=True, kw_only=True):
    """Statistics of a site."""

    slots: int
    utilization: float | None
    """Used core time divided by the core time of all slots, until the run ended or its log was
    read. Attempts that still run count, too."""
    launcher_core_s: float | None
    """Core time of the site's launchers, each from its start to its end, including idle cores.
    None: the site has no launchers."""
    files_in: int
    bytes_in: int


class RunStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """All statistics of a run."""

    path: str
    state: str
    """``running``, ``interrupted``, ``done``, ``failed`` or ``cancelled``."""
    policy: str
    elapsed_s: float
    currency: str | None
    """Currency of costs. None: no site has a price."""
    total: WorkflowStatistics
    workflows: tuple[WorkflowStatistics, ...]
    types: tuple[TypeStatistics, ...]
    """Statistics by type of task. The type of a task is its transformation in a workflow, or the
    program of its bag."""
    sites: tuple[SiteStatistics, ...]
    critical_path: CriticalPath | None
    """The actual critical path of the run. None: no task is done."""
    optional: OptionalShares | None = None
    """None: no bag of the run has optional tasks."""


class RunReading(NamedTuple):
    """State, timings and statistics of a run, from its log."""

    state: RunState
    timings: RunTimings
    driven: bool
    statistics: RunStatistics


def read_statistics(run: RunDir) -> RunReading:
    """Read the log of a run, which an engine may be writing. Raises the errors of ``collect``."""
    state, collector, driven = collect(run, TimingCollector)
    # The time of a simulated run is not that of the clock.
    timings = collector.timings(time.time() if driven and state.run_id != SIMULATED_ID else None)
    word = "running" if driven else state.ended or "interrupted"
    return RunReading(state, timings, driven, run_statistics(run.path, state, timings, word))


def run_statistics(path: Path, state: RunState, timings: RunTimings, word: str) -> RunStatistics:
    """Statistics of a run. ``timings`` are those of the events that led to ``state``; ``word`` is
    the state of the run, such as ``running``."""
    grouped = _Grouped(state, timings)
    workflows = tuple(grouped.workflow(w, t) for w, t in zip(
        state.workflows, timings.workflows, strict=True))  # fmt: skip
    return RunStatistics(
        path=str(path),
        state=word,
        policy=state.settings.placed_by,
        elapsed_s=timings.end_s - timings.started_s,
        currency=next((site.spec.currency for site in state.sites if site.spec.currency), None),
        total=grouped.total(path.name, workflows),
        workflows=workflows,
        types=grouped.types(),
        sites=tuple(grouped.site(index) for index in range(len(state.sites))),
        critical_path=critical_path(
            [w.workflow for w in state.workflows], timings.workflows, timings.tasks, timings.sites
        ),
        optional=optional_shares(state),
    )


class _Grouped:
    """The attempts of a run, grouped for statistics."""

    def __init__(self, state: RunState, timings: RunTimings) -> None:
        self._state, self._timings = state, timings
        self._type_of = [_types(w) for w in state.workflows]
        self._by_workflow: defaultdict[int, list[TaskTiming]] = defaultdict(list)
        self._by_type: defaultdict[str, list[TaskTiming]] = defaultdict(list)
        self._by_site: defaultdict[int, list[TaskTiming]] = defaultdict(list)
        for t in timings.tasks:
            self._by_workflow[t.workflow].append(t)
            self._by_type[self._type(t)].append(t)
            self._by_site[t.site].append(t)

    def _type(self, attempt: TaskTiming | FailedAttempt) -> str:
        types = self._type_of[attempt.workflow]
        return types[attempt.task] if len(types) > 1 else types[0]

    def total(self, name: str, workflows: Sequence[WorkflowStatistics]) -> WorkflowStatistics:
        state, timings = self._state, self._timings
        makespan_s = total_makespan_s(timings.workflows) if timings.workflows else None
        return self._of_workflows(
            timings.tasks, makespan_s,
            name=name, tasks=state.tasks, done=state.done, failed=state.failed,
            failed_attempts=len(timings.failed),
            nsl=workflows[0].nsl if len(workflows) == 1 else None,
            transfers=state.transfers, moved_bytes=state.moved_bytes,
        )  # fmt: skip

    def workflow(self, w: WorkflowState, timing: WorkflowTiming) -> WorkflowStatistics:
        attempts = self._by_workflow[w.index]
        nsl = timing.nsl
        if w.workflow.bag is not None and timing.makespan_s is not None:
            work_s = (t.runtime_s * self._speed(t) for t in attempts if t.done)
            nsl = bag_schedule_length(timing.makespan_s, work_s)
        return self._of_workflows(
            attempts, timing.makespan_s,
            name=timing.name, tasks=timing.tasks, done=timing.done, failed=w.failed,
            failed_attempts=sum(f.workflow == w.index for f in self._timings.failed),
            nsl=nsl, transfers=timing.transfers, moved_bytes=timing.moved_bytes,
        )  # fmt: skip

    def _of_workflows(
        self, attempts: Sequence[TaskTiming], makespan_s: float | None, **fields: Any
    ) -> WorkflowStatistics:
        speedup = efficiency = None
        sites = [s.spec for n, s in enumerate(self._state.sites) if not self._state.left >> n & 1]
        if makespan_s and sites:
            work_s = fsum(t.core_s * self._speed(t) for t in attempts if t.done)
            speedup = work_s / max(site.speed_ratio for site in sites) / makespan_s
            efficiency = speedup / max(1, sum(site.slots for site in sites))
        return WorkflowStatistics(
            makespan_s=makespan_s, speedup=speedup, efficiency=efficiency,
            **self._summarized(attempts), **fields,
        )  # fmt: skip

    def _speed(self, attempt: TaskTiming) -> float:
        return self._state.sites[attempt.site].spec.speed_ratio

    def types(self) -> tuple[TypeStatistics, ...]:
        tasks: Counter[str] = Counter()
        done: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        requests: defaultdict[str, set[Resources]] = defaultdict(set)
        for w, types in zip(self._state.workflows, self._type_of, strict=True):
            if len(types) > 1:
                tasks.update(types)
                for name, task in zip(types, w.workflow.tasks, strict=True):
                    requests[name].add(task.resources)
                done.update(t for t, s in zip(types, w.status, strict=True) if s == _DONE)
                failed.update(t for t, s in zip(types, w.status, strict=True) if s == _FAILED)
            elif types:
                tasks[types[0]] += len(w.status)
                done[types[0]] += w.done
                failed[types[0]] += w.failed
                requests[types[0]].add(w.workflow.tasks[0].resources)
        attempts = Counter(self._type(f) for f in self._timings.failed)
        return tuple(
            TypeStatistics(
                name=name, tasks=count, done=done[name], failed=failed[name],
                failed_attempts=attempts[name], use=self._use(name, requests[name]),
                **self._summarized(self._by_type[name]),
            )
            for name, count in tasks.items()
        )  # fmt: skip

    def _use(self, name: str, requests: set[Resources]) -> ResourceUse:
        sites = self._timings.sites
        emulated = self._state.settings.emulate
        return resource_use(requests, self._by_type[name], sites, emulated=emulated)

    def site(self, index: int) -> SiteStatistics:
        state = self._state
        site = state.sites[index]
        summary = self._summarized(self._by_site[index])
        capacity_s = site.spec.slots * (self._timings.end_s - state.started_s)
        running = (t for t in self._timings.running if t.site == index)
        used_core_s = fsum(t.core_s for t in (*self._by_site[index], *running))
        return SiteStatistics(
            name=site.spec.name, done=site.done, failed_attempts=site.failed,
            slots=site.spec.slots,
            utilization=used_core_s / capacity_s if capacity_s > 0 else None,
            launcher_core_s=self._launcher_core_s(index),
            files_in=site.transfers_in, bytes_in=site.bytes_in, **summary,
        )  # fmt: skip

    def _launcher_core_s(self, site: int) -> float | None:
        launchers = self._state.find(Launchers)
        pool = None if launchers is None else launchers.pools.get(site)
        if pool is None:
            return None
        end_s = self._timings.end_s
        return fsum(
            launcher.asked_slots
            * max(
                0.0, (end_s if launcher.ended_s is None else launcher.ended_s) - launcher.started_s
            )
            for launcher in (*pool.ended, *pool.launchers.values())
            if launcher.started_s is not None
        )

    def _summarized(self, attempts: Sequence[TaskTiming]) -> dict[str, Any]:
        """The fields of `Statistics` that are computed from attempts, including cost and energy."""
        used_core_s: defaultdict[int, float] = defaultdict(float)
        for t in attempts:
            used_core_s[t.site] += t.core_s
        used = [(self._timings.sites[site], core_s / 3600) for site, core_s in used_core_s.items()]
        prices = [(s.price_per_core_hour, hours) for s, hours in used]
        watts = [(s.watts_per_core, hours / 1000) for s, hours in used]
        return _summarized(attempts) | {"cost": _weighted(prices), "energy_kwh": _weighted(watts)}


_DONE, _FAILED = TaskStatus.DONE, TaskStatus.FAILED


def _types(w: WorkflowState) -> list[str]:
    """The type of each task of a workflow. A bag has only one entry, the type of all its tasks."""
    tasks = w.workflow.tasks
    if w.workflow.bag is not None:
        return [tasks[0].name] if len(tasks) else []
    return [task.name for task in tasks]


def _summarized(attempts: Sequence[TaskTiming]) -> dict[str, Any]:
    """The fields of `Statistics` that are computed from attempts, except cost and energy."""
    done = [t for t in attempts if t.done]
    runtimes_s = array("d", (t.runtime_s for t in done))
    cpu = [t for t in attempts if t.cpu_s is not None]
    used_core_s = fsum(t.core_s for t in attempts)
    cpu_core_s = fsum(t.core_s for t in cpu)
    memory = [t.peak_memory_bytes for t in attempts if t.peak_memory_bytes is not None]
    return {
        "runtime_s": _mean(runtimes_s),
        "runtime_median_s": percentile(runtimes_s, 50) if done else None,
        "runtime_p95_s": percentile(runtimes_s, 95) if done else None,
        "runtime_max_s": max(runtimes_s, default=None),
        "wait_s": _mean(t.wait_s for t in done),
        "throttle_s": _mean(t.throttle_s for t in done),
        "launcher_s": _mean(t.launcher_s for t in done),
        "room_s": _mean(t.room_s for t in done),
        "staging_s": _mean(t.staging_s for t in done),
        "queue_s": _mean(t.queue_wait_s for t in done),
        "overhead_s": _mean(t.overhead_s for t in done if t.overhead_s is not None),
        "cpu_share": fsum(t.cpu_s or 0.0 for t in cpu) / cpu_core_s if cpu_core_s else None,
        "peak_memory_bytes": max(memory, default=None),
        "used_core_s": used_core_s,
        "failed_core_s": fsum(t.core_s for t in attempts if not (t.done or t.superseded)),
        "replica_core_s": fsum(t.core_s for t in attempts if t.superseded),
    }


def _weighted(products: Iterable[tuple[float | None, float]]) -> float | None:
    """The sum of the products whose first factor is known; None if no first factor is known."""
    known = [value * amount for value, amount in products if value is not None]
    return fsum(known) if known else None


def _mean(values: Iterable[float]) -> float | None:
    known = array("d", values)
    return fsum(known) / len(known) if known else None
