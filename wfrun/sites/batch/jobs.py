"""What a batch system tells of jobs."""

from __future__ import annotations

from typing import Literal

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import Cause

State = Literal["queued", "running", "ending", "held", "suspended", "refused"]
"""``refused``: the system has the job but will not run it as it is, for the job's reason; it stays
in the queue until it is cancelled."""


class Job(msgspec.Struct, frozen=True):
    """A job, or one element of an array, as the queue shows it."""

    id: str
    """Of the job or the whole array."""
    element: int
    """1 for a job that is no array."""
    name: str
    user: str
    state: State
    cores: int
    reason: str = ""
    """Why it waits, in the system's words."""
    nodes: tuple[str, ...] = ()
    started_s: float | None = None
    """Seconds since the epoch; None: not started, or the system told a local time only."""


class Ending(msgspec.Struct, frozen=True):
    """What a batch system says of a job that ended."""

    cause: Cause
    exit_code: int | None = None
    message: str = ""
    """In the system's words: state and reason."""
    node: str | None = None


class QueueUnknownError(WfrunError):
    """The answer says nothing about the queue: empty, failed, or not to be understood."""
