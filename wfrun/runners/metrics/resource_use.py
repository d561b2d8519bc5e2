"""Compares requested with used cores, memory and walltime, and suggests requests for the next
run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil

import msgspec

from wfrun.engine.model import Resources, SiteSpec
from wfrun.runners.metrics.workflows import TaskTiming

MEMORY_MARGIN = 1.25
"""Ratio of the suggested memory to the largest measured peak, because peaks vary with the input."""
WALLTIME_MARGIN = 1.5
"""Ratio of the suggested walltime to the longest run time, because hosts and their load differ."""
_IDLE_CORES = 0.1
"""Maximum fraction of a core above a whole number that the suggested cores ignore, because program
start and noise cause it."""
_MIN_RUNTIME_S = 1.0
"""Minimum run time in seconds of tasks from which the number of used cores is computed. In shorter
tasks start-up and the resolution of clocks dominate."""
_MIB = 2**20
_MEMORY_STEPS = ((1024 * _MIB, 64 * _MIB), (8192 * _MIB, 256 * _MIB))
"""(limit, step) in bytes: a suggested memory up to the limit is a multiple of the step. Above the
last limit it is a multiple of 1 GiB."""
_WALLTIME_STEPS_S = ((600.0, 60.0), (7200.0, 300.0))
"""(limit, step) in seconds: a suggested walltime up to the limit is a multiple of the step. Above
the last limit it is a multiple of 30 minutes."""
_UNSEEN_RUNTIMES = ("docker", "podman")
"""Container runtimes that run tasks in processes of their daemon, so that exit records measure only
the client."""


class ResourceUse(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a type of tasks, and the resources that its done tasks have used."""

    measured: int
    """Number of done tasks whose exit record has measurements."""
    requested_cores: int
    """Requested cores per task. If tasks of the type have different requests, each ``requested_``
    field is the maximum."""
    used_cores: float | None
    """Maximum over the tasks of CPU time divided by run time. None: not measured."""
    suggested_cores: int | None
    """Suggested request for the next run. None: not measured."""
    requested_memory_bytes: int
    """Requested memory on each node, in bytes; 0: not stated."""
    peak_memory_bytes: int | None
    """Largest resident set of a process of any task, in bytes. None: not measured."""
    suggested_memory_bytes: int | None
    requested_walltime_s: float | None
    """Requested walltime in seconds. None: not stated."""
    runtime_max_s: float | None
    """Longest run time in seconds. None: not measured."""
    suggested_walltime_s: float | None


def resource_use(
    requests: Collection[Resources],
    attempts: Sequence[TaskTiming],
    sites: Sequence[SiteSpec],
    *,
    emulated: bool,
) -> ResourceUse:
    """Compare the ``requests`` of a type of task with the resources that its ``attempts`` used.
    Emulated and simulated tasks have no measurements. Exit records cover only one node, so that
    cores and memory of tasks with several nodes count as not measured."""
    done = [t for t in attempts if t.done and t.cpu_s is not None and not emulated]
    nodes = max((asked.nodes for asked in requests), default=1)
    seen = [] if nodes > 1 else [t for t in done if not _is_unseen(sites[t.site], requests)]
    cores = [
        t.cpu_s / t.runtime_s for t in seen if t.cpu_s is not None and t.runtime_s >= _MIN_RUNTIME_S
    ]
    peaks = [t.peak_memory_bytes for t in seen if t.peak_memory_bytes is not None]
    peak_bytes = max(peaks, default=None)
    runtime_s = max((t.runtime_s for t in done), default=None)
    walltimes_s = [asked.walltime_s for asked in requests if asked.walltime_s is not None]
    used_cores = max(cores, default=None)
    return ResourceUse(
        measured=len(done),
        requested_cores=max((asked.cores for asked in requests), default=1),
        used_cores=used_cores,
        suggested_cores=None if used_cores is None else max(1, ceil(used_cores - _IDLE_CORES)),
        requested_memory_bytes=max((asked.memory_bytes for asked in requests), default=0),
        peak_memory_bytes=peak_bytes,
        suggested_memory_bytes=None if peak_bytes is None else _suggested_memory(peak_bytes),
        requested_walltime_s=max(walltimes_s, default=None),
        runtime_max_s=runtime_s,
        suggested_walltime_s=None if runtime_s is None else _suggested_walltime(runtime_s),
    )


def _is_unseen(site: SiteSpec, requests: Collection[Resources]) -> bool:
    """Whether exit records at the site measure only the client of a container runtime."""
    runtime = None if site.environment is None else site.environment.container
    if runtime is None or runtime.name not in _UNSEEN_RUNTIMES:
        return False
    return runtime.image is not None or any(asked.container is not None for asked in requests)


def _suggested_memory(peak_bytes: int) -> int:
    size_bytes = peak_bytes * MEMORY_MARGIN
    step = next((step for most, step in _MEMORY_STEPS if size_bytes <= most), 1024 * _MIB)
    return ceil(size_bytes / step) * step


def _suggested_walltime(runtime_s: float) -> float:
    walltime_s = runtime_s * WALLTIME_MARGIN
    step_s = next((step for most, step in _WALLTIME_STEPS_S if walltime_s <= most), 1800.0)
    return max(1, ceil(walltime_s / step_s)) * step_s
