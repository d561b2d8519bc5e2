"""The pure core: events in, decisions and actions out.

Decisions are events too (AttemptPlaced, RunEnded). The log holds them next to the events that
caused them, so a replay does not depend on policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from wfrun.engine.core.actions import Action, EndRun
from wfrun.engine.core.capability import Run
from wfrun.engine.core.interpreter import Interpreter
from wfrun.engine.core.state import SUPERSEDED, TaskStatus, WorkflowState
from wfrun.engine.events import (
    AttemptPlaced,
    AvoidanceEnded,
    Event,
    RunChanged,
    RunEnded,
    RunResumed,
)
from wfrun.engine.model import Workflow
from wfrun.engine.policies.placement import placement_class
from wfrun.engine.policies.policy_error import answer_error, policy_error
from wfrun.engine.tasks.attempts import key_of
from wfrun.engine.tasks.retry import avoiding_tasks


class Core:
    """The core of one run. ``documents`` holds the workflows, by the digests in WorkflowAdded."""

    def __init__(self, documents: Mapping[str, Workflow], run: Run | None = None) -> None:
        """``run``: a run that has begun, to be continued; None for a new one."""
        self._interpreter = Interpreter(documents, run)
        self.run = self._interpreter.run
        self.state = self.run.state
        self._decided: list[Event] = []

    def replay(self, events: Iterable[Event]) -> None:
        """Apply a log without deciding anything. The caller then steps a RunResumed event, which
        makes the core ask the sites for the state of all open attempts, copies and launchers."""
        try:
            self._replay(events)
        except Exception as error:
            self._blame_policy(error)
            raise

    def _replay(self, events: Iterable[Event]) -> None:
        run = self.run
        decides = True
        """Whether the live core made decisions at this point of the log. It made none between a
        change of the run and the next resume."""
        for event in events:
            if decides and isinstance(event, RunChanged):
                self._end_replay()  # As the engine did that made the change.
                decides = False
            for call in run.hooks.before_replay if decides and not run.awaits_more else ():
                call(event)
            self._interpreter.apply(event)
            decides = decides or isinstance(event, RunResumed)
            if run.awaits_more:
                continue
            for call in run.hooks.after_replay if decides else ():
                call(event)
            run.outbox.clear()
            run.placement_possible = False
        if decides and not run.awaits_more:
            self._end_replay()
        run.outbox.clear()

    def _end_replay(self) -> None:
        for end in self.run.hooks.end_replay:
            end()

    def step(self, event: Event) -> tuple[list[Event], list[Action]]:
        """Apply one event and decide what follows. Returns the decisions, to be logged after the
        event, and the actions, to be carried out when event and decisions are durable.

        Raises PolicyError if a policy raises an exception or returns a forbidden decision, and
        InvalidError if a task fits no site.
        """
        run, state = self.run, self.state
        decided: list[Event] = []
        self._decided = decided
        try:
            if event.at_s > state.now_s:  # As in `Interpreter.apply`, without a call.
                state.now_s = event.at_s
            self._interpreter.interpret[type(event)](run, event)
            if (run.placement_possible or run.decision_due) and not run.awaits_more:
                self._decide()
        except Exception as error:
            self._blame_policy(error)
            raise
        # Checked only when nothing that matters is under way, so that other events cost nothing.
        if not state.copies and len(state.attempts) <= state.superseded and state.ended is None:
            self._settle()
        actions, run.outbox = run.outbox, []
        return decided, actions

    def _decide(self) -> None:
        run, state = self.run, self.state
        is_due = True
        # As `RunState.is_placing`, without a call.
        while is_due and state.ended is None and not (state.draining or state.stopping):
            possible, run.placement_possible = run.placement_possible, False
            run.decision_due = run.has_new_room = False
            for decide in run.hooks.decide:
                decide(self, possible)
            # Decisions set it again, but all possible placements have been made.
            # Those in room that they made have not.
            is_due = run.placement_possible = run.has_new_room

    def _blame_policy(self, error: Exception) -> None:
        """Raise PolicyError from the error if a policy raised it."""
        found = policy_error(error, self.state.settings)
        if found is not None:
            raise found from error

    def apply_undecided(self, event: Event) -> None:
        """Apply an event while the run is not driven: after its end, such as the last counts of a
        site, or before it is resumed. Decides nothing."""
        self._interpreter.apply(event)
        self.run.outbox.clear()

    def take(self, event: Event) -> None:
        """Implements `wfrun.engine.core.capability.Decisions.take`."""
        self._interpreter.apply(event)
        self._decided.append(event)

    def place(self, w: WorkflowState, task: int, site: object, allowed: int) -> None:
        """Implements `wfrun.engine.core.capability.Decisions.place`."""
        state = self.state
        if type(site) is not int or site < 0 or not allowed >> site & 1:
            name = state.settings.policy
            raise answer_error(
                f"policy {name!r} placed task {w.workflow.tasks[task].id!r} at site {site!r}, "
                "which is not one of its candidates",
                placement_class(name).place,
                "It returns one of view.candidates(task), or None",
            )
        key = key_of(w, task, w.attempts_of[task] + 1)
        hooks, walltime_s, size = self.run.hooks, None, 0
        if hooks.limit_walltime:
            for limit in hooks.limit_walltime:
                walltime_s = limit(w, task, site)
        if w.workflow.moldable and task in w.workflow.moldable:
            for choose in hooks.choose_size:
                size = size or choose(w, task, site)
        placed = AttemptPlaced(state.now_s, key, w.index, task, site, walltime_s, size)
        self._interpreter.interpret[AttemptPlaced](self.run, placed)
        self._decided.append(placed)

    def _settle(self) -> None:
        """Make the decisions of `Part.settle`, and end the run if nothing can start any more.
        Called when no copy, and no attempt except superseded ones, is open. Does nothing while the
        timer of superseded attempts runs, so that their cancellations reach the sites before the
        run ends."""
        state = self.state
        if self.run.awaits_more or (state.attempts and SUPERSEDED in state.timers):
            return
        for settle in self.run.hooks.settle if state.is_placing else ():
            settle(self)
        if state.is_complete or state.draining or state.stopping:
            self._end_if_settled()

    def _end_if_settled(self) -> None:
        """End the run if nothing can start any more."""
        state = self.state
        if not (state.draining or state.stopping) and (self._goes_on() or self._end_avoidance()):
            return
        reason = None
        outcome: Literal["done", "failed", "cancelled"]
        if state.draining:
            outcome = "cancelled"
        elif state.failed or state.uncollected:
            outcome = "failed"
            if not state.stopping:
                reason = self._explain_end()
                if reason is None and state.counts[TaskStatus.ELIGIBLE]:
                    reason = self._explain_paused()  # Not all that is left waits for a failed task.
        elif state.done + state.unneeded < state.tasks:
            outcome = "failed"
            reason = self._explain_end() or self._explain_paused() or self._explain_unplaced()
        else:
            outcome = "done"
        self.take(RunEnded(state.now_s, outcome, reason))
        self.run.outbox.append(EndRun(outcome))

    def _explain_paused(self) -> str | None:
        """Which sites get no attempts, and why; None if all sites get attempts."""
        paused = [f"{s.spec.name}: {s.pause_reason}" for s in self.state.sites if s.pause_reason]
        return "no site is left that could run the rest: " + "; ".join(paused) if paused else None

    def _explain_unplaced(self) -> str:
        """Why eligible tasks are left although no site is paused: a task fits no site, or the
        policy places none."""
        state = self.state
        for w in state.workflows:
            for kind in w.eligible.counts:
                first = None if kind.mask else w.eligible.first_of(kind)
                if first is not None:
                    return (
                        f"task {w.workflow.tasks[first[2]].id!r}, which needs "
                        f"{kind.cores} core{'s' * (kind.cores > 1)}, fits no site of the catalog; "
                        "add one, or make one larger, then `wfrun resume --sites`"
                    )
        return f"policy {state.settings.policy!r} places none of the eligible tasks"

    def _end_avoidance(self) -> bool:
        """Let tasks return to sites where they have failed, since the run would otherwise end
        without them. Returns whether the run goes on."""
        state = self.state
        tasks = avoiding_tasks(state) if state.open_workflows else ()
        if not tasks:
            return False
        self.take(AvoidanceEnded(state.now_s, tasks))
        self._decide()
        return len(state.attempts) > state.superseded or self._goes_on()

    def _goes_on(self) -> bool:
        """Whether a timer or a capability may still start work although no attempt or copy is
        open."""
        return bool(self._may_go_on() and self.state.open_workflows) or any(
            expects() for expects in self.run.hooks.expects
        )

    def _explain_end(self) -> str | None:
        """The first reason that a capability states for leaving eligible tasks unplaced; None if no
        capability states one."""
        reasons = (explain() for explain in self.run.hooks.explain_end)
        return next((reason for reason in reasons if reason is not None), None)

    def _may_go_on(self) -> bool:
        """Whether the run may go on when a timer fires, or when the user ends the pause of a site.
        Without a healthy site, timers of retries do not count, since a retried task cannot be
        placed. A site that may recover has a timer of its own, which counts."""
        state = self.state
        if state.is_any_held:
            return True  # The user may free the site.
        if any(site.is_healthy for site in state.sites):
            return bool(state.timers)
        return len(state.timers) > state.counts[TaskStatus.DELAYED]
