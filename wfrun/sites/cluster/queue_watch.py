"""Watching a batch system's queue: what starts, what leaves it, and what became of that."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Sequence

import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.events import BackgroundJob
from wfrun.engine.exchange import Outcome
from wfrun.engine.information import Observed
from wfrun.engine.model import Access
from wfrun.sites.batch.system import Ending, Job, QueueUnknownError
from wfrun.sites.cluster.attempts import Attempts, OpenAttempt
from wfrun.sites.cluster.head_node import FAILURES_TO_PAUSE, RETRY_DELAYS_S, HeadNode, delay_s
from wfrun.sites.observation import Observer
from wfrun.sites.remote.host import NewFile

_LOGGER = logging.getLogger(__name__)

BEGIN_S = 600.0
"""A job that the queue shows as running may take so long to begin: a node boots, a prolog runs."""
CANCEL_AGAIN_S = 30.0
"""Schedulers give a job some seconds between SIGTERM and SIGKILL."""
OBSERVE_S = 60.0
"""Interval between two looks at other users' jobs, where the run uses them."""
UNSTARTED_S = 10.0
"""An attempt whose job has left the queue is given so long to have started."""
EXPLAINED_S = 1.0
"""A record of which the batch system says that it will not come is still given so long."""
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ})
_NEVER_STARTED = "its job left the queue without having started"


