"""Records that the core and the sites exchange: requests, exit records, receipts."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from wfrun.engine.fitting.containers import SiteEnvironment
from wfrun.engine.model import Resources


class InputLink(msgspec.Struct, frozen=True, gc=False):
    """An input that must be in the sandbox before the task starts."""

    stored: str
    """Name in the site's file store."""
    name: str
    """Path relative to the sandbox."""


class OutputFile(msgspec.Struct, frozen=True, gc=False):
    """An output that is moved from the sandbox to the store of the site if the task succeeds."""

    name: str
    """Path relative to the sandbox."""
    stored: str
    """Name in the site's file store."""
    optional: bool = False


class ClaimedNode(msgspec.Struct, frozen=True, gc=False):
    """A node that a placeholder, a launcher of the job's claim, holds for a job."""

    name: str
    """Name of the node in the job's node file. Unique within the claim: hosts of different sites
    may have equal host names."""
    processes: int
    """Number of processors of the node that are held for the job."""
    launcher: str
    """Key of the placeholder."""
    node: int
    """Number of the node in that placeholder, from 0."""


class AttemptRequest(msgspec.Struct, frozen=True, gc=False):
    """All that a site needs to run an attempt. Paths are relative to the sandbox."""

    key: str
    """Key of the attempt, also its name at the site: letters, digits, dots and hyphens."""
    argv: tuple[str, ...]
    env: dict[str, str]
    inputs: tuple[InputLink, ...]
    outputs: tuple[OutputFile, ...]
    stdin: str | None
    stdout: str | None
    """Path of the file for the standard output; None: the output is kept as the log of the
    attempt."""
    stderr: str | None
    resources: Resources
    avoid_hosts: tuple[str, ...] = ()
    """Hosts where several attempts in a row have failed. Sites with a single host ignore this."""
    job_walltime_s: float | None = None
    """Walltime in seconds that the batch job of the attempt requests; None: the walltime of
    ``resources``, or else of the site. Unlike the walltime of ``resources``, it does not limit the
    task itself."""
    expected_s: float | None = None
    """Expected run time at this site in seconds; None if unknown. A launcher does not start an
    attempt that is expected to run past the launcher's end."""
    hosts: tuple[str, ...] = ()
    """Hosts on which a task of several nodes has its cores, in a launcher of several nodes. The
    command of the task starts on the first host."""
    max_log_bytes: int | None = None
    """Maximum size of the kept stdout, and of the kept stderr. None: no limit."""
    environment: SiteEnvironment | None = None
    """What the site sets up for the task; None: nothing."""
    checksums: bool = False
    """Whether the exit record has digests of the outputs."""
    claim: str = ""
    """Key of the claim whose processors the attempt uses (`claim_of`). Empty: any launcher that
    belongs to no claim may run the attempt."""
    claimed: tuple[ClaimedNode, ...] = ()
    """The nodes of the claim. The placeholder of the first node runs the attempt."""
    malleable: bool = False
    """Whether the program of the attempt may be offered further nodes of its claim while it
    runs."""


class LauncherRequest(msgspec.Struct, frozen=True):
    """A launcher to start: one batch job, in which a process on each node runs tasks."""

    key: str
    """Key of the launcher, also its name at the site: letters, digits, dots and hyphens."""
    nodes: int
    cores: int
    """Slots on each node."""
    memory_bytes: int
    """Memory on each node; 0: not stated."""
    gpus: int
    """Number of GPUs on each node."""
    walltime_s: float


_PLACEHOLDER = re.compile(r"(.+\.C[0-9]+)\.[0-9]+")


def claim_of(launcher: str) -> str:
    """The key of the claim that a launcher holds processors for; empty if the launcher belongs to
    no claim. The key is part of the launcher's name, so that every engine and site knows it without
    a record."""
    found = _PLACEHOLDER.fullmatch(launcher)
    return "" if found is None else found[1]


