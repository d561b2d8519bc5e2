"""The protocol between a site and its batch system: pure functions from requests to command lines,
and from outputs to records. Nothing here runs a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.sites.batch.jobs import Ending, JobInQueue, QueueUnknownError, State
from wfrun.sites.batch.node_facts import NodeFacts

__all__ = [
    "ArrayTooLargeError",
    "BackPressureError",
    "BatchJob",
    "BatchSystem",
    "Ending",
    "JobInQueue",
    "QueueUnknownError",
    "State",
]


class BatchJob(msgspec.Struct, frozen=True):
    """A job, or an array of identical jobs. Elements are numbered from 1."""

    name: str
    """``wfrun-<run id>-<number>``, of letters, digits and hyphens. Recovery finds the job by this
    name."""
    count: int
    """Number of elements; 1: not an array."""
    nodes: int
    """Nodes of each element."""
    cores: int
    """Cores on each node."""
    memory_bytes: int
    """Memory on each node; 0: not requested."""
    gpus: int
    """GPUs on each node."""
    walltime_s: float | None
    queue: str | None
    """Partition or queue; None: the system's default."""
    account: str | None
    options: tuple[str, ...]
    """Further arguments of the submission command, from the catalog."""
    avoid_nodes: tuple[str, ...]
    log: str
    """Absolute path of the log for the output of the batch script and its command, such as errors.
    """
    output: str
    """Absolute path of the file in which the batch system collects a job's output. For an array,
    the paths of the elements' files begin with it."""
    command: tuple[str, ...]
    """Command of each element. The element's number, 1 without an array, is added as the last
    argument."""
    parallel: bool = False
    """Whether each element starts a process for each core. An element on several nodes always
    does."""

    @property
    def has_process_per_core(self) -> bool:
        """Whether each element starts a process for each core."""
        return self.parallel or self.nodes > 1


class BackPressureError(WfrunError):
    """A limit on jobs is reached: wait, then submit again."""


class ArrayTooLargeError(WfrunError):
    """An array of this size is not accepted: submit smaller ones."""


class BatchSystem(Protocol):
    """A batch system. Each implementation names the manual and the version that it follows, and
    derives from this class to inherit the default answers to the optional questions."""

    environment: ClassVar[Mapping[str, str]]
    """Variables for the commands of `queue` and `endings`, so that their output can be parsed.
    Submissions do not get them: jobs would inherit them."""
    node: ClassVar[NodeFacts]
    """Facts about the system that the programs on its nodes need."""
    max_array: int
    """Maximum number of elements of one array."""

    def script(self, job: BatchJob) -> str:
        """The batch script, in POSIX shell. It has no directives: resources are requested on the
        command line, where no quoting is needed. It ends with ``exec`` of the job's command."""

    def submit(self, job: BatchJob, script: str) -> list[str]:
        """The command that submits the script at this path. The user's options come last and
        override all others."""

    def submitted(self, exit_code: int | None, output: str, errors: str) -> str:
        """The id of the new job. Raises BackPressureError if a limit on jobs is reached,
        ArrayTooLargeError for an array with too many elements, InfeasibleError if the request can
        never be accepted (too wide, unknown queue or account), and TransientError otherwise: the
        job may have been accepted then."""

    def rehearse(self, job: BatchJob) -> list[str] | None:
        """The command that asks whether such a job would be accepted, or at least whether its queue
        exists, and submits nothing; None if the system has no such command."""

    def rehearsed(self, exit_code: int | None, output: str, errors: str) -> None:
        """Raise the errors of `submitted` if the answer to `rehearse` is a refusal."""

    def output_path(self, output: str, element: int | None) -> str | None:
        """Path of the file that the system leaves at the end of a job or element. It has the output
        from before our script began, and the system's message about the end. ``output`` is
        `BatchJob.output`; ``element`` is None for a job that is not an array. None if the system
        leaves no such file."""
        return None

    def explained(self, printed: str) -> Ending | None:
        """Why the system ended a job. ``printed`` is the content of the file of `output_path`. None
        if the file does not say why."""
        return None

    def queue(self, user: str | None) -> list[str]:
        """The command that shows the jobs of ``user``. If ``user`` is None, the command shows the
        jobs of all users, each element of an array by itself. It may show other users' jobs too:
        PBS cannot select by user."""

    def elements(self, ids: Sequence[str]) -> list[list[str]]:
        """The commands that show each element of these arrays by itself; `jobs` parses their
        output. Empty if `queue` already shows each element."""
        return []

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[JobInQueue]:
        """Parse the output of `queue`. Waiting array elements are listed one by one, ended jobs are
        left out. Raises QueueUnknownError if the command failed, if its output lacks even the
        header, or if it cannot be parsed."""

    def nodes(self) -> list[str] | None:
        """The command that shows the nodes, for `may_start`. A system needs it if it may report as
        never starting a job that can start when nodes are back in service. None: this system
        reports only jobs that can never start."""
        return None

    def may_start(self, reason: str, output: str) -> bool:
        """Whether a job that `jobs` shows as refused for this reason may start when all nodes are
        in service. ``output`` is the output of `nodes`. Raises QueueUnknownError if ``output``
        cannot be parsed."""
        return False

    def why(self, job: str) -> list[str] | None:
        """The command that shows why the job of this id, or its waiting elements, does not start;
        None if `queue` shows the reason, or no command does."""
        return None

    def waits(self, exit_code: int | None, output: str, errors: str) -> tuple[str, bool]:
        """Parse the output of `why`. Returns the reason, empty if there is none, and whether the
        job waits until somebody acts. Raises QueueUnknownError if the command failed."""
        return "", False

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        """The commands that cancel these jobs, or elements of arrays. The element is None for a
        whole array, and for a job that is not an array."""

    def removal(self, jobs: Sequence[str]) -> list[str] | None:
        """The command by which an administrator removes arrays that stay in the queue although all
        elements have ended; None: this system has no such arrays."""
        return None

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        """The commands that show how these jobs ended, most reliable first: the accounting
        database, then the scheduler's memory. Some of their elements may still be queued. Empty if
        this system has no such command."""

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        """Parse the output of a command of `endings`. Returns outcomes by job id and element,
        without elements that have not ended or are unknown. Raises QueueUnknownError if the output
        cannot be parsed; for a failed command it may raise this error or return nothing."""