class QueueWatch:
    """Asks for the queue, once an interval for all attempts; sooner while things happen."""

    def __init__(
        self, index: int, access: Access, head: HeadNode, attempts: Attempts, *, observed: Observed
    ) -> None:
        self.now = asyncio.Event()
        """Something happens there that is worth a look."""
        self._index = index
        self._access = access
        self._head = head
        self._attempts = attempts
        self._observes = observed != "nothing"
        self._observer = Observer(index, observed)
        self._interval_s = access.poll_min_s
        self._observed_s = float("-inf")
        self._refused: dict[str, str] = {}
        """Attempts whose jobs wait for what will never be, with the reason."""

    def poll_soon(self) -> None:
        """Look soon, and often for a while."""
        self._interval_s = self._access.poll_min_s
        self.now.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        failures = 0
        while True:
            await self._until_next_poll()
            while not self._head.ready.is_set():
                await self._set_up_late()
            asked_s = time.monotonic()
            observes = self._observes and asked_s - self._observed_s >= OBSERVE_S
            try:
                jobs = await self._head.ask_queue(everybody=observes)
            except (QueueUnknownError, TransientError) as error:
                failures += 1
                _LOGGER.info("site %s: %s", self._head.site, error.message)
                if failures >= FAILURES_TO_PAUSE:
                    self._head.pause("queue", f"the queue can't be seen: {error.message}")
                self._interval_s = min(self._interval_s * 2, self._access.poll_max_s)
                continue
            failures = 0
            self._head.reopen("queue")
            if observes:
                self._observed_s = asked_s
                self._observe(jobs)
            changed = self._compare(jobs, asked_s)
            if await self._judge():
                changed = True
            if self._refused:
                changed = True
                await self._end_refused()
            await self._end_stuck(asked_s)
            await self._cancel_again(asked_s)
            longer_s = min(self._interval_s * 1.3, self._access.poll_max_s)
            self._interval_s = self._access.poll_min_s if changed else longer_s

    async def _set_up_late(self) -> None:
        try:
            await self._head.retry_until_answered(lambda host: host.facts())
        except InfeasibleError as error:
            self._head.pause("connection", str(error))
            await asyncio.sleep(delay_s(len(RETRY_DELAYS_S)))

    async def _until_next_poll(self) -> None:
        """Sleep an interval; for as long as nothing is submitted and nothing observed, longer."""
        if not self._head.ready.is_set():
            return
        self.now.clear()
        wait_s: float | None = self._interval_s
        if not any(entry.submitted_s is not None for entry in self._attempts.open.values()):
            wait_s = OBSERVE_S if self._observes else None
            if self._observed_s == float("-inf") and self._observes:
                return
        try:
            await asyncio.wait_for(self.now.wait(), wait_s)
        except asyncio.TimeoutError:
            return
        await asyncio.sleep(self._access.poll_min_s)

    def _compare(self, jobs: Sequence[Job], asked_s: float) -> bool:
        """Hold the queue against what we have there; whether anything changed."""
        changed = False
        shown = set()
        for job in jobs:
            key = self._head.batches.key_of(job)
            entry = self._attempts.open.get(key) if key is not None else None
            if key is None or entry is None:
                continue
            shown.add(key)
            entry.missed, entry.gone_s = 0, None
            if job.state == "refused":
                self._refused[key] = job.reason
                continue
            if job.state in ("running", "ending") and not entry.started:
                changed = True
                entry.doubtful_s = asked_s + BEGIN_S
                self._head.start(key, job.started_s)
        for key, entry in self._attempts.open.items():
            if key in shown or entry.submitted_s is None or entry.submitted_s > asked_s:
                continue
            entry.missed += 1
            if entry.missed > 1 and entry.gone_s is None:
                entry.gone_s = time.monotonic()
                changed = True
        return changed

    async def _end_refused(self) -> None:
        """Jobs that the batch system took and will never start."""
        refused, self._refused = self._refused, {}
        ours = await self._head.claim(list(refused))
        await self._head.cancel_jobs(list(refused))
        for key in ours:
            text = f"the batch system will never start it: {refused[key]}"
            self._attempts.end(key, Outcome("refused", message=text))

    def _observe(self, jobs: Sequence[Job]) -> None:
        """Running jobs first, then the queue in order."""
        background = [
            BackgroundJob(f"{job.id}.{job.element}", job.cores, self._since(job))
            for job in jobs
            if self._head.batches.key_of(job) is None and job.state not in ("held", "refused")
        ]
        others = sorted(background, key=lambda job: job.started_s is None)
        event = self._observer.observe(self._attempts.clock(), others)
        if event is not None:
            self._attempts.post(event)

    def _since(self, job: Job) -> float | None:
        """When it started; None: it waits."""
        if job.started_s is None and job.state != "queued":
            return self._attempts.clock()
        return job.started_s

    async def _end_stuck(self, asked_s: float) -> None:
        """Jobs that are shown as running, and that nobody runs: as of a node whose daemon died
        when it was given them. What has not even been claimed has not begun."""
        doubtful = [k for k, e in self._attempts.open.items() if 0 < e.doubtful_s < asked_s]
        if not doubtful:
            return
        for key in doubtful:
            self._attempts.open[key].doubtful_s = 0.0
        stuck = await self._head.claim(doubtful)
        minutes = f"{BEGIN_S / 60:.0f} min"
        for key in stuck:
            text = f"its job was shown as running for {minutes} and has not begun"
            self._attempts.end(key, Outcome("lost", message=text))
        await self._head.cancel_jobs(stuck)

    async def _cancel_again(self, asked_s: float) -> None:
        """Jobs that were told to end long ago, and are still there: they were not told after
        all."""
        deaf = []
        for key, entry in self._attempts.open.items():
            told_s = entry.cancelled_s
            if told_s is not None and not entry.missed and asked_s > told_s + CANCEL_AGAIN_S:
                entry.cancelled_s = asked_s
                deaf.append(key)
        await self._head.cancel_jobs(deaf)

    async def _judge(self) -> bool:
        """Attempts that are gone from the queue and have left no record, or one that does not
        say why; whether any was ended."""
        gone = [key for key, entry in self._attempts.open.items() if entry.gone_s is not None]
        if not gone:
            return False
        endings = await self._head.endings(gone)
        for key in gone:
            entry = self._attempts.open.get(key)
            if entry is None or entry.gone_s is None:
                continue
            ending = endings.get(key)
            if entry.record is not None:
                self._attempts.end(key, _with_reason(entry.record, ending))
                continue
            waited_s = time.monotonic() - entry.gone_s
            explained = ending is not None and ending.cause not in ("done", "exit", "lost")
            if waited_s > self._access.patience_s or (explained and waited_s > EXPLAINED_S):
                await self._give_up(key, entry, ending)
            elif waited_s > UNSTARTED_S and not entry.started:
                # What can be claimed has not started, and leaves no record to be waited for.
                if await self._head.claim([key]):
                    self._attempts.end(key, Outcome("lost", message=_NEVER_STARTED))
                else:
                    self._attempts.start(key)
        return any(key not in self._attempts.open for key in gone)

    async def _give_up(self, key: str, entry: OpenAttempt, ending: Ending | None) -> None:
        """It has left the queue, and no record came: make certain that it can't start any more,
        or that what it writes is not taken."""
        said = f"{ending.message}; " if ending is not None and ending.message else ""
        if await self._head.claim([key]):
            text = f"{said}{_NEVER_STARTED}"
        else:
            path = f"{self._head.directory}/attempts/{key}.revoked"
            await self._head.retry_until_space(lambda host: host.write([NewFile(path, b"")]))
            text = f"{said}its job ended and left no exit record"
        cause = ending.cause if ending is not None else "lost"
        if entry.cancelled_s is not None:
            cause = "cancelled"
        elif cause in ("done", "exit", "signal", "cancelled"):
            cause = "lost"  # not by us, nor by the task; or its record is lost
        host_name = ending.node if ending is not None else None
        self._attempts.end(key, Outcome(cause, message=text, host=host_name))


def is_from_outside(outcome: Outcome) -> bool:
    """Whether it may have been ended by the batch system. A shell whose command is killed by a
    signal exits with 128 more than its number."""
    killed = outcome.signal or (outcome.exit_code or 0) - 128
    return outcome.cause == "lost" or killed in _FROM_OUTSIDE


def _with_reason(record: Outcome, ending: Ending | None) -> Outcome:
    """A record of a task that something else ended, with what the batch system says of it."""
    if ending is None or ending.cause in ("done", "exit", "lost"):
        return record
    message = "; ".join(text for text in (ending.message, record.message) if text)
    cause = "lost" if ending.cause == "cancelled" else ending.cause
    return msgspec.structs.replace(record, cause=cause, message=message)