Cause = Literal[
    "done",
    "exit",  # the task's own non-zero exit code
    "signal",  # ended by a signal that we did not send
    "memory",  # exceeded its memory request
    "walltime",
    "output",  # exited with 0 but did not write a declared output
    "launch-failed",  # could not be started: the executable is missing or not executable there
    "environment",  # the site's prologue failed, or its container runtime or an image is missing
    "staging",  # an input did not arrive
    "disk-full",  # the site's disk is full or its directory cannot be written
    "refused",  # the scheduler never accepts such a request
    "preempted",  # the site reclaimed its cores
    "reclaimed",  # the engine took its processors back, with the claim that it ran in
    "expired",  # the walltime of its launcher ended
    "node",  # the node that it ran on failed
    "cancelled",
    "lost",  # the site does not know its outcome
]

CopyCause = Literal[
    "disk-full",
    "quota",
    "permission",  # denied, or a file system that is mounted read-only
    "connection",
    "absent",  # the source does not exist
    "changed",  # the source is not what was written
    "checksum",  # what arrived has another size or checksum than what was sent
    "stalled",  # nothing came for a long time
    "unknown",
]
"""Why a copy failed."""

Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""A time or a duration that a site reports, within a range that calendars and sums can handle."""
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number or a size that a site reports, within a range that a database can store."""
_Code = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 32)]
_FileName = Annotated[str, msgspec.Meta(pattern=r"\A(?!\.\.?\Z)[^/\0]+\Z", max_length=255)]


class PackedLog(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Location of an attempt's stdout and stderr in a log file of its launcher. Many attempts share
    one log file."""

    file: _FileName
    """Name in the folder ``logs`` of the run's directory at the site."""
    offset_bytes: Count
    stdout_bytes: Count
    stderr_bytes: Count
    """Size of the stderr, which follows the stdout immediately."""


Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""SHA-256 of a file; of a directory: see ``wfrun.sites.node.tasks.digests``."""


class Content(msgspec.Struct, frozen=True, gc=False):
    """The contents that a file or a directory must have."""

    size_bytes: int | None = None
    """Size in bytes, for a directory the size of all its files; None: unknown."""
    digest: str | None = None
    """Digest of the contents; None: unknown."""
    verify: bool = False
    """Whether a copy is verified by digest. If ``digest`` is None, a digest is computed during the
    copy."""
    sha256: str | None = None
    """Checksum of the image of a container, in hexadecimal digits; None for other files."""
    is_stated: bool = False
    """Whether ``digest`` is stated by a replica catalog. Otherwise it was computed from a file of
    the run."""


ANYTHING = Content()
"""Neither size nor digest is known, so any contents match."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The exit record of an attempt. Sites are not trusted: decoding fails for a record that has a
    value of another type or a number out of bounds."""

    cause: Cause
    exit_code: _Code | None = None
    signal: _Code | None = None
    started_s: Seconds | None = None
    """Seconds since the epoch, by the clock of the site."""
    ended_s: Seconds | None = None
    cpu_s: Seconds | None = None
    peak_memory_bytes: Count | None = None
    host: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    sizes: tuple[Count | None, ...] = ()
    """Size of each output in bytes, in the order of the request; None for an optional output that
    is absent."""
    digests: tuple[Digest | None, ...] = ()
    """Digest of each output, in the order of the request, if the request asks for checksums."""
    message: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    """For a failure: what happened, and the end of stderr."""
    packed: PackedLog | None = None
    """Location of the attempt's output in a log file of its launcher. None if the attempt printed
    nothing, or has log files of its own."""


class Found(msgspec.Struct, frozen=True):
    """The state of an attempt or a launcher, as its site reports it to a new engine.

    ``absent``: never started there, so it can be submitted safely. ``active``: queued or running
    there; its end will be posted. ``ended``: ``outcome`` is its exit record.
    """

    state: Literal["absent", "active", "ended"]
    outcome: Outcome | None = None


class Receipt(msgspec.Struct, frozen=True):
    """A successful file transfer."""

    size_bytes: int
    elapsed_s: float
    digest: str | None = None
    """Digest of the bytes that have arrived; None: it was not computed."""
    method: str = ""
    """Name of the transfer method; empty: nothing was transferred."""
    fallback: str = ""
    """Why a preferred transfer method is no longer used for this pair of sites. Stated once for
    each method; otherwise empty."""
    sent_bytes: int | None = None
    """Bytes sent, if the transfer completed a partial earlier copy. None if the whole file was
    sent."""
