"""What the core and a site tell each other about one attempt."""

from __future__ import annotations

from typing import Literal

import msgspec

from wfrun.engine.model import Resources


class InputLink(msgspec.Struct, frozen=True, gc=False):
    """An input that has to be in the sandbox before the task starts."""

    stored: str
    """Name in the site's file store."""
    name: str
    """Path relative to the sandbox."""


class OutputFile(msgspec.Struct, frozen=True, gc=False):
    """An output that is committed from the sandbox to the site's store when the task succeeds."""

    name: str
    """Path relative to the sandbox."""
    stored: str
    """Name in the site's file store."""
    optional: bool = False


class AttemptRequest(msgspec.Struct, frozen=True, gc=False):
    """All that a site needs to run one attempt. Paths are relative to the sandbox."""

    key: str
    """The attempt's id, and its name at the site: letters, digits, dots and hyphens."""
    argv: tuple[str, ...]
    env: dict[str, str]
    inputs: tuple[InputLink, ...]
    outputs: tuple[OutputFile, ...]
    stdin: str | None
    stdout: str | None
    """None: kept as the attempt's log."""
    stderr: str | None
    resources: Resources
    avoid_hosts: tuple[str, ...] = ()
    """Hosts that have failed one attempt after another. A site of one host passes this over."""
    expected_s: float | None = None
    """How long it is expected to run at this site; None: unknown. A launcher does not start what
    would outlast it."""
    hosts: tuple[str, ...] = ()
    """Where a task of several nodes has its cores, in a launcher; the first is where it starts."""


class LauncherRequest(msgspec.Struct, frozen=True):
    """A launcher to be started: one batch job, in which a process on each node runs tasks."""

    key: str
    """Its id, and its name at the site: letters, digits, dots and hyphens."""
    nodes: int
    cores: int
    """Slots on each node."""
    memory_bytes: int
    """On each node; 0: not stated."""
    gpus: int
    """On each node."""
    walltime_s: float


Cause = Literal[
    "done",
    "exit",  # the task's own non-zero exit code
    "signal",  # ended by a signal that was not ours
    "memory",  # it took more memory than it had asked for
    "walltime",
    "output",  # it succeeded but did not write a declared output
    "start",  # could not be started: the executable is absent or not executable there
    "staging",  # an input did not arrive
    "storage",  # the site's disk is full or its directory can't be written
    "refused",  # the scheduler will never take such a request
    "preempted",  # the site took its cores back
    "expired",  # the time of the launcher that ran it was over
    "node",  # the node that it ran on failed
    "cancelled",
    "lost",  # the site can't say what became of it
]


class PackedLog(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where what an attempt printed is, in a file of its launcher's that is for many."""

    file: str
    """In the folder ``logs`` of the run's directory at the site."""
    offset_bytes: int
    stdout_bytes: int
    stderr_bytes: int
    """Right after its stdout."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The exit record of an attempt."""

    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    started_s: float | None = None
    """Seconds since the epoch, at the site."""
    ended_s: float | None = None
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    host: str | None = None
    sizes: tuple[int | None, ...] = ()
    """Bytes of each output, in the request's order; None: an optional one that is absent."""
    message: str | None = None
    """For a failure: what happened, and the end of its stderr."""
    packed: PackedLog | None = None
    """None: it printed nothing, or has logs of its own."""


class Found(msgspec.Struct, frozen=True):
    """What a site knows of an attempt, asked after a crash.

    ``absent``: never started there, so submitting it (again) is safe. ``active``: queued or
    running there; its end will be posted. ``ended``: ``outcome`` tells how.
    """

    state: Literal["absent", "active", "ended"]
    outcome: Outcome | None = None


class Receipt(msgspec.Struct, frozen=True):
    """A file transfer that succeeded."""

    size_bytes: int
    elapsed_s: float
