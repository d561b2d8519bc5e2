"""Requests of the user to the engine that drives a run, one file each in the folder ``requests`` of
the run directory.

Another process writes each file atomically. The engine posts an event for a request, and removes
the file once the event is in the log. So a missing file means that the request was taken. If the
engine refuses a request, such as the cancellation of a task that has just ended, it replaces the
file by one with the reason.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.state import HELD, RunState, TaskStatus
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.explain.visible import command_line, name_line
from wfrun.parsers.atomic import write_file
from wfrun.runners.run.directory.run_directory import RunDir, is_driven

_LOGGER = logging.getLogger(__name__)
MAX_BYTES = 4096
"""Maximum size of the file of a request, in bytes."""
MAX_READ = 100
"""Maximum number of requests that one call of ``read`` handles, so that many requests do not delay
the run."""
REFUSED = ".refused"
"""Suffix of the file that replaces the file of a refused request, and holds the reason."""
POLL_S = 0.05
"""Interval at which a writer checks whether its request was taken, in seconds."""


class PauseSite(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="request", tag="pause-site"
):
    """Request to place no further attempts at a site."""

    site: str


class FreeSite(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="request", tag="free-site"
):
    """Request to place attempts at a paused site again."""

    site: str


class RaisePriority(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="request",
    tag="raise-priority",
):
    """Request to run a workflow before all others, or a task before the other tasks of its
    workflow."""

    workflow: int
    task: int | None = None


class CancelTask(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="request", tag="cancel-task"
):
    """Request to cancel a task. The tasks that depend on it are blocked."""

    workflow: int
    task: int


Request = PauseSite | FreeSite | RaisePriority | CancelTask


def check(request: Request, state: RunState) -> ev.Event:
    """Return the event that the engine would log now for a request. Raises InvalidError if the
    site, workflow or task does not exist, or if the request would have no effect."""
    if isinstance(request, (PauseSite, FreeSite)):
        return _site_event(request, state)
    if not 0 <= request.workflow < len(state.workflows):
        raise InvalidError(f"the run has no workflow number {request.workflow}")
    w = state.workflows[request.workflow]
    task = request.task
    if task is None:
        if not w.open:
            raise InvalidError(f"workflow {w.workflow.name!r} has no task left to run")
        return ev.PriorityRaised(state.now_s, w.index)
    if not 0 <= task < len(w.status):
        raise InvalidError(f"workflow {w.workflow.name!r} has no task number {task}")
    settled = {
        TaskStatus.DONE: "is done",
        TaskStatus.FAILED: "was cancelled already" if task in w.cancelled else "has failed",
        TaskStatus.BLOCKED: "is blocked: a task before it has failed",
        TaskStatus.UNNEEDED: "was not needed",
    }
    if w.status[task] in settled:
        status = TaskStatus(w.status[task])
        raise InvalidError(f"task {w.workflow.tasks[task].id!r} {settled[status]}")
    if isinstance(request, CancelTask):
        return ev.TaskCancelled(state.now_s, w.index, task)
    if w.status[task] == TaskStatus.DISPATCHED:
        raise InvalidError(
            f"task {w.workflow.tasks[task].id!r} is at a site already, and keeps its place there"
        )
    return ev.PriorityRaised(state.now_s, w.index, task)


def _site_event(request: PauseSite | FreeSite, state: RunState) -> ev.Event:
    names = [site.spec.name for site in state.sites]
    if request.site not in names:
        near = get_close_matches(request.site, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        hint += f"sites of the run: {', '.join(names)}"
        raise InvalidError(f"the run has no site {request.site!r}", hint=hint)
    index = names.index(request.site)
    is_held = HELD in state.sites[index].conditions
    if is_held is isinstance(request, PauseSite):
        raise InvalidError(f"site {request.site} is {'' if is_held else 'not '}paused by the user")
    kind = ev.SiteFreed if is_held else ev.SiteHeld
    return kind(state.now_s, index)


def effect(request: Request, state: RunState) -> str:
    """Describe the effect of a request, for the user."""
    if isinstance(request, PauseSite):
        return f"site {request.site} gets no more tasks; those that run there go on"
    if isinstance(request, FreeSite):
        return f"site {request.site} gets tasks again"
    w = state.workflows[request.workflow].workflow
    if request.task is None:
        return f"workflow {name_line(w.name)} goes before all others"
    task = name_line(w.tasks[request.task].id)
    if isinstance(request, RaisePriority):
        return f"task {task} and those that it waits for go first in {name_line(w.name)}"
    return f"task {task} is cancelled, and what depends on it is blocked"


# The process of the user


def not_driven(run: RunDir) -> InvalidError:
    """The error for a run without an engine."""
    return InvalidError(
        f"the run {run.name} is not running: nothing would take the request",
        hint=f"`{command_line('wfrun', 'resume', run.path)}` continues a run that is not done",
    )


def write(run: RunDir, request: Request) -> Path:
    """Write the file of a request, readable by its owner only. Raises InvalidError if no engine
    drives the run, and InfeasibleError if the file cannot be written."""
    if not is_driven(run):
        raise not_driven(run)
    name = f"{time.time_ns():020}-{os.getpid()}.json"
    try:
        run.requests.mkdir(mode=0o700, exist_ok=True)
        write_file(run.requests / name, msgspec.json.encode(request), 0o600)
        return run.requests / name
    except OSError as error:
        raise InfeasibleError(f"the request cannot be written: {error}") from error


def is_taken(run: RunDir, written: Path) -> bool:
    """Whether the engine has taken a request. Raises InvalidError if the engine has refused it. If
    no engine is left to take it, withdraws the request and raises InvalidError."""
    if written.exists():
        if is_driven(run):
            return False
        with contextlib.suppress(FileNotFoundError):
            written.unlink()
            raise _ended(run)
    reason = written.with_suffix(REFUSED)
    try:
        text = reason.read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
    reason.unlink(missing_ok=True)
    raise InvalidError(text)


def _ended(run: RunDir) -> InvalidError:
    return InvalidError(f"the run {run.name} ended before it took the request")


def send(run: RunDir, request: Request) -> None:
    """Write a request, and wait until it is taken. Raises what ``write`` and ``is_taken`` raise."""
    written = write(run, request)
    while not is_taken(run, written):
        time.sleep(POLL_S)


# The engine


def discard(run: RunDir) -> None:
    """Remove requests that were written for an engine that has ended."""
    for path in (*_files(run), *run.requests.glob(f"*{REFUSED}")):
        path.unlink(missing_ok=True)


class RequestReader:
    """Reads the requests of the user in the engine that drives the run."""

    def __init__(self, run: RunDir, state: RunState) -> None:
        self._run, self._state = run, state
        self._posted: dict[Path, ev.Event] = {}
        """Events that are not in the log yet, by the file of their request."""

    def read(self, now_s: float) -> list[ev.Event]:
        """Read at most `MAX_READ` new requests. Returns their events in the order in which the
        requests were written. An invalid request is refused, with a warning."""
        found = [path for path in _files(self._run) if path not in self._posted]
        events = []
        for path in found[:MAX_READ]:
            try:
                event = check(_decode(path), self._state)
            except FileNotFoundError:
                continue  # Withdrawn.
            except (InvalidError, msgspec.MsgspecError, OSError) as error:
                _refuse(path, error)
                continue
            event = msgspec.structs.replace(event, at_s=now_s)
            self._posted[path] = event
            events.append(event)
        return events

    def after_commit(self, events: Sequence[ev.Event]) -> None:
        """Remove the requests whose events are in the log."""
        if not self._posted:
            return
        for path in [p for p, posted in self._posted.items() if any(posted is e for e in events)]:
            path.unlink(missing_ok=True)
            del self._posted[path]


def _refuse(path: Path, error: Exception) -> None:
    """Replace the file of a request by a file with the reason why the request is not carried
    out."""
    text = error.message if isinstance(error, InvalidError) else str(error)
    _LOGGER.warning("the request %s is not carried out: %s", path.name, text)
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path.with_suffix(REFUSED), flags, 0o600), "w") as file:
            file.write(text)
    path.unlink(missing_ok=True)


def _files(run: RunDir) -> Iterable[Path]:
    """The files of requests, the oldest first. Empty if the run has no folder of requests."""
    try:
        return sorted(p for p in run.requests.iterdir() if p.suffix == ".json")
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _decode(path: Path) -> Request:
    """Read the request in a file. The file must belong to the user of this process, and nobody else
    may write it, because a request can stop work. Raises InvalidError for any other file and for a
    file that is too large, OSError, or MsgspecError."""
    # Not blocking: whatever stands there must not stop the engine.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InvalidError("it is no file that only the user of the run may write")
        body = file.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise InvalidError(f"it has more than {MAX_BYTES} bytes")
    request: Request = msgspec.json.decode(body, type=Request)
    return request
