"""Reasons why jobs wait, in the words of the batch system."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from wfrun.engine.errors import TransientError
from wfrun.engine.events import JobsWait
from wfrun.sites.batch.jobs import JobInQueue, QueueUnknownError
from wfrun.sites.cluster.attempts import Attempts
from wfrun.sites.cluster.head_node import COMMAND_S, HeadNode, answer, parsed

_LOGGER = logging.getLogger(__name__)

ASK_AGAIN_S = 60.0
"""Minimum interval between questions why a job waits, if the queue does not show the reason."""
MAX_REASONS = 3
"""Maximum number of different reasons in a report."""
MAX_LENGTH = 200
"""Maximum length of a reason, in characters."""

_Wait = tuple[str, int]
"""The reason, and the number of held jobs."""
_NONE: _Wait = ("", 0)


class Waits:
    """Reports why jobs of ours wait. An ordinary wait is reported only after two consecutive
    listings of the queue show it: most jobs start earlier, and each report is a durable event."""

    def __init__(self, head: HeadNode, attempts: Attempts) -> None:
        self._head = head
        self._attempts = attempts
        self._seen = _NONE
        """The wait in the last listing of the queue."""
        self._posted = _NONE
        self._asked_s = float("-inf")
        self._answer: tuple[str, bool] = ("", False)
        """Answer to the last question: the reason, and whether the job waits until somebody acts.
        """

    async def look(self, jobs: Sequence[JobInQueue]) -> None:
        """Find out from a listing of the queue why our jobs wait, and report a changed reason."""
        ours = [
            job
            for job in jobs
            if job.state in ("queued", "held")
            and self._head.batches.key_of(job) in self._attempts.open
        ]
        held = [job for job in ours if job.state == "held"]
        wait = _reason(held or ours), len(held)
        if ours and wait == _NONE:
            wait = await self._asked(ours)
        if wait == self._seen or held or not ours:
            self._post(wait)
        self._seen = wait

    def forget(self) -> None:
        """Report that none of our jobs waits: the queue has none."""
        self._seen = _NONE
        self._post(_NONE)

    def _post(self, wait: _Wait) -> None:
        if wait != self._posted:
            self._posted = wait
            self._attempts.post(JobsWait(self._attempts.clock(), self._head.index, *wait))

    async def _asked(self, waiting: Sequence[JobInQueue]) -> _Wait:
        """Ask the batch system why the first waiting job waits, and return the reason and the
        number of held jobs. Asks at most once in ASK_AGAIN_S; other calls return the last answer.
        """
        argv = self._head.system.why(waiting[0].id)
        if argv is None:
            return _NONE
        if time.monotonic() >= self._asked_s + ASK_AGAIN_S:
            self._asked_s = time.monotonic()
            try:
                host = await self._head.connection.host()
                result = await host.run(
                    argv, env=self._head.system.environment, timeout_s=COMMAND_S
                )
                self._answer = parsed(lambda: self._head.system.waits(*answer(result)))
            except (QueueUnknownError, TransientError) as error:
                _LOGGER.info("site %s: %s", self._head.site, error.message)
                self._answer = "", False
        reason, is_stopped = self._answer
        return reason[:MAX_LENGTH], len(waiting) if is_stopped else 0


def _reason(jobs: Sequence[JobInQueue]) -> str:
    """The different reasons of jobs, in an order that does not depend on that of the queue."""
    found = sorted({" ".join(job.reason.split()) for job in jobs} - {""})
    return "; ".join(reason[:MAX_LENGTH] for reason in found[:MAX_REASONS])
