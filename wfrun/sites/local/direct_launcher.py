"""A site whose tasks are run by a launcher that the engine starts directly, without a batch system.

The launcher (``wfrun/sites/node/launchers/launcher.py``, which describes the messages) is a process
in a session of its own that outlives the engine. Its host is this machine (``LocalSite``) or
another one behind a connection (``SshSite``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from wfrun.engine.errors import (
    InfeasibleError,
    LostError,
    NoSpaceError,
    TransientError,
    WfrunError,
)
from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    RecordedEnd,
    SitePaused,
    SiteReopened,
)
from wfrun.engine.exchange import AttemptRequest, Content, Found, Outcome
from wfrun.engine.explain.visible import visible
from wfrun.engine.model import SiteSpec
from wfrun.sites.launchers.reports import decode_report
from wfrun.sites.local.launcher_host import LauncherHost, LauncherPipe
from wfrun.sites.node.launchers import journals
from wfrun.sites.tasks import end_tasks

_T = TypeVar("_T")
_LOGGER = logging.getLogger(__name__)
PROTOCOL = 1
"""Version of the messages. Engine and launcher are of one release, since the engine sends the
launcher's program."""
HELLO_S = 30.0
"""Timeout in seconds from a launcher's start to its hello. Loading Python from a slow network file
system takes seconds."""
RESTART_DELAYS_S = (0.0, 1.0, 5.0, 30.0)
"""Delays in seconds before a launcher is started again, after 1, 2, … consecutive failures."""
FIRST_STARTS = 2
"""Maximum number of launchers started one after another when a site is opened. The first may be
killed or lose its connection; if all die before their hello, the site cannot be opened."""
SHORT_RUN_S = 2.0
"""Maximum run time in seconds of a launcher whose death adds to the number of consecutive failures.
The death of a launcher that ran longer sets the number to 1."""
EXIT_S = 5.0
"""Timeout in seconds for the exit of a launcher without attempts when the site is closed."""
MAX_SENT_ATTEMPTS = 4000
"""Approximate maximum number of open attempts sent to a launcher; more than a launcher can run in a
second. The others wait in the engine, where each takes less memory than in the launcher."""
QUESTION_KEYS = 5000
"""Maximum number of keys in a question, which bounds the length of its answer."""
MESSAGE_KEYS = 100
"""Maximum number of attempts or keys in a message, so that no message keeps a side busy for long.
"""


class DirectReport(msgspec.Struct):
    """A message of a launcher, of any type; ``launcher.py`` describes the types."""

    hello: int | None = None
    started: tuple[str, ...] = ()
    ended: tuple[tuple[str, Outcome], ...] = ()
    found: dict[str, Found] | None = None
    id: int = 0
    cleaned: bool = False
    failing: str | None = None
    error: str | None = None
    recovered: bool = False
    elsewhere: tuple[str, ...] = ()


class _DiedAtStartError(InfeasibleError):
    """A launcher ended before its hello: it cannot work at the site, it was killed, or the
    connection to it was lost."""


class _LauncherDiedError(LostError):
    """The launcher died before it answered. The question may be repeated to the next launcher."""


class _Question(NamedTuple):
    """An unanswered question to the launcher for the states of attempts."""

    keys: frozenset[str]
    answer: asyncio.Future[dict[str, Found]]

    def answered_by(self, found: Mapping[str, Found]) -> dict[str, Found]:
        """Return the states of the attempts ``keys`` from the launcher's answer. An attempt that
        the answer leaves out is absent."""
        return {key: _whole(found.get(key, Found("absent"))) for key in self.keys}


def _whole(found: Found) -> Found:
    if found.state == "ended" and found.outcome is None:
        return Found("ended", Outcome("lost", message="its site does not say how it ended"))
    return found


