"""Several logs as one, as if one grid had received their jobs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from wfrun.parsers.logs.workload_log import GridFields, LoggedJob, Name

_Key = tuple[str, int | None, int]
"""The identity of a job: log, workflow and id."""


def merge(logs: Mapping[str, Iterable[LoggedJob]]) -> tuple[LoggedJob, ...]:
    """Merge the jobs of all logs in the order of submission.

    Each log must be sorted by submission, as readers return it. Jobs submitted at the same time are
    ordered as their logs are in ``logs``. Jobs get the ids 1, 2, … in the merged order. References
    to preceding jobs and parents are renumbered accordingly. A reference to a job that is absent is
    dropped, since no job can wait for it.

    Each log is a site. A job's ``site`` becomes the name of its log, or ``name/site`` if the job
    has a site already. Users, groups, applications and workflows of different logs are different,
    so they are numbered anew, in the order of appearance. Queues and partitions belong to a site
    and stay.
    """
    streams = [_named(name, jobs) for name, jobs in logs.items()]
    ordered = list(heapq.merge(*streams, key=lambda item: item[1].submit_s))
    ids: dict[_Key, int] = {}
    for number, (name, job) in enumerate(ordered, 1):
        # Other jobs refer to the first of two jobs with one number.
        ids.setdefault((name, *job.key), number)
    numbers = _Numbers()
    return tuple(
        _renumbered(name, job, number, ids, numbers)
        for number, (name, job) in enumerate(ordered, 1)
    )


def _named(name: str, jobs: Iterable[LoggedJob]) -> Iterator[tuple[str, LoggedJob]]:
    return ((name, job) for job in jobs)


class _Numbers:
    """Number the names of each kind from 1."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, Name], int]] = {}

    def of(self, kind: str, log: str, name: Name | None) -> int | None:
        if name is None:
            return None
        known = self._known.setdefault(kind, {})
        return known.setdefault((log, name), len(known) + 1)


def _renumbered(
    log: str, job: LoggedJob, number: int, ids: Mapping[_Key, int], numbers: _Numbers
) -> LoggedJob:
    preceding = None if job.preceding is None else ids.get((log, job.key[0], job.preceding))
    return replace(
        job,
        id=number,
        user=numbers.of("user", log, job.user),
        group=numbers.of("group", log, job.group),
        application=numbers.of("application", log, job.application),
        preceding=preceding,
        think_s=None if preceding is None else job.think_s,
        site=log if job.site is None else f"{log}/{job.site}",
        grid=None if job.grid is None else _renumbered_grid(log, job.grid, ids, numbers),
    )


def _renumbered_grid(
    log: str, grid: GridFields, ids: Mapping[_Key, int], numbers: _Numbers
) -> GridFields:
    if grid.workflow is None and not grid.parents:
        return grid
    parents = (ids.get((log, grid.workflow, parent)) for parent in grid.parents)
    return replace(
        grid,
        workflow=numbers.of("workflow", log, grid.workflow),
        parents=tuple(parent for parent in parents if parent is not None),
    )
