"""The seam between a site and its batch system: pure functions from requests to command lines,
and from what commands print to records. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.sites.batch.jobs import Ending, Job, QueueUnknownError, State

__all__ = [
    "BackPressureError",
    "BatchJob",
    "BatchSystem",
    "Ending",
    "Job",
    "QueueUnknownError",
    "State",
]


class BatchJob(msgspec.Struct, frozen=True):
    """One job, or one array of like jobs. Elements are numbered from 1."""

    name: str
    """``wfrun-<run id>-<number>``: how it is found again. Letters, digits and hyphens."""
    count: int
    """Elements; 1: a job that is no array."""
    nodes: int
    """Of each element."""
    cores: int
    """On each node."""
    memory_bytes: int
    """On each node; 0: not stated."""
    gpus: int
    """On each node."""
    walltime_s: float | None
    queue: str | None
    """Partition or queue; None: the system's own choice."""
    account: str | None
    options: tuple[str, ...]
    """Further arguments of the submission command, as the user wrote them."""
    avoid_nodes: tuple[str, ...]
    log: str
    """Absolute path of the file for what the job itself prints, that is, what goes wrong before
    the wrapper runs."""
    command: tuple[str, ...]
    """What each element runs; the number of the element (1 where there is no array) is added as
    the last argument."""


class BackPressureError(WfrunError):
    """A limit on jobs of this user is reached: wait, then submit again."""


class BatchSystem(Protocol):
    """One kind of batch system. Source of its facts: its manual, with the version, in the
    implementation."""

    environment: ClassVar[Mapping[str, str]]
    """To be added to the environment of the commands for the queue and for endings, so that the
    parsers can read what these print. Not for submissions: jobs would inherit it."""
    max_array: int
    """Most elements of an array that one submission takes."""

    def script(self, job: BatchJob) -> str:
        """The batch script, in POSIX shell, without directives: what is asked for is on the command
        line, where nothing has to be quoted. It ends by replacing itself with the job's command."""

    def submit(self, job: BatchJob, script: str) -> list[str]:
        """The command that submits the script at this path. The user's options come last, so that
        they have the last word."""

    def submitted(self, exit_code: int | None, output: str, errors: str) -> str:
        """The id of the new job. Raises BackPressureError for a limit, InfeasibleError where the
        request can never be taken (too large, no such queue or account), TransientError
        otherwise: whether the job was taken is then not known."""

    def queue(self, user: str | None) -> list[str]:
        """The command that shows the jobs of this user, or of everybody. It may show more: PBS
        can't choose."""

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[Job]:
        """What it printed. Array elements that wait are given one by one. Jobs that have ended
        are left out. Raises QueueUnknownError where the answer is none: a failure, nothing where
        there has to be at least a header, or what can't be understood."""

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        """The commands that cancel these jobs or elements. None: the whole job, and what is to be
        given for a job that is no array."""

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        """The commands that tell how these jobs (of which some elements may still be queued)
        ended, best first: an accounting database, then the scheduler's memory. Empty: this system
        has none."""

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        """What such a command printed, by id and element; without those that have not ended or
        are not known. Empty where it failed."""
