"""Requests to the engine from ``wfrun watch``: the user confirms a request, it is sent, and the
engine takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from rich.text import Text

from wfrun.engine.core.state import HELD, RunState
from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.runners.run import user_requests as ur
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.directory.simulated import SIMULATED_ID
from wfrun.runners.run.directory.trust import OwnRun


class RowSubject(NamedTuple):
    """What a row is about."""

    kind: Literal["site", "workflow", "task"]
    number: int
    """Number of the site or of the workflow."""
    task: int = -1


KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "site": (("p", "pause or free"),),
    "workflow": (("+", "raise priority"),),
    "task": (("+", "raise priority"), ("x", "cancel")),
}
"""Keys and the requests that they make, by the kind of subject."""


def request_of(key: str, subject: RowSubject, state: RunState) -> ur.Request | None:
    """The request that a key makes of a subject; None: there is none."""
    match subject.kind, key:
        case "site", "p":
            site = state.sites[subject.number]
            name = site.spec.name
            return ur.FreeSite(name) if HELD in site.conditions else ur.PauseSite(name)
        case "workflow", "+":
            return ur.RaisePriority(subject.number)
        case "task", "+":
            return ur.RaisePriority(subject.number, subject.task)
        case "task", "x":
            return ur.CancelTask(subject.number, subject.task)
    return None


class Asking:
    """The request in progress: its confirmation by the user, and the answer of the engine. There is
    one request at a time."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._request: ur.Request | None = None
        self._effect = ""
        self._written: Path | None = None
        self._message: Text | None = None

    @property
    def awaits_answer(self) -> bool:
        """Whether the user has to confirm a request."""
        return self._request is not None

    @property
    def is_sending(self) -> bool:
        """Whether a request is sent and the engine has not answered yet."""
        return self._written is not None

    @property
    def line(self) -> Text | None:
        """The text shown in place of the keys; None: the keys are shown."""
        return self._message

    def ask(self, request: ur.Request, state: RunState) -> None:
        """Ask the user to confirm a request. If the request cannot be carried out, show the reason
        instead."""
        try:
            OwnRun(self._run, "control")
            if state.run_id == SIMULATED_ID:
                raise InvalidError("a simulated run takes no requests")
            ur.check(request, state)
        except WfrunError as error:
            self._fail(error)
            return
        self._request, self._effect = request, ur.effect(request, state)
        # The keys come first, where no narrow terminal cuts them.
        self._message = Text(no_wrap=True, end="")
        self._message.append("y ", style="cyan").append("yes  ").append("n ", style="cyan")
        self._message.append("no  ").append(f"{self._effect}?", style="bold yellow")

    def _fail(self, error: WfrunError) -> None:
        text = error.message + (f": {error.hint}" if error.hint else "")
        self._message = Text(text, style="red", no_wrap=True, end="")

    def answer(self, *, agrees: bool) -> None:
        """Send the request, or drop it."""
        request, self._request, self._message = self._request, None, None
        if request is None or not agrees:
            return
        try:
            self._written = ur.write(self._run, request)
        except WfrunError as error:
            self._fail(error)
        else:
            self._message = Text(f"asked: {self._effect}", style="dim", no_wrap=True, end="")

    def look(self) -> None:
        """Find out whether the engine has taken the request."""
        if self._written is None:
            return
        try:
            if not ur.is_taken(self._run, self._written):
                return
            self._message = Text(f"done: {self._effect}", style="green", no_wrap=True, end="")
        except WfrunError as error:
            self._fail(error)
        self._written = None

    def clear(self) -> None:
        """Show the keys again, unless a request is in progress."""
        if not (self._request or self._written):
            self._message = None
