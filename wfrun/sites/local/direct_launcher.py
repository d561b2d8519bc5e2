"""A site whose tasks are processes that its launcher starts (``wfrun/sites/node/launcher.py``).

The launcher is a process in a session of its own that outlives us. What it and we say to each
other is described in that file. The host that it stands on is this machine (``local.py``) or
another one behind a connection (``ssh.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from wfrun.engine.errors import InfeasibleError, LostError, TransientError, WfrunError
from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    SitePaused,
    SiteReopened,
)
from wfrun.engine.exchange import AttemptRequest, Found, Outcome
from wfrun.engine.model import SiteSpec
from wfrun.sites.tasks import end_tasks

_T = TypeVar("_T")
_LOGGER = logging.getLogger(__name__)
PROTOCOL = 1
"""Of the launcher; the two files are of one release."""
HELLO_S = 30.0
"""A launcher that has not said hello by then won't; a Python from a slow network file system
takes seconds."""
RESTART_DELAYS_S = (0.0, 1.0, 5.0, 30.0)
"""Before a launcher is started again, after one, two, … short lives or failures in a row."""
SHORT_LIFE_S = 2.0
GOODBYE_S = 5.0
"""For a launcher that has nothing left to do to end."""
WINDOW = 4000
"""Most attempts that a launcher has at a time, more than a second's worth of the shortest there
are. The others wait here, where each takes a fraction of the memory."""
CHUNK = 100
"""Attempts or keys in a message, so that neither side works on one for long."""


class Report(msgspec.Struct):
    """Any message of a launcher."""

    hello: int | None = None
    started: tuple[str, ...] = ()
    ended: tuple[tuple[str, Outcome], ...] = ()
    found: dict[str, Found] | None = None
    id: int = 0
    cleaned: bool = False
    failing: str | None = None
    error: str | None = None
    recovered: bool = False


class LauncherPipe(Protocol):
    """Lines to a launcher that was started."""

    def send(self, line: bytes) -> None:
        """Send a line, now or when the launcher has read what came before it."""

    async def drained(self) -> None:
        """Return when little enough is still to be sent."""

    async def close(self, *, patience_s: float) -> None:
        """Close the launcher's input, wait so long for its end, and then leave it alone."""


class LauncherHost(Protocol):
    """The machine and the directory of a site.

    The directory is the site's file system for one run: its file store, the sandboxes and logs of
    the attempts and their exit records.
    """

    launcher_log: str
    """Where the launcher's stderr goes, for messages."""

    async def prepare(self) -> None:
        """Make the directory (mode 0700). Raises InfeasibleError where it can't be made or
        written."""

    async def is_removed(self) -> bool:
        """Whether the directory is not there any more."""

    async def launch(
        self,
        config: Mapping[str, Any],
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
    ) -> LauncherPipe:
        """Start a launcher. ``on_lines`` is given what it says, without the line ends, ``on_end``
        is called once when it is gone, but not after ``close``. Raises OSError where it can't be
        started, TransientError where the machine can't be reached."""

    async def complaints(self) -> str:
        """The end of what launchers said on stderr."""

    async def log(self, key: str) -> tuple[bytes, bytes]:
        """Stdout and stderr of an attempt."""

    async def absent(self, files: Mapping[str, int]) -> list[str]:
        """As ``Site.absent``."""

    async def close(self) -> None:
        """Let go of the machine."""


class _LauncherDiedError(LostError):
    """While it was asked; the next one may be asked again."""


