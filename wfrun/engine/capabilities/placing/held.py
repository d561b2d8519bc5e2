"""Workflows whose policy left a task unplaced, and when it is asked again."""

from __future__ import annotations

from collections import deque

from wfrun.engine.capabilities.placing.arrivals import Arrivals
from wfrun.engine.eligible import TaskClass
from wfrun.engine.state import RunState

MAX_RETRIED_WORKFLOWS = 8
"""Maximum number of workflows that are asked again after an event which opens no site for them.
Otherwise an event would cost as much as there are such workflows."""


class HeldWorkflows:
    """Workflows that are not asked for a placement now.

    A workflow is asked again as soon as a site has room for its task that had none when it was
    asked last, the earliest workflow first; and in turn after any other event. When nothing is
    under way all are asked, since no further event may come.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.why: dict[int, tuple[TaskClass, int]] = {}
        """Per held workflow: the class of the task, and the sites that had room for it."""
        self._by_why: dict[tuple[TaskClass, int], Arrivals] = {}
        self._turns: deque[int] = deque()

    def add(self, workflow: int, kind: TaskClass) -> None:
        """The policy left a task of this class unplaced."""
        why = kind, kind.mask & self._state.openings_for(kind.cores).open
        self.why[workflow] = why
        arrivals = self._by_why.get(why)
        if arrivals is None:
            arrivals = self._by_why[why] = Arrivals()
        arrivals.add(workflow)
        self._turns.append(workflow)

    def discard(self, workflow: int) -> None:
        """It may be asked, if it was held."""
        why = self.why.pop(workflow, None)
        if why is None:
            return
        arrivals = self._by_why[why]
        arrivals.discard(workflow)
        if not arrivals:
            del self._by_why[why]
        if len(self._turns) > 2 * len(self.why) + MAX_RETRIED_WORKFLOWS:
            self._turns = deque(w for w in dict.fromkeys(self._turns) if w in self.why)

    def freed(self) -> int | None:
        """The earliest workflow that a further site has room for; None: there is none. It is held
        no longer. Cost: the number of different reasons, of which there are few."""
        best: int | None = None
        for (kind, before), arrivals in self._by_why.items():
            if self._state.openings_for(kind.cores).open & kind.mask & ~before:
                first = arrivals.first()
                if best is None or first < best:
                    best = first
        if best is not None:
            self.discard(best)
        return best

    def next_in_turn(self) -> list[int]:
        """The workflows that are asked again after this event, which are held no longer."""
        nothing_under_way = not self._state.attempts and not self._state.copies
        most = len(self.why) if nothing_under_way else MAX_RETRIED_WORKFLOWS
        chosen: list[int] = []
        while self._turns and len(chosen) < most:
            workflow = self._turns.popleft()
            if workflow in self.why:
                self.discard(workflow)
                chosen.append(workflow)
        return chosen
