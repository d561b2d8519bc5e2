"""First come, first served, without backfilling."""

from __future__ import annotations

from typing import ClassVar

from wfrun.engine.queues.lrm import JobId
from wfrun.engine.queues.queue import LrmQueue


class Fcfs(LrmQueue):
    """Starts jobs in the order of their submission; the first job that does not fit blocks all
    later jobs.

    Requested times only affect estimates.
    """

    name: ClassVar[str] = "fcfs"
    in_order: ClassVar[bool] = True

    def schedule(self, now_s: float) -> list[JobId]:
        started: list[JobId] = []
        queue, running = self._queue, self._running
        while queue:
            head = queue[next(iter(queue))]
            if head.cores > running.free:
                break
            self._start(head, now_s)
            started.append(head.id)
        return started