class DirectLauncherSite:
    """Implements ``Site``.

    ``index`` is the site's number in the run's events. A launcher that dies is restarted while
    attempts are open. Attempts that it had started are lost, the others are queued again. The site
    is paused (SitePaused, SiteReopened) while no launcher can be started and while exit records
    cannot be written.
    """

    patience_s: float | None = HELLO_S
    """Maximum time in seconds that a request waits for a launcher to be started; None: no limit."""

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        host: LauncherHost,
        *,
        pack_logs: bool = False,
        dead_hosts: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self._pack_logs = pack_logs
        self._dead_hosts = dead_hosts
        self._index = index
        self._host = host
        self._clock = clock
        self._post: Callable[[Event], None] = _refuse
        self._decoder = msgspec.json.Decoder(DirectReport)
        self._pipe: LauncherPipe | None = None
        self._greeting: asyncio.Future[None] | None = None
        """Future that the launcher's hello completes."""
        self._launched_s = 0.0
        self._launched = 0
        """Number of the current launcher, from 1. Callbacks of launchers with other numbers are
        ignored."""
        self._released: set[asyncio.Task[None]] = set()
        """Background tasks that close the pipes of launchers that were given up."""
        self._failures = 0
        self._recovery: asyncio.Task[None] | None = None
        self._paused = False
        self._closed = False
        self._attempts: dict[str, AttemptRequest | None] = {}
        """Requests of the attempts whose ends have not been posted, by key; None: an earlier engine
        submitted the attempt."""
        self._outgoing: deque[AttemptRequest] = deque()
        """Attempts that are not sent yet."""
        self._sent: set[str] = set()
        """Keys of open attempts that have been sent to the launcher."""
        self._questions: dict[int, _Question] = {}
        self._asked = 0
        self._cleaned: asyncio.Future[None] | None = None

    async def open(self, post: Callable[[Event], None]) -> None:
        """Make the site's directory and start the launcher. If the host cannot be reached now or
        its disk is full, pause the site and retry in the background.

        Raises InfeasibleError if the directory cannot be made or written for another reason, or if
        the launcher cannot be started.
        """
        self._post = post
        self._closed = False
        try:
            for _ in range(FIRST_STARTS - 1):
                await self._host.prepare()
                with contextlib.suppress(_DiedAtStartError):
                    return await self._start_launcher()
            await self._host.prepare()
            await self._start_launcher()
        except (TransientError, NoSpaceError) as error:  # not reachable now, or full
            self._pause(str(error))
            self._start_recovery()

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        keys = tuple(request.key for request in batch)
        self._attempts.update(zip(keys, batch, strict=True))
        self._post(AttemptsSubmitted(self._clock(), self._index, keys))
        if self._pipe is None:
            self._start_recovery()  # which sends what is not known at the site
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._send_outgoing)
        self._outgoing.extend(batch)
        await self._pipe.drained()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        pipe = await self._wait_for_launcher()
        there = keys
        if self._outgoing:
            wanted = set(keys)
            here = {request.key for request in self._outgoing if request.key in wanted}
            self._outgoing = deque(r for r in self._outgoing if r.key not in here)
            for key in here:
                self._post_end(key, Outcome("cancelled", message="was cancelled before it started"))
            there = [key for key in keys if key not in here]
        for chunk in _chunks(there):
            pipe.send(msgspec.json.encode({"cancel": chunk, "queued_only": queued_only}))

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """The states of attempts.

        Raises LostError when several launchers die before they answer, InfeasibleError when none
        can be started.
        """
        return await self._retry_until_answered(lambda _: self._ask(keys))

    async def log(self, key: str) -> tuple[bytes, bytes]:
        return await self._host.log(key)

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        return await self._host.absent(files)

    async def remove(self, names: Sequence[str]) -> None:
        await self._host.remove(names)

    async def clean(self) -> None:
        await self._retry_until_answered(self._clean)

    async def _clean(self, pipe: LauncherPipe) -> None:
        self._cleaned = asyncio.get_running_loop().create_future()
        pipe.send(b'{"clean":true}')
        await self._cleaned

    async def _retry_until_answered(self, question: Callable[[LauncherPipe], Awaitable[_T]]) -> _T:
        """Ask the launcher a question, and the next launcher if it dies before it answers. Raises
        LostError if as many launchers die as RESTART_DELAYS_S has items, InfeasibleError if no
        launcher can be started."""
        for _ in RESTART_DELAYS_S:
            pipe = await self._wait_for_launcher()
            with contextlib.suppress(_LauncherDiedError):
                return await question(pipe)
        raise LostError(
            f"site {self.spec.name}: its launcher dies again and again",
            hint=f"See {self._host.launcher_log}, then `wfrun resume`.",
        )

    async def close(self) -> None:
        """Disconnect from the launcher, which then drops its queue and exits after its last running
        task."""
        self._closed = True
        if self._recovery is not None:
            await end_tasks([self._recovery])
        if self._pipe is not None:
            pipe, self._pipe = self._pipe, None
            await pipe.close(patience_s=0.0 if self._attempts else EXIT_S)
        self._fail_questions(LostError(f"site {self.spec.name}: the site was closed"))
        await self._host.close()

    # -- the launcher process

    async def _start_launcher(self) -> None:
        """Start a launcher and wait for its hello. Raises InfeasibleError if it does not start or
        answer, TransientError if the host cannot be reached."""
        loop = asyncio.get_running_loop()
        self._greeting = loop.create_future()
        config = {
            "slots": self.spec.slots,
            "memory_bytes": self.spec.memory_bytes,
            "gpus": self.spec.gpus,
            "pin_cores": self.spec.pin_cores,
            "pack_logs": self._pack_logs,
            "dead_hosts": self._dead_hosts,
            "patience_s": journals.PATIENCE_S,
        }
        self._launched_s = loop.time()
        pipe: LauncherPipe | None = None
        try:
            pipe = await self._host.launch(config, *self._callbacks())
            await asyncio.wait_for(self._greeting, HELLO_S)
        except (OSError, LostError, asyncio.TimeoutError) as error:
            if pipe is not None:
                await pipe.close(patience_s=0.0)
            tail = await self._host.stderr_tail()
            kind = _DiedAtStartError if isinstance(error, LostError) else InfeasibleError
            raise kind(
                f"site {self.spec.name}: its launcher could not be started: "
                f"{error or 'it did not answer'}" + (f"\n{tail}" if tail else ""),
                hint="Check that Python works there and that the machine is not out of processes.",
            ) from error
        self._pipe = pipe

    def _callbacks(self) -> tuple[Callable[[list[bytes]], None], Callable[[], None]]:
        """The callbacks ``on_lines`` and ``on_end`` for the next launcher. They do nothing once the
        launcher has been given up or replaced."""
        self._launched += 1
        number = self._launched

        def on_lines(lines: list[bytes]) -> None:
            if number == self._launched:
                self._on_lines(lines)

        def on_end() -> None:
            if number == self._launched:
                self._on_end()

        return on_lines, on_end

    def _on_end(self) -> None:
        """Called when the launcher has died: its pipe has ended without a call of ``close``."""
        self._pipe = None
        self._outgoing.clear()
        self._sent.clear()
        error = _LauncherDiedError(
            f"site {self.spec.name}: its launcher died", hint=f"See {self._host.launcher_log}."
        )
        self._fail_questions(error)
        ran_s = asyncio.get_running_loop().time() - self._launched_s
        self._failures = self._failures + 1 if ran_s < SHORT_RUN_S else 1
        if self._attempts:
            self._start_recovery()

    def _fail_questions(self, error: LostError) -> None:
        questions = (question.answer for question in self._questions.values())
        waiting = (self._greeting, self._cleaned, *questions)
        for future in waiting:
            if future is not None and not future.done():
                future.set_exception(error)
        self._questions.clear()

    def _start_recovery(self) -> None:
        if (self._recovery is None or self._recovery.done()) and not self._closed:
            self._recovery = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        """Start a new launcher, with unlimited retries, and ask it for the states of all open
        attempts. The site is paused from the first failure until it succeeds."""
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
                await self._find_attempts()
            except WfrunError as error:
                self._failures += 1
                self._pause(error.message)
            except Exception as error:  # a defect, which must not end the retries
                _LOGGER.exception("site %s", self.spec.name)
                self._failures += 1
                self._pause(f"internal error: {error!r}")
            else:
                self._reopen()
                return

    def _lose_all(self) -> None:
        """Post the end of all attempts as lost, because their claims were removed with the site's
        directory. Without the claims it is unknown which attempts have started, so that queueing
        them again could start an attempt twice."""
        for key in tuple(self._attempts):
            self._post_end(key, Outcome("lost", message="its site's directory was removed"))

    async def _find_attempts(self) -> None:
        """Ask the launcher for the states of all open attempts. Post the ends of ended ones, and
        queue absent ones again, or post their ends as lost if their requests are unknown."""
        answers = await self._ask(tuple(self._attempts))
        again = []
        for key, found in answers.items():
            request = self._attempts.get(key)
            if found.outcome is not None:
                self._post_end(key, found.outcome, RecordedEnd)
            elif found.state == "absent" and request is not None:
                again.append(request)
            elif found.state == "absent":
                self._post_end(key, Outcome("lost", message="nothing is known of it at its site"))
        self._outgoing.extend(again)
        self._send_outgoing()

    def _pause(self, reason: str) -> None:
        """Post SitePaused, unless the site is paused."""
        if not self._paused:
            self._paused = True
            self._post(SitePaused(self._clock(), self._index, reason))

    def _reopen(self) -> None:
        if self._paused:
            self._paused = False
            self._post(SiteReopened(self._clock(), self._index))

    async def _wait_for_launcher(self) -> LauncherPipe:
        """The pipe to the launcher, which is started if there is none. Raises InfeasibleError if
        there is none after ``patience_s``."""
        if self._pipe is None or (self._recovery is not None and not self._recovery.done()):
            self._start_recovery()
            if self._recovery is not None:
                await asyncio.wait([self._recovery], timeout=self.patience_s)
        if self._pipe is None:
            raise InfeasibleError(
                f"site {self.spec.name}: its launcher cannot be started",
                hint=f"See {self._host.launcher_log}.",
            )
        self._send_outgoing()
        return self._pipe

    # -- messages

    def _send_outgoing(self) -> None:
        """Send waiting attempts until the launcher has MAX_SENT_ATTEMPTS. Does nothing while it has
        more than half of this number, so that attempts are sent in large portions."""
        if self._pipe is None or len(self._sent) > MAX_SENT_ATTEMPTS // 2:
            return
        while self._outgoing and len(self._sent) < MAX_SENT_ATTEMPTS:
            count = min(MESSAGE_KEYS, len(self._outgoing))
            chunk = [self._outgoing.popleft() for _ in range(count)]
            self._sent.update(request.key for request in chunk)
            self._pipe.send(msgspec.json.encode({"run": chunk}))

    async def _ask(self, keys: Sequence[str]) -> dict[str, Found]:
        """Ask the launcher for the states of attempts. Unsent ones count as active. Keys are left
        out if there is no launcher any more. Raises LostError if the launcher dies."""
        answers: dict[str, Found] = {}
        if self._outgoing:
            here = {request.key for request in self._outgoing}
            answers = {key: Found("active") for key in keys if key in here}
            keys = [key for key in keys if key not in here]
        for start in range(0, len(keys), QUESTION_KEYS):
            if self._pipe is None:
                break
            asked = keys[start : start + QUESTION_KEYS]
            self._asked += 1
            future: asyncio.Future[dict[str, Found]] = asyncio.get_running_loop().create_future()
            self._questions[self._asked] = _Question(frozenset(asked), future)
            self._pipe.send(msgspec.json.encode({"find": asked, "id": self._asked}))
            answers.update(await future)
        return answers

    def _on_lines(self, lines: list[bytes]) -> None:
        for line in lines:
            try:
                report = decode_report(line, self._decoder)
            except ValueError as error:
                self._give_up_launcher(f"{error}: {line[:200]!r}")
                return
            self._on_report(report)

    def _give_up_launcher(self, what: str) -> None:
        """Disconnect from a launcher that has sent an invalid message, and treat it as dead. The
        site is paused until another launcher works."""
        self._launched += 1  # nothing further of it is handled
        pipe = self._pipe
        if pipe is not None:
            closing = asyncio.get_running_loop().create_task(pipe.close(patience_s=0.0))
            self._released.add(closing)
            closing.add_done_callback(self._released.discard)
        self._on_end()
        self._pause(f"its launcher sends what is no message: {what}")

    def _on_report(self, report: DirectReport) -> None:
        if report.started or report.ended:
            at_s = self._clock()
            for key in report.started:
                if key in self._attempts:
                    self._post(AttemptStarted(at_s, key))
            for key, outcome in report.ended:
                self._post_end(key, outcome)
            if self._outgoing:
                self._send_outgoing()
        elif report.found is not None:
            self._on_answer(report.id, report.found)
        elif report.cleaned:
            if self._cleaned is not None and not self._cleaned.done():
                self._cleaned.set_result(None)
        elif report.hello is not None and self._greeting is not None:
            self._on_hello(report.hello, self._greeting)
        elif report.failing is not None:
            self._pause(report.failing)
        elif report.error is not None:
            _LOGGER.error("site %s: %s", self.spec.name, report.error)
        elif report.recovered:
            self._reopen()
        elif report.elsewhere:
            _LOGGER.warning(
                "site %s: tasks of an earlier engine may still run at %s, so they are waited for "
                "as long as their launcher touches its journal; if that host is down: wfrun resume "
                "--dead-host NAME",
                self.spec.name, visible(", ".join(report.elsewhere)),
            )  # fmt: skip

    def _on_hello(self, version: int, hello: asyncio.Future[None]) -> None:
        if hello.done():
            return
        if version == PROTOCOL:
            hello.set_result(None)
        else:
            hello.set_exception(LostError(f"it speaks version {version}, not {PROTOCOL}"))

    def _on_answer(self, question: int, found: dict[str, Found]) -> None:
        """Complete a question with its answer. The attempts that are active by the answer are
        tracked here, before the caller of ``_ask`` continues: the next line may report the end of
        one of them."""
        asked = self._questions.pop(question, None)
        if asked is None:
            return
        answers = asked.answered_by(found)
        for key, answer in answers.items():
            if answer.state == "active":
                self._attempts.setdefault(key, None)
        if not asked.answer.done():
            asked.answer.set_result(answers)

    def _post_end(
        self, key: str, outcome: Outcome, kind: type[AttemptEnded] = AttemptEnded
    ) -> None:
        """Post the end of an attempt, unless it has been posted: the first source counts."""
        if key in self._attempts:
            del self._attempts[key]
            self._sent.discard(key)
            self._post(kind(self._clock(), key, outcome))


def _refuse(event: Event) -> None:
    raise RuntimeError(f"{event} comes from a site that was not opened")


def _chunks(items: Sequence[_T]) -> list[Sequence[_T]]:
    return [items[start : start + MESSAGE_KEYS] for start in range(0, len(items), MESSAGE_KEYS)]
