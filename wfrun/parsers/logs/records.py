"""What workload logs hold: jobs that were once submitted to a cluster or a grid.

Sources: Standard Workload Format 2.2 (Parallel Workloads Archive; S. Chapin et al., "Benchmarks and
standards for the evaluation of parallel job schedulers", JSSPP 1999) and Grid Workload Format (Grid
Workloads Archive; A. Iosup et al., Future Generation Computer Systems 24(7), 2008). Both write -1
for what is unknown, which is None here.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Name = int | str
"""Who or what: a number in SWF, a number or a word in GWF."""

FAILED, COMPLETED, PARTIAL, PARTIAL_LAST, PARTIAL_FAILED, CANCELLED = range(6)
"""Values of `LoggedJob.status`. GWF knows FAILED, COMPLETED and CANCELLED."""


class GridFields(msgspec.Struct, frozen=True, gc=False):
    """What GWF says of a job beyond SWF."""

    run_site: str | None = None
    """Where it ran (LastRunSiteID); where it was submitted is `LoggedJob.site`."""
    structure: str | None = None
    """UNITARY, BoT, …"""
    structure_id: str | None = None
    """JobStructureParams: which bag, for one."""
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
    """Comma variant: the workflow that it is part of. Ids may be those within the workflow."""
    parents: tuple[int, ...] = ()
    """Comma variant: ids of the jobs, of the same workflow, that have to end before."""


class LoggedJob(msgspec.Struct, frozen=True, gc=False):
    """One job of a log. The first 18 fields are those of SWF, in its order.

    ``id`` and ``submit_s`` are as they stand in the log, negative ones too, so that filters can
    drop these; the other numbers are None for -1.
    """

    id: int
    submit_s: float
    """Since the log's start (`LogHeader.unix_start_s`)."""
    wait_s: float | None = None
    """Between submission and start, as it was at the time."""
    runtime_s: float | None = None
    """Wall clock. 0 means less than half a second, or that it did not run."""
    processors: int | None = None
    """Allocated. 0 in some logs when it was cancelled before it ran."""
    cpu_s: float | None = None
    """Mean over its processors."""
    memory_kb: float | None = None
    """Used, mean over its processors."""
    requested_processors: int | None = None
    requested_s: float | None = None
    """The user's estimate, or the limit, of the run time."""
    requested_memory_kb: float | None = None
    """For each processor."""
    status: int | None = None
    user: Name | None = None
    group: Name | None = None
    application: Name | None = None
    queue: Name | None = None
    partition: Name | None = None
    preceding: int | None = None
    """Id of the job that had to end before this one was submitted."""
    think_s: float | None = None
    """From the end of ``preceding`` to the submission."""
    site: str | None = None
    """Where it was submitted, in a grid's or a merged log."""
    grid: GridFields | None = None

    @property
    def size(self) -> int | None:
        """Processors it takes: allocated ones if it was given any, or else those asked for."""
        return self.processors or self.requested_processors

    @property
    def key(self) -> tuple[int | None, int]:
        """What tells it from the other jobs of its log: workflow and id."""
        return (None if self.grid is None else self.grid.workflow), self.id


class Dropped(msgspec.Struct, frozen=True):
    """What was not taken as it stood, counted by reason."""

    fate: Literal["dropped", "mended", "kept"]
    """``kept``: strange, and taken as it is."""
    reason: str
    lines: int
    first_line: int
    """In the file, counted from 1."""

    def __str__(self) -> str:
        lines = "line" if self.lines == 1 else "lines"
        return f"{self.lines} {lines} {self.fate}, first {self.first_line}: {self.reason}"


_FIELD = re.compile(r"\s*([A-Za-z]+)\s*:\s*(.*?)\s*")
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class LogHeader(msgspec.Struct, frozen=True):
    """The comments of a log. All text is kept; what is known by name can be asked for.

    Numbers are followed by free text in real logs (``MaxProcs: 1664 (72, 1368, 224)``); the number
    at the start is taken. Where a name is there several times, the first counts.
    """

    comments: tuple[str, ...] = ()
    """Without the comment sign, in the file's order, those between the jobs too."""

    def values(self, name: str) -> tuple[str, ...]:
        """The texts behind ``name:``, one for each time that it is there."""
        matches = (_FIELD.fullmatch(comment) for comment in self.comments)
        return tuple(match[2] for match in matches if match is not None and match[1] == name)

    def text(self, name: str) -> str | None:
        """The first text behind ``name:`` that is not empty."""
        return next(filter(None, self.values(name)), None)

    def number(self, name: str) -> int | None:
        """The whole number at the start of that text; None: there is none, or it is negative."""
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
        """Seconds since the epoch, UTC, at which the log's time is 0."""
        return self.number("UnixStartTime")

    @property
    def zone(self) -> str | None:
        """TimeZoneString, a name of the IANA time zone database."""
        return self.text("TimeZoneString")

    @property
    def zone_offset_s(self) -> int | None:
        """TimeZone, seconds east of UTC: what the format had before TimeZoneString."""
        match = _WHOLE.match(self.text("TimeZone") or "")
        return None if match is None else int(match[0])


class WorkloadLog(msgspec.Struct, frozen=True):
    """A log that was read: jobs by submission, those of the same second in the file's order."""

    source: str
    header: LogHeader
    jobs: tuple[LoggedJob, ...]
    dropped: tuple[Dropped, ...] = ()
    """Sorted by first line."""

    @property
    def processors(self) -> int | None:
        """Of the machine: MaxProcs, or MaxNodes where that is all there is."""
        return self.header.max_procs or self.header.max_nodes
