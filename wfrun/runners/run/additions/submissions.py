"""Adds the documents of users' requests to a run under way, in the engine that drives the run."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from pathlib import Path

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.engine.model import Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.runners.run.additions.addition import REFUSED, SUFFIX, digests_of, refuse_known
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.prepare.deadlines import time_of_day_deadline
from wfrun.runners.run.requests import make_emulated_inputs
from wfrun.runners.run.store.event_store import Store

_LOGGER = logging.getLogger(__name__)


class Submissions:
    """Turns requests to add documents, and arrivals of planned workflows, into events. Numbers the
    workflows that join the run."""

    def __init__(
        self,
        run: RunDir,
        state: RunState,
        store: Store,
        documents: MutableMapping[str, Workflow],
        keep: Callable[[Workflow], None] | None = None,
    ) -> None:
        """``documents`` are the workflows of the run by digest. ``keep`` is called with each
        further workflow before its event is posted."""
        self._run, self._state, self._store = run, state, store
        self._documents, self._keep = documents, keep
        self._next = 0
        """Number of the next workflow. It is higher than the number of workflows in the state while
        events of earlier workflows are not interpreted yet."""
        self._arrivals = 0
        """Number of planned workflows whose events were posted."""
        self._posted: dict[Path, list[ev.WorkflowAdded]] = {}
        """Events that are not in the log yet, by the file of their request."""

    def read(self, now_s: float) -> list[ev.WorkflowAdded]:
        """Take new requests. Returns their events in the order in which the requests were written.
        An invalid request is refused, with a warning."""
        if not self._state.run_id:
            return []  # The first workflows of the run come first.
        events: list[ev.WorkflowAdded] = []
        for path in _files(self._run):
            if path in self._posted:
                continue
            try:
                found = self._take(path, now_s)
            except FileNotFoundError:
                continue  # Withdrawn.
            except (WfrunError, msgspec.MsgspecError, OSError) as error:
                _refuse(path, error)
                continue
            if found:
                self._posted[path] = found
                events += found
            else:  # An earlier engine died before it removed the file.
                path.unlink(missing_ok=True)
        return events

    def _take(self, path: Path, now_s: float) -> list[ev.WorkflowAdded]:
        """Store the workflows of a request, and return their events. Skips workflows that an
        earlier engine has added for this request."""
        workflows = {
            f"{path.stem}.{number}": workflow for number, workflow in enumerate(_decoded(path))
        }
        for request in self._state.requests & workflows.keys():
            del workflows[request]
        digests = self._store.put_workflows(workflows.values())
        known = digests_of(self._state)
        for posted in self._posted.values():
            known.update((event.digest, event.workflow) for event in posted)
        for workflow, digest in zip(workflows.values(), digests, strict=True):
            refuse_known(workflow, digest, known)
        events = []
        first = max(self._next, len(self._state.workflows))
        for number, (request, digest) in enumerate(zip(workflows, digests, strict=True), first):
            workflow = workflows[request]
            if self._state.settings.emulate:
                make_emulated_inputs(workflow, number, self._run)
            self._documents[digest] = workflow
            if self._keep is not None:
                self._keep(workflow)
            due_s = time_of_day_deadline(workflow, now_s)
            events.append(
                ev.WorkflowAdded(
                    now_s, number, workflow.name, digest, deadline_s=due_s, request=request
                )
            )
        self._next = first + len(events)
        return events

    def next_arrival_s(self) -> float | None:
        """Time at which the next workflow planned at the start of the run is due, in seconds since
        the epoch. None: all planned workflows have arrived, or the run has not begun."""
        arrivals = self._state.arrivals
        return arrivals[self._arrived()][1] if self._arrived() < len(arrivals) else None

    def arrive(self, now_s: float) -> list[ev.WorkflowAdded]:
        """The events of planned workflows that are due."""
        events: list[ev.WorkflowAdded] = []
        while (due_s := self.next_arrival_s()) is not None and due_s <= now_s:
            digest = self._state.arrivals[self._arrived()][0]
            number = max(self._next, len(self._state.workflows))
            name = self._documents[digest].name
            events.append(ev.WorkflowAdded(now_s, number, name, digest))
            self._next = number + 1
            self._arrivals = self._arrived() + 1
        return events

    def _arrived(self) -> int:
        """Number of planned workflows that were added, or whose events were posted."""
        added = len(self._state.workflows) - len(self._state.requests)
        return max(self._arrivals, added)

    def after_commit(self, events: Sequence[ev.Event]) -> None:
        """Remove the files of requests whose workflows are in the run. A request that came after
        the end of the run stays, so that the process that wrote it can withdraw it."""
        for path, posted in list(self._posted.items()):
            if all(event.request in self._state.requests for event in posted):
                path.unlink(missing_ok=True)
                del self._posted[path]


def _files(run: RunDir) -> Iterable[Path]:
    """The files of requests, the oldest first. Empty if the run has no folder of requests."""
    try:
        return sorted(p for p in run.additions.iterdir() if p.suffix == SUFFIX)
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _decoded(path: Path) -> list[Workflow]:
    """Read the workflows of a request. The file must belong to the user of this process, and nobody
    else may write it, because a request runs commands. Raises InvalidError, OSError or
    MsgspecError."""
    # Not blocking: whatever stands there must not stop the engine.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InvalidError("it is no file that only the user of the run may write")
        body = file.read()
    decoder = msgspec.msgpack.Decoder(Workflow)
    workflows = [decoder.decode(each) for each in msgspec.msgpack.decode(body, type=list[bytes])]
    if not workflows:
        raise InvalidError("it has no workflow")
    return [w if w.bag is None else expand(w.bag) for w in workflows]


def _refuse(path: Path, error: Exception) -> None:
    """Replace the file of a request by a file with the reason why the request is not carried
    out."""
    text = error.message if isinstance(error, WfrunError) else str(error)
    _LOGGER.warning("the addition %s is not carried out: %s", path.stem, text)
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path.with_suffix(REFUSED), flags, 0o600), "w") as file:
            file.write(text)
    path.unlink(missing_ok=True)
