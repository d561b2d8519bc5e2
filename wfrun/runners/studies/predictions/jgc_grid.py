"""Grid1 of the JGC paper: the jobs of seven logs submitted to one grid of their machines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from wfrun.engine.model import SiteSpec
from wfrun.parsers.logs import align_to_monday, clip, drop_jobs, merge, read_swf
from wfrun.runners.simulate.grid.model import GridJob, grid_jobs
from wfrun.runners.studies.predictions.part import Setting

MACHINES = {
    "KTH-SP2": 100,
    "SDSC-SP2": 128,
    "HPC2N": 240,
    "CTC-SP2": 430,
    "LANL-CM5": 1024,
    "SDSC-BLUE": 1152,
    "SDSC-DS": 1368,
}
"""Processors by title of the log (Table 2)."""
_EASTERNMOST = "Europe/Stockholm"
"""The time zone of KTH and HPC2N."""
WEEK_S = 7 * 86_400.0


def sites() -> tuple[SiteSpec, ...]:
    """The sites of Grid1, equally fast, in the order of Table 2."""
    return tuple(SiteSpec(name, processors) for name, processors in MACHINES.items())


def logs_of(setting: Setting) -> tuple[tuple[str, str], ...] | None:
    """The name and path of each log of Grid1; None if one is missing."""
    paths = {w.title: w.path for w in setting.workloads if w.path is not None}
    if any(name not in paths for name in MACHINES):
        return None
    return tuple((name, paths[name]) for name in MACHINES)


@lru_cache(maxsize=1)
def grid1(logs: Sequence[tuple[str, str]], weeks: int) -> tuple[GridJob, ...]:
    """The jobs of the first weeks: filtered, aligned on a Monday with the differences between the
    time zones, and merged (section 5.2). Those larger than every machine are left out. Raises
    InvalidError for a log that cannot be read."""
    parts = {}
    for name, path in logs:
        log = read_swf(Path(path))
        aligned = align_to_monday(log, reference=_EASTERNMOST)
        known = drop_jobs(clip(aligned, 0.0, weeks * WEEK_S)).jobs
        widest = max(MACHINES.values())
        parts[name] = [job for job in known if (job.size or 0) <= widest]
    return tuple(grid_jobs(merge(parts)))
