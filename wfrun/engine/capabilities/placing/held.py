"""Workflows whose policy left a task unplaced, and when the policy is asked again."""

from __future__ import annotations

from collections import deque

from wfrun.engine.capabilities.placing.arrivals import Arrivals
from wfrun.engine.core.state import RunState
from wfrun.engine.tasks.eligible import TaskClass

MAX_RETRIED_WORKFLOWS = 8
"""Maximum number of held workflows whose policy is asked again after an event that makes room for
none of them. Without a limit the cost of an event would grow with the number of held workflows."""


class HeldWorkflows:
    """Workflows whose policy is not asked for a placement now.

    A policy is asked again as soon as its task has room at a further site, the earliest workflow
    first. After any other event, the policies of `MAX_RETRIED_WORKFLOWS` workflows are asked in
    turn. When no attempt or copy is open, all are asked, since no further event may come.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.reasons: dict[int, tuple[TaskClass, int]] = {}
        """By held workflow: the class of the task that was left unplaced, and the sites that had
        room for it, as a mask."""
        self._by_reason: dict[tuple[TaskClass, int], Arrivals] = {}
        self._turns: deque[int] = deque()

    def add(self, workflow: int, kind: TaskClass) -> None:
        """Hold a workflow whose policy left a task of this class unplaced."""
        reason = kind, kind.mask & self._state.openings_for(kind.cores).open
        self.reasons[workflow] = reason
        arrivals = self._by_reason.get(reason)
        if arrivals is None:
            arrivals = self._by_reason[reason] = Arrivals()
        arrivals.add(workflow)
        self._turns.append(workflow)

    def discard(self, workflow: int) -> None:
        """Stop holding a workflow, if it is held."""
        reason = self.reasons.pop(workflow, None)
        if reason is None:
            return
        arrivals = self._by_reason[reason]
        arrivals.discard(workflow)
        if not arrivals:
            del self._by_reason[reason]
        if len(self._turns) > 2 * len(self.reasons) + MAX_RETRIED_WORKFLOWS:
            self._turns = deque(w for w in dict.fromkeys(self._turns) if w in self.reasons)

    def release_first(self) -> int | None:
        """Release the earliest workflow whose unplaced task has room at a further site, and return
        it; None if there is none. Cost: the number of different reasons, which is small."""
        best: int | None = None
        for (kind, before), arrivals in self._by_reason.items():
            if self._state.openings_for(kind.cores).open & kind.mask & ~before:
                first = arrivals.first()
                if best is None or first < best:
                    best = first
        if best is not None:
            self.discard(best)
        return best

    def release_in_turn(self) -> list[int]:
        """Release the workflows whose policies are asked again after this event, and return
        them."""
        nothing_under_way = not self._state.attempts and not self._state.copies
        most = len(self.reasons) if nothing_under_way else MAX_RETRIED_WORKFLOWS
        chosen: list[int] = []
        while self._turns and len(chosen) < most:
            workflow = self._turns.popleft()
            if workflow in self.reasons:
                self.discard(workflow)
                chosen.append(workflow)
        return chosen
