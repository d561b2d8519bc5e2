"""Workload logs: jobs that were submitted to a cluster or a grid.

Sources: Standard Workload Format 2.2 (Parallel Workloads Archive; S. Chapin et al., "Benchmarks and
standards for the evaluation of parallel job schedulers", JSSPP 1999) and Grid Workload Format (Grid
Workloads Archive; A. Iosup et al., Future Generation Computer Systems 24(7), 2008). Both write -1
for unknown values, which are None here.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Name = int | str
"""The name of a user, group or the like: a number in SWF, a number or a word in GWF."""

FAILED, COMPLETED, PARTIAL, PARTIAL_LAST, PARTIAL_FAILED, CANCELLED = range(6)
"""Values of `LoggedJob.status`. GWF has only FAILED, COMPLETED and CANCELLED."""


class GridFields(msgspec.Struct, frozen=True, gc=False):
    """The fields of a job that GWF has beyond SWF."""

    run_site: str | None = None
    """The site where the job ran (LastRunSiteID). `LoggedJob.site` is where it was submitted."""
    structure: str | None = None
    """UNITARY, BoT, …"""
    structure_id: str | None = None
    """JobStructureParams, such as the number of a bag."""
    network_kb_per_s: float | None = None
    disk_mb: float | None = None
    resources: str | None = None
    requested_platform: str | None = None
    requested_network_kb_per_s: float | None = None
    requested_disk_mb: float | None = None
    requested_resources: str | None = None
    virtual_organization: str | None = None
    project: str | None = None
    workflow: int | None = None
    """Comma variant: the workflow of the job. Ids of jobs may be unique only within their
    workflow."""
    parents: tuple[int, ...] = ()
    """Comma variant: ids of the jobs, in the same workflow, that must end before this job
    starts."""


class LoggedJob(msgspec.Struct, frozen=True, gc=False):
    """One job of a log. The first 18 fields are those of SWF, in its order.

    ``id`` and ``submit_s`` are as written in the log, even if negative, so that filters can drop
    such jobs. The other numbers are None where the log has -1.
    """

    id: int
    submit_s: float
    """Seconds since the log's start (`LogHeader.unix_start_s`)."""
    wait_s: float | None = None
    """Seconds between submission and start, as logged."""
    runtime_s: float | None = None
    """Wall-clock run time. 0 means that the job ran for less than half a second, or did not run."""
    processors: int | None = None
    """Number of allocated processors. Some logs have 0 for a job cancelled before it ran."""
    cpu_s: float | None = None
    """CPU time per processor: the mean over the job's processors."""
    memory_kb: float | None = None
    """Memory used per processor: the mean over the job's processors."""
    requested_processors: int | None = None
    requested_s: float | None = None
    """Requested run time: the user's estimate, or the limit of the job."""
    requested_memory_kb: float | None = None
    """Requested memory for each processor."""
    status: int | None = None
    user: Name | None = None
    group: Name | None = None
    application: Name | None = None
    queue: Name | None = None
    partition: Name | None = None
    preceding: int | None = None
    """Id of the job that ended before this one was submitted."""
    think_s: float | None = None
    """Think time: seconds from the end of ``preceding`` to the submission."""
    site: str | None = None
    """The site where the job was submitted, in the log of a grid or a merged log."""
    grid: GridFields | None = None

    @property
    def size(self) -> int | None:
        """Number of processors that the job requests, or, if the log states no request, of those
        allocated."""
        return self.requested_processors or self.processors

    @property
    def key(self) -> tuple[int | None, int]:
        """The identity of the job in its log: workflow and id."""
        return (None if self.grid is None else self.grid.workflow), self.id


class Dropped(msgspec.Struct, frozen=True):
    """A deviation from the format, counted by reason."""

    fate: Literal["dropped", "mended", "kept"]
    """``kept`` marks a strange value that is used as written."""
    reason: str
    lines: int
    first_line: int
    """The first line concerned, counted from 1."""

    def __str__(self) -> str:
        lines = "line" if self.lines == 1 else "lines"
        return f"{self.lines} {lines} {self.fate}, first {self.first_line}: {self.reason}"


_FIELD = re.compile(r"\s*([A-Za-z]+)\s*:\s*(.*?)\s*")
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class LogHeader(msgspec.Struct, frozen=True):
    """The comments of a log, and the values of named comments.

    In real logs text may follow a number (``MaxProcs: 1664 (72, 1368, 224)``); the number at the
    beginning is used. If a name is repeated, its first value counts.
    """

    comments: tuple[str, ...] = ()
    """The comments in the file's order, including those between jobs, without the sign that begins
    a comment."""

    def values(self, name: str) -> tuple[str, ...]:
        """The text after ``name:`` of each comment with that name."""
        matches = (_FIELD.fullmatch(comment) for comment in self.comments)
        return tuple(match[2] for match in matches if match is not None and match[1] == name)

    def text(self, name: str) -> str | None:
        """The first text after ``name:`` that is not empty."""
        return next(filter(None, self.values(name)), None)

    def number(self, name: str) -> int | None:
        """The whole number at the beginning of `text`. None if there is no such number, or it is
        negative."""
        match = _WHOLE.match(self.text(name) or "")
        return None if match is None or int(match[0]) < 0 else int(match[0])

    @property
    def max_procs(self) -> int | None:
        return self.number("MaxProcs")

    @property
    def max_nodes(self) -> int | None:
        return self.number("MaxNodes")

    @property
    def unix_start_s(self) -> int | None:
        """Time 0 of the log, in seconds since the epoch (UTC)."""
        return self.number("UnixStartTime")

    @property
    def zone(self) -> str | None:
        """TimeZoneString, a name of the IANA time zone database."""
        return self.text("TimeZoneString")

    @property
    def zone_offset_s(self) -> int | None:
        """Offset of the site's time zone in seconds east of UTC, from TimeZone, the predecessor of
        TimeZoneString in the format."""
        match = _WHOLE.match(self.text("TimeZone") or "")
        return None if match is None else int(match[0])


class WorkloadLog(msgspec.Struct, frozen=True):
    """A log that was read. Jobs are in the order of submission, then of the file."""

    source: str
    header: LogHeader
    jobs: tuple[LoggedJob, ...]
    dropped: tuple[Dropped, ...] = ()
    """Sorted by first line."""

    @property
    def processors(self) -> int | None:
        """Number of processors of the machine: MaxProcs, or MaxNodes if MaxProcs is not stated."""
        return self.header.max_procs or self.header.max_nodes
