"""The grids of the JGC paper: the jobs of several logs, submitted to one grid of their machines.

Source: J. M. Ramírez-Alcaraz et al., Journal of Grid Computing 9, 2011, Tables 2 and 3, section
5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from wfrun.engine.model import SiteSpec
from wfrun.parsers.logs import align_to_monday, clip, drop_jobs, merge, read_swf
from wfrun.runners.simulate.grid.model import GridJob, grid_jobs

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
GRIDS: dict[str, tuple[str, ...]] = {
    "Grid1": tuple(MACHINES),
    "Grid2": ("KTH-SP2", "HPC2N", "CTC-SP2", "LANL-CM5"),
}
"""The logs of each grid, which are also the names of its machines. Grid2 of Table 3 also has the
five clusters of the DAS-2 (400 of 2,194 processors), whose trace is not public here."""
_EASTERNMOST = "Europe/Stockholm"
"""The time zone of KTH and HPC2N, the easternmost machines."""
WEEK_S = 7 * 86_400.0

Logs = tuple[tuple[str, str], ...]
"""(title, path) of each log."""


def sites(grid: str = "Grid1") -> tuple[SiteSpec, ...]:
    """The sites of a grid, all with the same speed, in the order of the paper's tables."""
    return tuple(SiteSpec(name, MACHINES[name]) for name in GRIDS[grid])


def logs_of(paths: Mapping[str, str | None], grid: str = "Grid1") -> Logs | None:
    """The logs of a grid, from ``paths`` by title; None if one is missing."""
    found = [(name, paths.get(name)) for name in GRIDS[grid]]
    known = tuple((name, path) for name, path in found if path is not None)
    return known if len(known) == len(found) else None


@lru_cache(maxsize=2)
def jobs_of(logs: Logs, weeks: int) -> tuple[GridJob, ...]:
    """The jobs submitted in the first ``weeks`` weeks of all logs, merged in order of submission
    (section 5.2).

    Jobs that `JGC_RULES` drop, and jobs larger than every machine, are left out. Each log begins on
    a Monday at midnight local time; the differences between the time zones are kept. So jobs of the
    last night in California come after the last week, and are left out. Raises InvalidError for a
    log that cannot be read.
    """
    parts = {}
    widest = max(MACHINES[name] for name, _ in logs)
    for name, path in logs:
        log = read_swf(Path(path))
        aligned = align_to_monday(log, reference=_EASTERNMOST)
        known = drop_jobs(clip(aligned, 0.0, weeks * WEEK_S)).jobs
        parts[name] = [job for job in known if (job.size or 0) <= widest]
    return tuple(grid_jobs(merge(parts)))
