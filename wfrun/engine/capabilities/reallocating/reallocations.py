"""Reallocation: moves waiting jobs to the queue of a site that is expected to finish them sooner.

Source: RR-7365, sections 3.2.2 and 3.2.3; see `wfrun.engine.jobs.reallocation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.capabilities.reallocating.site_queues import SiteQueues, TaskNumber
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.jobs.moldable import SIZINGS
from wfrun.engine.jobs.reallocation import Limits, Placed, reallocate

_TIMER = "reallocation"

MOST_MOVES = 5
"""Maximum number of moves of a job to other sites; a move to a site that starts the job immediately
is always allowed. A queue that seems short may have users whose jobs overtake ours, so that a job
could move for ever."""


class Reallocations(Capability):
    """Decides every ``reallocate_every_s``, while jobs are open, which waiting jobs move.

    To move a job, its attempt is cancelled if it has not started. The end of the attempt makes the
    job eligible. Its destination is then the only candidate site, if the destination accepts the
    job. A job that starts before it is cancelled stays where it is.

    The log determines which jobs are being moved, so that a crash between cancellation and
    submission loses nothing: the next engine cancels again, and submits the job after the site has
    confirmed that the old attempt never starts.

    Cost of an event: constant. Cost of a decision: see the algorithm.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.moves = 0
        """Number of completed moves, to another site or to another size."""
        self._every_s = self.state.settings.reallocate_every_s
        self._submitted_s: dict[TaskNumber, float] = {}
        """Time of the first submission of each open job, in seconds."""
        self._moves: dict[TaskNumber, int] = {}
        """Number of moves of each open job to another site."""
        self._destinations: dict[TaskNumber, int] = {}
        """Destination of each job that is being moved."""
        self._offered: dict[TaskNumber, tuple[int, int]] = {}
        """Cache: destination and size of each job that the latest decision moves, so that choosing
        the size of a moved job does not plan all queues again. The log does not record the sizes; a
        later engine chooses them again."""
        self._is_timed = False
        self._due = False

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return begun.settings.reallocate is not None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_offered": {}}

    def take_over(self, before: Reallocations) -> None:
        self.moves = before.moves
        self._submitted_s = before._submitted_s
        self._moves, self._destinations = before._moves, before._destinations

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.JobsReallocated: self._reallocated}

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {_TIMER: self._timer_fired}

    def _timer_fired(self) -> None:
        self._is_timed = False
        if self.state.attempts:
            self._set_timer()
            self._due = self.run.decision_due = True

    def _set_timer(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self.run.set_timer(_TIMER, self.state.now_s + self._every_s)

    def on_resumed(self, dismissed: bool) -> None:
        self._is_timed = _TIMER in self.state.timers
        if self.state.attempts:
            self._set_timer()

    def on_placed(self, attempt: Attempt) -> None:
        task = attempt.workflow, attempt.task
        self._submitted_s.setdefault(task, attempt.placed_s)
        if self._destinations.pop(task, None) is not None:
            self.moves += 1
        self._offered.pop(task, None)
        self._set_timer()

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        """End the move of a job that starts before it is cancelled: the job stays where it is."""
        attempt.is_leaving = False
        self._destinations.pop((attempt.workflow, attempt.task), None)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        task = attempt.workflow, attempt.task
        for known in (self._submitted_s, self._moves, self._destinations, self._offered):
            known.pop(task, None)

    def _reallocated(self, event: ev.JobsReallocated) -> None:
        leaving: dict[int, list[Attempt]] = {}
        for key, site in event.moves:
            attempt = self.state.attempts.get(key)
            if attempt is None or attempt.started_s is not None:
                continue
            task = attempt.workflow, attempt.task
            attempt.is_leaving = True
            self._destinations[task] = site
            self._moves[task] = self._moves.get(task, 0) + (site != attempt.site)
            leaving.setdefault(attempt.site, []).append(attempt)
        for site, attempts in leaving.items():
            self.run.withdraw(site, attempts)

    def destination(self, w: WorkflowState, task: int) -> int | None:
        """The site that a job is being moved to; None: it is not being moved."""
        return self._destinations.get((w.index, task))

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        """Restrict a job that is being moved to its destination, if that is a candidate."""
        site = self._destinations.get((w.index, task)) if self._destinations else None
        return mask if site is None else mask & 1 << site or mask

    def choose_size(self, w: WorkflowState, task: int, site: int) -> int:
        """The size that the latest decision chose for a moved job at its destination; 0: it chose
        none."""
        offered_by, size = self._offered.get((w.index, task), (-1, 0))
        return size if offered_by == site else 0

    def end_replay(self) -> None:
        """Make no decision: a decision that was due in the replay is in the log already."""
        self._due = False

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not self._due:
            return
        self._due = False
        state, settings = self.state, self.state.settings
        assert settings.reallocate is not None, "without it there is no such capability"
        sizing = SIZINGS[settings.sizing or "binary"]
        queues = SiteQueues(state, sizing, self._submitted_s, self._moves)
        limits = Limits(settings.reallocate_gain_s, MOST_MOVES, keeps_oldest=True)
        placed = reallocate(queues, settings.reallocate, limits)
        moved = [p for p in placed if self._changes(p)]
        self._offered = {self._task(p): (p.offer.site, p.offer.size) for p in moved}
        if moved:
            moves = tuple((str(p.job.id), p.offer.site) for p in moved)
            expected = tuple((p.before_s, p.offer.completion_s) for p in moved)
            decisions.take(ev.JobsReallocated(state.now_s, moves, expected))

    def _task(self, placed: Placed) -> TaskNumber:
        attempt = self.state.attempts[str(placed.job.id)]
        return attempt.workflow, attempt.task

    def _changes(self, placed: Placed) -> bool:
        """Whether the job gets another site or size. The algorithms that cancel all jobs (``-can``)
        also return jobs that keep site and size; these jobs stay in their queue."""
        return placed.is_moved or self.state.attempts[str(placed.job.id)].cores != placed.offer.size
