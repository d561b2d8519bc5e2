"""Actions: what the core asks its driver to do. They are idempotent: an action that is carried out
twice, as after a crash, does no harm."""

from __future__ import annotations

from typing import Literal

import msgspec

from wfrun.engine.exchange import ClaimedNode, LauncherRequest


class Action(msgspec.Struct, frozen=True):
    """Base of all actions."""


class SubmitAttempts(Action, frozen=True, gc=False):
    """Submit attempts to one site, in the order of ``attempts``. All their inputs are at the
    site."""

    site: int
    attempts: tuple[tuple[str, int, int], ...]
    """(key, workflow, task) of each attempt."""


class CancelAttempts(Action, frozen=True):
    """Cancel attempts at one site."""

    site: int
    keys: tuple[str, ...]
    queued_only: bool = False
    """Cancel only attempts that have not started."""


class FindAttempts(Action, frozen=True):
    """Ask the site for the state of attempts. The answers are AttemptEnded and AttemptsFound."""

    site: int
    keys: tuple[str, ...]


class StartLaunchers(Action, frozen=True):
    """Submit launchers to the site's queue."""

    site: int
    launchers: tuple[LauncherRequest, ...]


class StopLaunchers(Action, frozen=True):
    """End launchers: cancel queued ones, let live ones end after their running tasks."""

    site: int
    keys: tuple[str, ...]
    now: bool = False
    """Whether attempts in them are ended, too, with the cause ``reclaimed``."""


class ResizeAttempt(Action, frozen=True):
    """Offer nodes to the program of a malleable job, or reclaim processors. JobResized follows."""

    site: int
    key: str
    launcher: str
    """The placeholder that runs the attempt."""
    number: int
    """Number of the question. A question is ignored if an earlier question had the same or a larger
    number."""
    nodes: tuple[ClaimedNode, ...] = ()
    shrink: int = 0
    """Processors to reclaim; 0: nodes are offered."""


class FindLaunchers(Action, frozen=True):
    """Ask the site for the state of launchers. It answers with a LauncherEnded for each that no
    longer exists."""

    site: int
    keys: tuple[str, ...]


class CopyFile(Action, frozen=True, gc=False):
    """Copy a file of a workflow from one site to another; either may be ORIGIN."""

    workflow: int
    file: int
    source: int
    destination: int
    avoid: tuple[str, ...] = ()
    """Transfer methods with which a copy of the file was late. They are used only if no other
    method carries the file."""


class RemoveFiles(Action, frozen=True):
    """Remove files from the store of a site. The log counts them as removed already."""

    site: int
    files: tuple[tuple[int, int, int], ...]
    """(workflow, file, variant) of each; see ``wfrun.engine.tasks.attempts.variant``."""


class CancelCopy(Action, frozen=True, gc=False):
    """Cancel a copy under way whose ``CopyFile.avoid`` is empty. No event follows, unless the copy
    has just ended."""

    workflow: int
    file: int
    source: int
    destination: int


class SetTimer(Action, frozen=True):
    """Post TimerFired(timer) at ``at_s``, or immediately if that time has passed."""

    timer: str
    at_s: float


class EndRun(Action, frozen=True):
    """End the run: nothing is left to do."""

    outcome: Literal["done", "failed", "cancelled"]
