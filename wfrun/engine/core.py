"""The pure core: an event in, decisions and actions out.

Decisions are events too (AttemptPlaced, RunEnded): they are written to the log beside what caused
them, so that replaying the log needs no policy to decide the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from wfrun.engine.actions import Action, EndRun
from wfrun.engine.allocation import Allocation
from wfrun.engine.apply import apply
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import AttemptPlaced, Event, RunEnded
from wfrun.engine.model import Workflow
from wfrun.engine.state import RunState, WorkflowState


class Core:
    """One run. ``documents`` holds its workflows by the digests that WorkflowAdded names."""

    def __init__(self, documents: Mapping[str, Workflow]) -> None:
        self.state = RunState(documents)
        self._allocation = Allocation()
        self._held: set[int] = set()
        """Workflows whose policy left an eligible task unplaced."""

    def replay(self, events: Iterable[Event]) -> None:
        """Bring the state to the end of a log, deciding nothing. A RunResumed event, stepped
        next, makes the core ask what became of everything that was under way."""
        for event in events:
            apply(self.state, event)
            self.state.outbox.clear()
        self.state.dirty.clear()

    def step(self, event: Event) -> tuple[list[Event], list[Action]]:
        """Take in one event; returns what was decided, to be logged after it, and what is to be
        done, once both are durable.

        Raises InvalidError when a policy decides what it must not, or a task fits no site.
        """
        state = self.state
        apply(state, event)
        decided: list[Event] = []
        if state.ended is None and not (state.draining or state.stopping):
            state.dirty |= self._held
            self._held.clear()
            while state.dirty:
                self._place_eligible(state.workflows[min(state.dirty)], decided)
            if state.allocation_due:
                decided += self._allocation.decide(state)
        self._end_if_settled(decided)
        actions, state.outbox = state.outbox, []
        return decided, actions

    def _place_eligible(self, w: WorkflowState, decided: list[Event]) -> None:
        """Place eligible tasks in order, as far as the throttle allows."""
        state = self.state
        throttle = state.settings.throttle
        eligible = w.eligible
        while eligible.count and (throttle is None or w.dispatched < throttle):
            first = eligible.first(state.open_sites)
            if first is None:
                break
            task, mask = first
            site = w.placement.place(task)
            if site is None:
                self._held.add(w.index)  # asked again after the next event
                self._allocation.decline(w.index, w.candidates(task, state))
                break
            if type(site) is not int or site < 0 or not mask & state.open_sites & 1 << site:
                raise InvalidError(
                    f"policy {state.settings.policy!r} placed task "
                    f"{w.workflow.tasks[task].id!r} at site {site!r}, which is not one of its "
                    "candidates",
                    hint="a policy returns one of view.candidates(task), or None",
                )
            key = f"{state.run_id}.{w.index}.{task}.{w.attempts_of[task] + 1}"
            placed = AttemptPlaced(state.now_s, key, w.index, task, site)
            apply(state, placed)
            decided.append(placed)
        state.dirty.discard(w.index)

    def _waits_for_launchers(self) -> bool:
        """Whether there are launchers that could still get the work that is left. Of a site that
        is not well nothing is expected: as long as it may become well again, a timer runs."""
        state = self.state
        if not any(w.open for w in state.workflows):
            return False
        sites = [state.sites[index] for index in state.pools]
        return any(site.is_well and site.pool and site.pool.launchers for site in sites)

    def _end_if_settled(self, decided: list[Event]) -> None:
        """Decide that the run is over, when nothing is under way and nothing can start."""
        state = self.state
        if state.ended is not None or state.attempts or len(state.workflows) < state.expected:
            return
        if state.copies:
            return
        withdrawn = state.draining or state.stopping
        if state.pools and not withdrawn and self._waits_for_launchers():
            return
        if state.timers and not withdrawn and any(w.open for w in state.workflows):
            return
        reason = None
        outcome: Literal["done", "failed", "cancelled"]
        if state.draining:
            outcome = "cancelled"
        elif state.failed or state.uncollected:
            outcome = "failed"
        elif state.done < state.tasks:
            outcome = "failed"
            paused = [f"{s.spec.name}: {s.pause_reason}" for s in state.sites if s.pause_reason]
            if paused:
                reason = "no site is left that could run the rest: " + "; ".join(paused)
            else:
                reason = f"policy {state.settings.policy!r} places none of the eligible tasks"
        else:
            outcome = "done"
        ended = RunEnded(state.now_s, outcome, reason)
        apply(state, ended)
        decided.append(ended)
        state.outbox.append(EndRun(outcome))
