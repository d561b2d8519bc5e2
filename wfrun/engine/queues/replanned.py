"""Conservative backfilling whose plan is made anew at every departure.

Every job gets a reservation when it is submitted, as with ``Conservative``. When a job ends early
or leaves the queue, all waiting jobs are planned again, one after the other in the order of the
queue. Each gets the earliest start beside the running jobs and the jobs before it. A job may
therefore be moved to a later start: jobs before it may take the processors of its reservation.

This is the conservative backfilling of Simbatch, the simulator of RR-7365 (section 4.1; function
``generic_reschedule`` of its source).
"""

from __future__ import annotations

from typing import ClassVar

from wfrun.engine.queues.conservative import Conservative


class Replanned(Conservative):
    """Implements ``Lrm``. ``planned_start_s`` is the start of the job's reservation. A departure
    costs as much as planning all waiting jobs."""

    name: ClassVar[str] = "replanned"

    def _compress(self, now_s: float) -> None:
        if self._queue and self._gap_from_s < self._gap_to_s:
            self._plan_anew(now_s)
        else:
            super()._compress(now_s)
