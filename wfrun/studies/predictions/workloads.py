"""The workloads of the study: logs, and generated ones of grids whose traces are not public."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.prediction.job import is_plausible
from wfrun.engine.prediction.replay import PastJob
from wfrun.parsers.logs import LoggedJob, read_gwf, read_swf
from wfrun.runners.forecast.log_accuracy import LogHistory, log_history
from wfrun.studies.predictions.generated import GRIDS, generate_grid

Kind = Literal["research", "production", "parallel", "other"]
"""Research or production grid as in Table 7.1, parallel machine, or another log that was named."""

KNOWN: dict[str, tuple[str, Kind]] = {
    "KTH-SP2": ("KTH-SP2", "parallel"),
    "SDSC-SP2": ("SDSC-SP2", "parallel"),
    "HPC2N": ("HPC2N", "parallel"),
    "CTC-SP2": ("CTC-SP2", "parallel"),
    "LANL-CM5": ("LANL-CM5", "parallel"),
    "SDSC-BLUE": ("SDSC-BLUE", "parallel"),
    "SDSC-DS": ("SDSC-DS", "parallel"),
    "LPC-EGEE": ("LPC-EGEE", "production"),
}
"""Logs of the Parallel Workloads Archive that ``--corpus`` finds: title and kind, by the beginning
of the file's name. LPC-EGEE is a site of a production grid."""


class Workload(msgspec.Struct, frozen=True):
    """A log, or a grid of ``GRIDS`` that is generated."""

    label: str
    """Identifies the workload in results. For a log it has the file's name and a digest of its
    content."""
    title: str
    kind: Kind
    path: str | None = None
    """The path of the log; None if the workload is generated."""

    @property
    def generated(self) -> bool:
        return self.path is None

    @property
    def is_grid(self) -> bool:
        """Whether the workload's jobs name sites. Other logs have a single site."""
        return self.path is None or ".gwf" in Path(self.path).suffixes


class Jobs(NamedTuple):
    """The jobs of a workload."""

    logged: tuple[LoggedJob, ...]
    """The jobs in the order of submission."""
    processors: int | None
    """Processors of the whole system; None if unknown."""
    history: LogHistory
    sites: int = 1
    """Number of sites, which have equal sizes."""

    @property
    def past(self) -> list[PastJob]:
        """The jobs in the order of ``logged``."""
        return [past for past, is_end in self.history.moments if not is_end]


def workloads_of(corpus: Path | None, logs: Sequence[Path]) -> tuple[Workload, ...]:
    """The workloads: ``logs``, the logs of ``KNOWN`` and all GWF logs in ``corpus``, and the
    generated workloads. Raises InvalidError for a corpus without any of these logs, and for a log
    that cannot be read."""
    found = [_of_log(path) for path in logs]
    if corpus is not None:
        known = [_of_log(path) for path in _logs_in(corpus)]
        if not known:
            raise InvalidError(
                "there is no workload log of the study in this folder",
                source=str(corpus),
                hint="it should hold logs of the Parallel Workloads Archive such as "
                "KTH-SP2-1996-2.1-cln.swf.gz, or logs of grids (*.gwf)",
            )
        found += known
    # The same log may be named, and be in the corpus under another name.
    real = {workload.label.rpartition("#")[2]: workload for workload in reversed(found)}
    made = [Workload(f"grid:{name}", f"{grid.title}*", grid.kind) for name, grid in GRIDS.items()]
    return (*reversed(real.values()), *made)


def _logs_in(corpus: Path) -> Iterable[Path]:
    files = sorted(path for path in corpus.rglob("*") if path.is_file())
    for prefix in KNOWN:
        first = next((p for p in files if p.name.startswith(prefix) and ".swf" in p.name), None)
        if first is not None:
            yield first
    yield from (path for path in files if ".gwf" in path.suffixes)


def _of_log(path: Path) -> Workload:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:10]
    except OSError as error:
        raise InvalidError(
            f"the log cannot be read: {error.strerror}",
            source=str(path),
            hint="name a log in SWF or GWF",
        ) from error
    stem = path.name.partition(".swf")[0].partition(".gwf")[0]
    kind: Kind
    title, kind = next(
        (known for prefix, known in KNOWN.items() if path.name.startswith(prefix)), (stem, "other")
    )
    return Workload(f"{path.name} #{digest}", title, kind, str(path))


@lru_cache(maxsize=2)  # the next cell often has the same
def jobs_of(workload: Workload, jobs: int | None, seed: int = 0) -> Jobs:
    """The first ``jobs`` jobs (None: all) with a known wait, a known number of processors and a
    plausible run time. Raises InvalidError for a log that cannot be read or has no such job."""
    if workload.path is None:
        grid = GRIDS[workload.label.removeprefix("grid:")]
        logged, processors = generate_grid(grid, jobs or grid.jobs, seed)
        history = log_history(logged, is_grid=True)
        return Jobs(logged, processors, history, grid.clusters)
    log = (read_gwf if workload.is_grid else read_swf)(workload.path)
    chosen = tuple(islice(filter(_is_usable, log.jobs), jobs))
    if not chosen:
        raise InvalidError(
            "no job of the log has a run time, a wait and a number of processors",
            source=workload.path,
            hint="give a log of jobs that ran",
        )
    return Jobs(chosen, log.processors, log_history(chosen, is_grid=workload.is_grid))


def _is_usable(job: LoggedJob) -> bool:
    return (
        job.runtime_s is not None
        and is_plausible(job.runtime_s)
        and job.wait_s is not None
        and job.wait_s >= 0
        and bool(job.size)
    )
