"""What the core wants done. Actions are idempotent: carried out twice they do no harm."""

from __future__ import annotations

from typing import Literal

import msgspec

from wfrun.engine.exchange import LauncherRequest


class Action(msgspec.Struct, frozen=True):
    """Base of all actions."""


class SubmitAttempts(Action, frozen=True):
    """Submit these attempts to one site, in this order. All their inputs are there."""

    site: int
    attempts: tuple[tuple[str, int, int], ...]
    """(key, workflow, task) of each."""


class CancelAttempts(Action, frozen=True):
    site: int
    keys: tuple[str, ...]
    queued_only: bool = False
    """Leave alone what has started."""


class FindAttempts(Action, frozen=True):
    """Ask the site what became of these; answered by AttemptEnded and AttemptsFound."""

    site: int
    keys: tuple[str, ...]


class StartLaunchers(Action, frozen=True):
    """Submit these launchers to the site's queue."""

    site: int
    launchers: tuple[LauncherRequest, ...]


class StopLaunchers(Action, frozen=True):
    """End these: queued ones are cancelled, those that run end when their running tasks have."""

    site: int
    keys: tuple[str, ...]


class FindLaunchers(Action, frozen=True):
    """Ask the site what became of these; answered by a LauncherEnded for each that is no more."""

    site: int
    keys: tuple[str, ...]


class CopyFile(Action, frozen=True, gc=False):
    workflow: int
    file: int
    source: int
    destination: int


class SetTimer(Action, frozen=True):
    """Post TimerFired(timer) at ``at_s``, or at once where that has passed."""

    timer: str
    at_s: float


class EndRun(Action, frozen=True):
    """Nothing is left to do."""

    outcome: Literal["done", "failed", "cancelled"]
