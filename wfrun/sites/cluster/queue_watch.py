"""Polling of a batch system's queue: starts of jobs, and outcomes of jobs that left the queue."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import signal
import time
from collections.abc import Callable, Sequence

import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.events import BackgroundJob
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.fitting.information import Observed
from wfrun.engine.model import Access
from wfrun.sites.batch.observation import Observer
from wfrun.sites.batch.system import Ending, JobInQueue, QueueUnknownError
from wfrun.sites.cluster.attempts import Attempts, OpenAttempt
from wfrun.sites.cluster.head_node import FAILURES_TO_PAUSE, RETRY_DELAYS_S, HeadNode, delay_s
from wfrun.sites.cluster.refusals import RefusedJobs
from wfrun.sites.cluster.waits import Waits
from wfrun.sites.remote.host import NewFile

_LOGGER = logging.getLogger(__name__)

MAX_BEGIN_S = 600.0
"""Maximum time between the start of a job, as the queue shows it, and the claim of its attempt.
Meanwhile a node may boot and a prolog may run."""
CANCEL_AGAIN_S = 30.0
"""Interval between cancellations of one job. Schedulers give a job some seconds between SIGTERM and
SIGKILL."""
FIRST_LOOK_S = 10.0
"""Maximum time for which a run waits for the first observation of a queue before it places
tasks."""
UNSTARTED_S = 10.0
"""Time for which the claim of a job that has left the queue may still appear."""
LATE_WORD_S = 20.0
"""Time for which the batch system may still report how a job ended that has left the queue: Grid
Engine writes its accounting every 15 s. After this time the exit record is believed."""
LATE_RECORD_S = 1.0
"""Time for which an exit record may still appear after the batch system has reported the failure of
the job."""
SLOWER = 1.3
"""Factor by which the interval between queries of the queue grows while nothing changes."""
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ})
_UNEXPLAINED: tuple[Cause, ...] = ("done", "exit", "lost")
"""Causes of endings that do not say why a job left no record."""
_NEVER_STARTED = "its job left the queue without having started"
_NEVER_BEGUN = "its job ended before wfrun's script began"


class QueueWatch:
    """Polls the queue for all attempts at once, more often while jobs start and end."""

    def __init__(
        self,
        index: int,
        access: Access,
        head: HeadNode,
        attempts: Attempts,
        *,
        observed: Observed,
        observe_s: float,
    ) -> None:
        """``observe_s`` is the interval in seconds between queries of other users' jobs, unless
        ``observed`` is ``"nothing"``."""
        self.now = asyncio.Event()
        """Set when the queue is to be polled soon."""
        self._index = index
        self._access = access
        self._head = head
        self._attempts = attempts
        self._observes = observed != "nothing"
        self._observe_s = max(observe_s, access.poll_min_s)
        self._observer = Observer(index, observed)
        self._interval_s = access.poll_min_s
        self._observed_s = float("-inf")
        self._looked = asyncio.Event()
        """Set after the first query of the queue."""
        self._refusals = RefusedJobs(head)
        self._waits = Waits(head, attempts)
        self._has_queued = False
        """Whether jobs of ours waited at the last look at the queue."""

    def poll_soon(self) -> None:
        """Poll soon, and set the polling interval back to its minimum."""
        self._interval_s = self._access.poll_min_s
        self.now.set()

    def on_end(self) -> None:
        """Called after each end of an attempt. Polls soon if jobs of ours wait, since one may start
        now."""
        if self._has_queued:
            self.poll_soon()

    async def first_look(self) -> None:
        """Wait for the first observation of other users' jobs, if the run observes them: a site
        whose queue is unknown would seem idle. Returns after FIRST_LOOK_S even if the queue does
        not answer."""
        if self._observes and self._head.ready.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._looked.wait(), FIRST_LOOK_S)

    async def run(self, is_over: Callable[[str], bool]) -> None:
        """Poll until cancelled. ``is_over``: see ``ClusterSite.open``."""
        failures = 0
        while True:
            await self._until_next_poll()
            while not self._head.ready.is_set():
                await self._set_up_late()
            asked_s = time.monotonic()
            observes = self._observes and asked_s - self._observed_s >= self._observe_s
            try:
                jobs = await self._head.ask_queue(everybody=observes)
            except (QueueUnknownError, TransientError) as error:
                self._looked.set()
                failures += 1
                _LOGGER.info("site %s: %s", self._head.site, error.message)
                if failures >= FAILURES_TO_PAUSE:
                    self._head.pause("queue", f"the queue cannot be seen: {error.message}")
                self._interval_s = min(self._interval_s * 2, self._access.poll_max_s)
                continue
            failures = 0
            self._head.reopen("queue")
            if observes:
                self._observed_s = asked_s
                self._observe(jobs)
            self._looked.set()
            changed = self._compare(jobs, asked_s)
            if await self._end_departed(is_over):
                changed = True
            if await self._end_refused():
                changed = True
            await self._waits.look(jobs)
            await self._end_stuck(asked_s)
            await self._cancel_again(asked_s)
            longer_s = min(self._interval_s * SLOWER, self._access.poll_max_s)
            self._interval_s = self._access.poll_min_s if changed else longer_s

    async def _set_up_late(self) -> None:
        try:
            await self._head.retry_until_answered(lambda host: host.facts())
        except InfeasibleError as error:
            self._head.pause("connection", str(error))
            await asyncio.sleep(delay_s(len(RETRY_DELAYS_S)))

    async def _until_next_poll(self) -> None:
        """Sleep until the next poll is due. Without submitted attempts, sleep until ``now`` is set
        or the next observation is due."""
        if not self._head.ready.is_set():
            return
        self.now.clear()
        wait_s: float | None = self._interval_s
        if self._observes:
            wait_s = min(self._interval_s, self._observe_s)
        if not any(attempt.submitted_s is not None for attempt in self._attempts.open.values()):
            self._waits.forget()
            wait_s = self._observe_s if self._observes else None
            if self._observed_s == float("-inf") and self._observes:
                return
        try:
            await asyncio.wait_for(self.now.wait(), wait_s)
        except asyncio.TimeoutError:
            return
        await asyncio.sleep(self._access.poll_min_s)

    def _compare(self, jobs: Sequence[JobInQueue], asked_s: float) -> bool:
        """Compare the queue with the open attempts; returns whether anything changed."""
        changed = False
        shown = set()
        self._has_queued = False
        for job in jobs:
            key = self._head.batches.key_of(job)
            attempt = self._attempts.open.get(key) if key is not None else None
            if key is None or attempt is None:
                continue
            shown.add(key)
            attempt.absences, attempt.left_queue_s = 0, None
            attempt.refusal = job.reason if job.state == "refused" else None
            self._has_queued = self._has_queued or job.state == "queued"
            if job.state in ("running", "ending") and not attempt.started:
                changed = True
                attempt.begin_deadline_s = asked_s + MAX_BEGIN_S
                self._head.start(key, job.started_s, job.nodes[0] if job.nodes else "")
        for key, attempt in self._attempts.open.items():
            if key in shown or attempt.submitted_s is None or attempt.submitted_s > asked_s:
                continue
            attempt.absences, attempt.refusal = attempt.absences + 1, None
            if attempt.absences > 1 and attempt.left_queue_s is None:
                attempt.left_queue_s = time.monotonic()
                changed = True
        return changed

    async def _end_refused(self) -> bool:
        """End attempts whose jobs the batch system has accepted but will never start, and cancel
        their jobs. Returns whether there are any."""
        reasons = {k: a.refusal for k, a in self._attempts.open.items() if a.refusal is not None}
        refused = await self._refusals.confirmed(reasons) if reasons else {}
        if not refused:
            return False
        ours = await self._head.claim(list(refused))
        await self._head.cancel_jobs(list(refused))
        for key in ours:
            text = f"the batch system will never start it: {refused[key]}"
            self._attempts.end(key, Outcome("refused", message=text))
        return bool(refused)

    def _observe(self, jobs: Sequence[JobInQueue]) -> None:
        """Report other users' jobs, first the running ones, then the queue in order. Also report
        the starts that the queue plans for our jobs."""
        background: list[BackgroundJob] = []
        planned: list[tuple[str, float]] = []
        for job in jobs:
            key = self._head.batches.key_of(job)
            planned_s = self._by_our_clock(job.planned_s)
            if key is None and job.state not in ("held", "refused"):
                background.append(as_background(job, self._since(job), planned_s))
            elif key is not None and planned_s is not None:
                planned.append((key, planned_s))
        others = sorted(background, key=lambda job: job.started_s is None)
        event = self._observer.observe(self._attempts.clock(), others, planned=planned)
        if event is not None:
            self._attempts.post(event)

    def _since(self, job: JobInQueue) -> float | None:
        """Return the start time of a job by our clock; None if the job waits. For a running job
        whose start the queue does not show, return the present time."""
        if job.started_s is None and job.state != "queued":
            return self._attempts.clock()
        return self._by_our_clock(job.started_s)

    def _by_our_clock(self, at_s: float | None) -> float | None:
        return None if at_s is None else at_s - self._head.facts.clock_offset_s

    async def _end_stuck(self, asked_s: float) -> None:
        """End attempts whose jobs are shown as running but did not begin in time, for example
        because the daemon of their node died, and cancel their jobs. If the engine can still claim
        an attempt, the attempt has not begun."""
        overdue = [k for k, e in self._attempts.open.items() if 0 < e.begin_deadline_s < asked_s]
        if not overdue:
            return
        for key in overdue:
            self._attempts.open[key].begin_deadline_s = 0.0
        stuck = await self._head.claim(overdue)
        minutes = f"{MAX_BEGIN_S / 60:.0f} min"
        for key in stuck:
            text = f"its job was shown as running for {minutes} and did not begin"
            self._attempts.end(key, Outcome("lost", message=text))
        await self._head.cancel_jobs(stuck)

    async def _cancel_again(self, asked_s: float) -> None:
        """Repeat cancellations that have had no effect."""
        remaining = []
        for key, attempt in self._attempts.open.items():
            last_s = attempt.cancelled_s
            if last_s is not None and not attempt.absences and asked_s > last_s + CANCEL_AGAIN_S:
                attempt.cancelled_s = asked_s
                remaining.append(key)
        await self._head.cancel_jobs(remaining)

    async def _end_departed(self, is_over: Callable[[str], bool]) -> bool:
        """End attempts that left the queue without an exit record, or with a record that the batch
        system has to explain. Each attempt ends once the batch system has answered, or the time for
        its answer is over. Returns whether any attempt was ended."""
        departed = [
            key for key, attempt in self._attempts.open.items() if attempt.left_queue_s is not None
        ]
        if not departed:
            return False
        endings = await self._head.endings(departed)
        printed = await self._head.printed(departed)
        for key in departed:
            attempt = self._attempts.open.get(key)
            if attempt is None or attempt.left_queue_s is None:
                continue
            ending = endings.get(key)
            if ending is None or ending.cause in _UNEXPLAINED:
                ending = self._head.system.explained(printed.get(key, "")) or ending
            waited_s = time.monotonic() - attempt.left_queue_s
            if attempt.record is not None:
                is_silent = ending is None and key not in printed
                if not (attempt.doubt and is_silent and waited_s < LATE_WORD_S):
                    self._attempts.end(key, _with_reason(attempt.record, ending, attempt.doubt))
                continue
            explained = ending is not None and ending.cause not in _UNEXPLAINED
            # The system leaves what a job has printed when the job has ended.
            unstarted_s = LATE_RECORD_S if key in printed else UNSTARTED_S
            patience_s = self._access.patience_s
            if explained or is_over(key):
                patience_s = min(patience_s, LATE_RECORD_S)
            elif attempt.cancelled_s is not None:
                patience_s = min(patience_s, UNSTARTED_S)  # its job is gone, its result unwanted
            if waited_s > patience_s:
                await self._give_up(key, attempt, ending, printed.get(key))
            elif waited_s > unstarted_s and not attempt.has_begun:
                # An attempt that can be claimed has not begun: there is no record to wait for.
                if await self._head.claim([key]):
                    self._end_unbegun(key, attempt, ending, printed.get(key))
                else:
                    attempt.has_begun = True
                    if not attempt.started:
                        self._attempts.start(key)
        return any(key not in self._attempts.open for key in departed)

    def _end_unbegun(
        self, key: str, attempt: OpenAttempt, ending: Ending | None, printed: str | None
    ) -> None:
        """End an attempt that the engine has claimed and whose job has ended. The job's output may
        show why the attempt never began, for example that the user's profile ended the login shell.
        """
        said = f"{ending.message}; " if ending is not None and ending.message else ""
        ran = attempt.started or printed is not None
        text = f"{said}{_NEVER_BEGUN if ran else _NEVER_STARTED}{_quoted(printed)}"
        cause: Cause = "cancelled" if attempt.cancelled_s is not None else "lost"
        self._attempts.end(key, Outcome(cause, message=text))

    async def _give_up(
        self, key: str, attempt: OpenAttempt, ending: Ending | None, printed: str | None
    ) -> None:
        """End an attempt that left the queue without a record. The engine claims the attempt, so
        that it never starts. If the attempt was claimed already, it is revoked, so that its outputs
        are refused."""
        said = f"{ending.message}; " if ending is not None and ending.message else ""
        if await self._head.claim([key]):
            text = f"{said}{_NEVER_STARTED}{_quoted(printed)}"
        else:
            path = f"{self._head.directory}/attempts/{key}.revoked"
            await self._head.retry_until_space(lambda host: host.write([NewFile(path, b"")]))
            text = f"{said}its job ended and left no exit record{_quoted(printed)}"
        cause = ending.cause if ending is not None else "lost"
        if attempt.cancelled_s is not None:
            cause = "cancelled"
        elif cause in ("done", "exit", "signal", "cancelled"):
            cause = "lost"  # neither we nor the task ended it, or its record is lost
        host_name = ending.node if ending is not None else None
        self._attempts.end(key, Outcome(cause, message=text, host=host_name))


def _quoted(printed: str | None) -> str:
    """The output of a job, to be appended to the message of its outcome; empty if there is none."""
    return f"; it printed:\n{printed.strip()}" if printed and printed.strip() else ""


def is_from_outside(outcome: Outcome) -> bool:
    """Whether the batch system may have ended the task. A shell exits with 128 plus the number of
    the signal that killed its command."""
    killed = outcome.signal or (outcome.exit_code or 0) - 128
    return outcome.cause == "lost" or killed in _FROM_OUTSIDE


def _with_reason(record: Outcome, ending: Ending | None, doubt: str) -> Outcome:
    """Add the batch system's explanation to the record of a task. If the batch system has ended the
    job, a doubted success becomes a failure."""
    if ending is None or ending.cause in _UNEXPLAINED:
        return record
    said = record.message
    if record.cause == "done":
        said = f"the task exited with 0, but its job was cut: {doubt}"
        record = msgspec.structs.replace(record, sizes=(), digests=())
    message = "; ".join(text for text in (ending.message, said) if text)
    cause = "lost" if ending.cause == "cancelled" else ending.cause
    return msgspec.structs.replace(record, cause=cause, message=message)


def as_background(
    job: JobInQueue, started_s: float | None, planned_s: float | None = None
) -> BackgroundJob:
    """The record of another user's job for the engine's log. Times are by our clock; ``started_s``
    is None for a waiting job."""
    ident = f"{job.id}.{job.element}"
    owner, application = _label(job.user), _label(job.name)
    return BackgroundJob(
        ident, job.cores, started_s, None, owner, application, job.requested_s, planned_s
    )


def _label(name: str) -> str:
    """A digest of the name of another user or of their job. Equal names get equal labels, and our
    log does not keep the names."""
    return hashlib.sha256(name.encode()).hexdigest()[:8] if name else ""