class DirectLauncherSite:
    """Implements ``Site``. ``index`` is the site's number in the run's events.

    A launcher that dies is started again as long as attempts are open; those that it had started
    are then lost, those that it had not are queued again. While no launcher can be started the
    site is paused (SitePaused, SiteReopened), and likewise while exit records can't be written.
    """

    patience_s: float | None = HELLO_S
    """What is asked waits so long for a launcher; None: as long as it takes."""

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        host: LauncherHost,
        *,
        pack_logs: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self._pack_logs = pack_logs
        self._index = index
        self._host = host
        self._clock = clock
        self._post: Callable[[Event], None] = _refuse
        self._decoder = msgspec.json.Decoder(Report)
        self._pipes: LauncherPipe | None = None
        self._hello: asyncio.Future[None] | None = None
        self._born_s = 0.0
        self._failures = 0
        self._recovery: asyncio.Task[None] | None = None
        self._paused = False
        self._closed = False
        self._open: dict[str, AttemptRequest | None] = {}
        """Attempts whose end is to be posted; those that we did not submit have no request."""
        self._outgoing: deque[AttemptRequest] = deque()
        """Not sent yet."""
        self._sent: set[str] = set()
        """Open attempts that our launcher was sent."""
        self._questions: dict[int, asyncio.Future[dict[str, Found]]] = {}
        self._asked = 0
        self._cleaned: asyncio.Future[None] | None = None

    async def open(self, post: Callable[[Event], None]) -> None:
        """Make the directory and start the launcher.

        Raises InfeasibleError when the directory can't be made or written, or the launcher can't
        be started.
        """
        self._post = post
        self._closed = False
        try:
            await self._host.prepare()
            await self._start_launcher()
        except TransientError as error:  # it can't be reached now
            self._pause(str(error))
            self._recover()

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        keys = tuple(request.key for request in batch)
        self._open.update(zip(keys, batch, strict=True))
        self._post(AttemptsSubmitted(self._clock(), self._index, keys))
        if self._pipes is None:
            self._recover()  # It sends whatever of this is not known at the site.
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._send_outgoing)
        self._outgoing.extend(batch)
        await self._pipes.drained()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        pipes = await self._connected()
        there = keys
        if self._outgoing:
            wanted = set(keys)
            here = {request.key for request in self._outgoing if request.key in wanted}
            self._outgoing = deque(r for r in self._outgoing if r.key not in here)
            for key in here:
                self._end(key, Outcome("cancelled", message="was cancelled before it started"))
            there = [key for key in keys if key not in here]
        for chunk in _chunks(there):
            pipes.send(msgspec.json.encode({"cancel": chunk, "queued_only": queued_only}))

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """What became of these attempts.

        Raises LostError when one launcher after another dies while it is asked, InfeasibleError
        when none can be started.
        """
        return await self._insist(lambda _: self._ask(keys))

    async def log(self, key: str) -> tuple[bytes, bytes]:
        return await self._host.log(key)

    async def absent(self, files: Mapping[str, int]) -> list[str]:
        return await self._host.absent(files)

    async def clean(self) -> None:
        await self._insist(self._clean)

    async def _clean(self, pipes: LauncherPipe) -> None:
        self._cleaned = asyncio.get_running_loop().create_future()
        pipes.send(b'{"clean":true}')
        await self._cleaned

    async def _insist(self, question: Callable[[LauncherPipe], Awaitable[_T]]) -> _T:
        """Ask the next launcher if the first dies over it; LostError: so do several."""
        for _ in RESTART_DELAYS_S:
            pipes = await self._connected()
            with contextlib.suppress(_LauncherDiedError):
                return await question(pipes)
        raise LostError(
            f"site {self.spec.name}: its launcher dies again and again",
            hint=f"See {self._host.launcher_log}, then `wfrun resume`.",
        )

    async def close(self) -> None:
        """Let go of the launcher: it drops what is queued, and ends when its last task has."""
        self._closed = True
        if self._recovery is not None:
            await end_tasks([self._recovery])
        if self._pipes is not None:
            pipes, self._pipes = self._pipes, None
            await pipes.close(patience_s=0.0 if self._open else GOODBYE_S)
        self._fail_questions(LostError(f"site {self.spec.name}: the site was closed"))
        await self._host.close()

    # -- the launcher's life

    async def _start_launcher(self) -> None:
        loop = asyncio.get_running_loop()
        self._hello = loop.create_future()
        config = {
            "slots": self.spec.slots,
            "memory_bytes": self.spec.memory_bytes,
            "gpus": self.spec.gpus,
            "pin_cores": self.spec.pin_cores,
            "pack_logs": self._pack_logs,
        }
        self._born_s = loop.time()
        pipes: LauncherPipe | None = None
        try:
            pipes = await self._host.launch(config, self._on_lines, self._on_end)
            await asyncio.wait_for(self._hello, HELLO_S)
        except (OSError, LostError, asyncio.TimeoutError) as error:
            if pipes is not None:
                await pipes.close(patience_s=0.0)
            tail = await self._host.complaints()
            raise InfeasibleError(
                f"site {self.spec.name}: its launcher could not be started: "
                f"{error or 'it did not answer'}" + (f"\n{tail}" if tail else ""),
                hint="Check that Python works there and that the machine is not out of processes.",
            ) from error
        self._pipes = pipes

    def _on_end(self) -> None:
        """The launcher has died, for it ends of itself only after we have let go of it."""
        self._pipes = None
        self._outgoing.clear()
        self._sent.clear()
        error = _LauncherDiedError(
            f"site {self.spec.name}: its launcher died", hint=f"See {self._host.launcher_log}."
        )
        self._fail_questions(error)
        lived_s = asyncio.get_running_loop().time() - self._born_s
        self._failures = self._failures + 1 if lived_s < SHORT_LIFE_S else 1
        if self._open:
            self._recover()

    def _fail_questions(self, error: LostError) -> None:
        waiting = (self._hello, self._cleaned, *self._questions.values())
        for future in waiting:
            if future is not None and not future.done():
                future.set_exception(error)
        self._questions.clear()

    def _recover(self) -> None:
        if (self._recovery is None or self._recovery.done()) and not self._closed:
            self._recovery = asyncio.get_running_loop().create_task(self._restart())

    async def _restart(self) -> None:
        """Start a launcher, however often it takes, and find out what the last one has left."""
        while True:
            failures = max(1, min(self._failures, len(RESTART_DELAYS_S)))
            delay_s = RESTART_DELAYS_S[failures - 1]
            await asyncio.sleep(delay_s)
            try:
                removed = await self._host.is_removed()
                await self._host.prepare()
                await self._start_launcher()
                if removed:
                    self._lose_all()
                await self._resume_open()
            except WfrunError as error:
                self._failures += 1
                self._pause(error.message)
            except Exception as error:  # A bug, which must not end the trying.
                _LOGGER.exception("site %s", self.spec.name)
                self._failures += 1
                self._pause(f"internal error: {error!r}")
            else:
                self._reopen()
                return

    def _lose_all(self) -> None:
        """Somebody removed the directory, and the claims with it: what had run can't be told from
        what had not, so nothing is just queued again."""
        for key in tuple(self._open):
            self._end(key, Outcome("lost", message="its site's directory was removed"))

    async def _resume_open(self) -> None:
        """Post what has ended, and queue again what was never started."""
        answers = await self._ask(tuple(self._open))
        again = []
        for key, found in answers.items():
            request = self._open.get(key)
            if found.outcome is not None:
                self._end(key, found.outcome)
            elif found.state == "absent" and request is not None:
                again.append(request)
            elif found.state == "absent":
                self._end(key, Outcome("lost", message="nothing is known of it at its site"))
        self._outgoing.extend(again)
        self._send_outgoing()

    def _pause(self, reason: str) -> None:
        if not self._paused:
            self._paused = True
            self._post(SitePaused(self._clock(), self._index, reason))

    def _reopen(self) -> None:
        if self._paused:
            self._paused = False
            self._post(SiteReopened(self._clock(), self._index))

    async def _connected(self) -> LauncherPipe:
        """The pipes to a living launcher; one is started if there is none."""
        if self._pipes is None or (self._recovery is not None and not self._recovery.done()):
            self._recover()
            if self._recovery is not None:
                await asyncio.wait([self._recovery], timeout=self.patience_s)
        if self._pipes is None:
            raise InfeasibleError(
                f"site {self.spec.name}: its launcher can't be started",
                hint=f"See {self._host.launcher_log}.",
            )
        self._send_outgoing()
        return self._pipes

    # -- messages

    def _send_outgoing(self) -> None:
        if self._pipes is None or len(self._sent) > WINDOW // 2:
            return
        while self._outgoing and len(self._sent) < WINDOW:
            count = min(CHUNK, len(self._outgoing))
            chunk = [self._outgoing.popleft() for _ in range(count)]
            self._sent.update(request.key for request in chunk)
            self._pipes.send(msgspec.json.encode({"run": chunk}))

    async def _ask(self, keys: Sequence[str]) -> dict[str, Found]:
        answers: dict[str, Found] = {}
        if self._outgoing:
            here = {request.key for request in self._outgoing}
            answers = {key: Found("active") for key in keys if key in here}
            keys = [key for key in keys if key not in here]
        if keys and self._pipes is not None:
            self._asked += 1
            question: asyncio.Future[dict[str, Found]]
            question = asyncio.get_running_loop().create_future()
            self._questions[self._asked] = question
            self._pipes.send(msgspec.json.encode({"find": keys, "id": self._asked}))
            answers.update(await question)
        return answers

    def _on_lines(self, lines: list[bytes]) -> None:
        for line in lines:
            self._on_report(self._decoder.decode(line))

    def _on_report(self, report: Report) -> None:
        if report.started or report.ended:
            at_s = self._clock()
            for key in report.started:
                if key in self._open:
                    self._post(AttemptStarted(at_s, key))
            for key, outcome in report.ended:
                self._end(key, outcome)
            if self._outgoing:
                self._send_outgoing()
        elif report.found is not None:
            self._answer(report.id, report.found)
        elif report.cleaned and self._cleaned is not None:
            self._cleaned.set_result(None)
        elif report.hello is not None and self._hello is not None:
            self._greet(report.hello, self._hello)
        elif report.failing is not None:
            self._pause(report.failing)
        elif report.error is not None:
            _LOGGER.error("site %s: %s", self.spec.name, report.error)
        elif report.recovered:
            self._reopen()

    def _greet(self, version: int, hello: asyncio.Future[None]) -> None:
        if hello.done():
            return
        if version == PROTOCOL:
            hello.set_result(None)
        else:
            hello.set_exception(LostError(f"it speaks version {version}, not {PROTOCOL}"))

    def _answer(self, question: int, found: dict[str, Found]) -> None:
        """Done as the message comes: the end of an active attempt may be in the very next one."""
        for key, answer in found.items():
            if answer.state == "active":
                self._open.setdefault(key, None)
        future = self._questions.pop(question, None)
        if future is not None and not future.done():
            future.set_result(found)

    def _end(self, key: str, outcome: Outcome) -> None:
        """Post an end once, whichever way it came to be known."""
        if key in self._open:
            del self._open[key]
            self._sent.discard(key)
            self._post(AttemptEnded(self._clock(), key, outcome))


def _refuse(event: Event) -> None:
    raise RuntimeError(f"{event} comes from a site that was not opened")


def _chunks(items: Sequence[_T]) -> list[Sequence[_T]]:
    return [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
