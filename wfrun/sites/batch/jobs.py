"""Records of jobs as batch systems report them."""

from __future__ import annotations

from typing import Literal

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import Cause

State = Literal["queued", "running", "ending", "held", "suspended", "refused", "begun"]
"""State of a job in the queue. ``refused``: the system will never run the job as it was submitted,
and keeps it in the queue until it is cancelled. ``held``: the system will not run the job until
somebody releases the job or its queue. ``begun``: an array element that no longer waits; the queue
does not show whether it still runs or has ended."""


class JobInQueue(msgspec.Struct, frozen=True):
    """A job, or one element of an array job, in the queue."""

    id: str
    """Id of the job or of the whole array."""
    element: int
    """Number in the array; 1 for a job that is not an array."""
    name: str
    user: str
    state: State
    cores: int
    reason: str = ""
    """Why the job waits, in the words of the batch system."""
    nodes: tuple[str, ...] = ()
    started_s: float | None = None
    """Seconds since the epoch; None: not started, or the system prints a local time only."""
    running_elements: int = 0
    """For a ``begun`` element: number of elements of its array that run or end now."""
    planned_s: float | None = None
    """Start of a waiting job as the batch system plans it, in seconds since the epoch; None: no
    start is planned or shown."""
    requested_s: float | None = None
    """Requested walltime, in seconds; None: unlimited, or the queue does not show it."""


class Ending(msgspec.Struct, frozen=True):
    """Outcome of a job as the batch system reports it."""

    cause: Cause
    exit_code: int | None = None
    message: str = ""
    """State and reason, in the words of the batch system."""
    node: str | None = None


class QueueUnknownError(WfrunError):
    """The answer says nothing about the queue: the command failed, or its output is empty or cannot
    be parsed."""
