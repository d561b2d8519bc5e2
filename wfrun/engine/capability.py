"""Capabilities: what takes part in a run beside its tasks and files.

Site health, launchers, replicas, the order of placements, predictions: each is a class of its own
that the interpreter of the log and the core call through the hooks of `Capability`. A capability
keeps what it knows of the run; others find it with ``RunState.find``.
`wfrun.engine.capabilities` registers them, in the order in which they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from wfrun.engine import events as ev
from wfrun.engine.actions import Action, CancelAttempts, SetTimer
from wfrun.engine.exchange import Outcome
from wfrun.engine.state import Attempt, Condition, RunState, WorkflowState


class Decisions(Protocol):
    """How capabilities decide: each decision is an event, which is applied at once and logged."""

    def take(self, event: ev.Event) -> None:
        """Decide this."""

    def place(self, w: WorkflowState, task: int, site: object, allowed: int) -> None:
        """Decide that this site gets an attempt of the task. Raises InvalidError, which names the
        policy, for an answer that is not one of the ``allowed`` sites, a mask."""


class Run:
    """A run as its log is interpreted: its state, and what follows from the latest event."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.hooks = Hooks()
        self.outbox: list[Action] = []
        """What was found to be done; the core takes it away."""
        self.placement_possible = False
        """Something has happened after which a placement may be possible that was not before."""
        self.decision_due = False
        """A capability has to decide after the present event, even if no placement is possible."""
        self.offer: tuple[WorkflowState, int, int] | None = None
        """A workflow, its task and sites, as a mask, that its policy is asked about although they
        have no room; None: what is asked is meant."""

    def set_timer(self, timer: str, at_s: float) -> None:
        """Set a timer, or set it anew. Its name is ``kind:number:number…``; the kind finds who is
        called when it fires."""
        self.state.timers[timer] = at_s
        self.outbox.append(SetTimer(timer, at_s))

    def site_changed(self, index: int) -> None:
        """Note that the room at a site, or its health, has changed."""
        if self.state.update_site(index):
            self.placement_possible = True
        for call in self.hooks.site_changed:
            call(index)

    def set_condition(self, index: int, capability: str, condition: Condition | None) -> None:
        """Hold something against a site, or nothing any more."""
        site = self.state.sites[index]
        if condition is None:
            site.conditions.pop(capability, None)
        else:
            site.conditions[capability] = condition
        self.update_health(index)

    def update_health(self, index: int) -> None:
        """Open or close a site for placements, as what is held against it says."""
        site = self.state.sites[index]
        is_healthy = site.reported is None and not any(
            condition.closes for condition in site.conditions.values()
        )
        if is_healthy is not site.is_healthy:
            site.is_healthy = is_healthy
            for call in self.hooks.health_changed:
                call(index)
        self.site_changed(index)

    def withdraw(self, index: int, attempts: Iterable[Attempt]) -> None:
        """Order the cancellation of attempts at a site, as far as they have not started; without
        those that were withdrawn before."""
        fresh = [attempt for attempt in attempts if not attempt.withdrawn]
        for attempt in fresh:
            attempt.withdrawn = True
            for call in self.hooks.withdrawn:
                call(attempt)
        if fresh:
            keys = tuple(attempt.key for attempt in fresh)
            self.outbox.append(CancelAttempts(index, keys, queued_only=True))

    def candidates(self, w: WorkflowState, task: int, cores: int) -> int:
        """The sites that may get a task now, as a mask: open, with room for it, and where others
        have idle slots, not those that would only hold it in advance.

        Cost: constant."""
        if self.offer is not None and self.offer[0] is w and self.offer[1] == task:
            return self.offer[2]
        openings = self.state.openings.get(cores) or self.state.openings_for(cores)
        mask = w.allowed_sites(task) & openings.open
        for limit in self.hooks.limit_candidates:
            mask = limit(w, task, cores, mask)
        if mask & openings.prefetching and mask & openings.idle:
            mask &= ~openings.prefetching
        return mask


class Capability:
    """Base of all capabilities; every hook does nothing.

    The interpreter calls hooks after it has changed the state for the event. They are called for
    events of the present and for those of a log that is replayed, and must not tell these apart; so
    the same log leads to the same state. What a hook costs must not grow with the number of tasks,
    workflows or attempts, but where its description says so.
    """

    is_dormant: ClassVar[bool] = False
    """Until it calls ``run.hooks.wake(self)`` it only interprets its own events: so it costs
    nothing in the many runs that need it late or never."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = run.state

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Whether a run that begins so has this capability. Sites, queues and the information that
        the policy declares are in the state already."""
        return True

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        """The kinds of events that it interprets itself, and by what."""
        return {}

    def timers(self) -> Mapping[str, Callable[..., None]]:
        """The kinds of timers that it sets, and what is called with the numbers of one's name when
        it fires."""
        return {}

    # Facts

    def on_workflow_added(self, w: WorkflowState) -> None:
        """A workflow was added; its tasks are not eligible yet. May cost in proportion to it."""

    def on_eligible(self, w: WorkflowState) -> None:
        """The eligible set of a workflow has changed, other than by a placement: a task, or all of
        a bag, became eligible or has to wait again."""

    def on_resumed(self, dismissed: bool) -> None:
        """A new engine took over. ``dismissed``: the run had ended before. May cost in proportion
        to all that is open."""

    def on_placed(self, attempt: Attempt) -> None:
        """An attempt was placed. Its site has less room."""

    def on_ready(self, attempt: Attempt) -> None:
        """All inputs of an attempt are at its site; it is being submitted."""

    def on_queued(self, attempt: Attempt) -> None:
        """An attempt is in its site's queue, also as it turned out after a crash."""

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        """An attempt runs."""

    def on_active(self, attempt: Attempt) -> None:
        """After a crash: its site has this attempt."""

    def on_absent(self, attempt: Attempt) -> None:
        """After a crash: its site has never started this attempt, which is submitted again.
        ``started_s`` tells whether it was believed to run."""

    def on_left(self, attempt: Attempt) -> None:
        """An attempt is no longer dispatched, for whatever reason. Its site has more room."""

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        """An attempt ended, and has left. It held cores for ``core_s`` core seconds; None: unknown.
        One of the following hooks comes after this, unless the attempt was superseded, or was
        cancelled by us."""

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt succeeded, and with it its task."""

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt failed."""

    def on_undelivered(self, attempt: Attempt, outcome: Outcome) -> None:
        """An input that was to come from ORIGIN did not arrive; the last attempt that waited for
        it, which has left."""

    def on_superseded(self, attempt: Attempt) -> None:
        """Another attempt of its task was done first."""

    def on_withdrawn(self, attempt: Attempt) -> None:
        """An attempt is cancelled, if it has not started."""

    def on_reopened(self, site: int) -> None:
        """A site says that it works, or a new engine begins: what was held against it is void."""

    def on_load_changed(self, site: int) -> None:
        """The jobs of others at a site were observed; its ``slots_now`` have changed with them."""

    def on_health_changed(self, site: int) -> None:
        """A site has come to take attempts, or takes none any more."""

    def on_site_changed(self, site: int) -> None:
        """The room at a site, or its health, has changed."""

    # Decisions

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        """Of the sites in the mask, those that may get this task."""
        return mask

    def decide(self, decisions: Decisions, possible: bool) -> None:
        """Decide what follows from the latest event.

        ``possible``: a placement may be possible that was not before the event. The hook is called
        in that case, or when a capability has set ``run.decision_due``. Its cost may grow with the
        number of decisions."""

    def on_declined(self, w: WorkflowState, task: int, sites: int) -> None:
        """The policy was asked for a site for this task, and has left it unplaced, although these
        sites, a mask, could have got it. That is not in the log."""

    def expects(self) -> bool:
        """Whether a run in which nothing is under way may yet go on by itself."""
        return False

    # The log of a run that is taken over

    def before_replay(self, event: ev.Event) -> None:
        """This event of the log is applied next."""

    def after_replay(self, event: ev.Event) -> None:
        """It was applied."""

    def end_replay(self) -> None:
        """It was the last one."""


class Hooks:
    """The hooks of all capabilities of a run, in their order: who does not override one is not
    called."""

    def __init__(self) -> None:
        self.workflow_added: list[Callable[[WorkflowState], None]] = []
        self.eligible: list[Callable[[WorkflowState], None]] = []
        self.resumed: list[Callable[[bool], None]] = []
        self.placed: list[Callable[[Attempt], None]] = []
        self.ready: list[Callable[[Attempt], None]] = []
        self.queued: list[Callable[[Attempt], None]] = []
        self.started: list[Callable[[Attempt, ev.AttemptStarted], None]] = []
        self.active: list[Callable[[Attempt], None]] = []
        self.absent: list[Callable[[Attempt], None]] = []
        self.left: list[Callable[[Attempt], None]] = []
        self.ended: list[Callable[[Attempt, Outcome, float | None], None]] = []
        self.done: list[Callable[[Attempt, Outcome], None]] = []
        self.failed: list[Callable[[Attempt, Outcome], None]] = []
        self.undelivered: list[Callable[[Attempt, Outcome], None]] = []
        self.superseded: list[Callable[[Attempt], None]] = []
        self.withdrawn: list[Callable[[Attempt], None]] = []
        self.reopened: list[Callable[[int], None]] = []
        self.load_changed: list[Callable[[int], None]] = []
        self.health_changed: list[Callable[[int], None]] = []
        self.site_changed: list[Callable[[int], None]] = []
        self.limit_candidates: list[Callable[[WorkflowState, int, int, int], int]] = []
        self.declined: list[Callable[[WorkflowState, int, int], None]] = []
        self.decide: list[Callable[[Decisions, bool], None]] = []
        self.expects: list[Callable[[], bool]] = []
        self.before_replay: list[Callable[[ev.Event], None]] = []
        self.after_replay: list[Callable[[ev.Event], None]] = []
        self.end_replay: list[Callable[[], None]] = []
        self._by_name = dict(vars(self))
        self.events: dict[type[ev.Event], list[Callable[[Any], None]]] = {}
        self.timers: dict[str, Callable[..., None]] = {}

    def add(self, capability: Capability) -> None:
        """Call this one too, after those that were added before."""
        for event, interpret in capability.events().items():
            self.events.setdefault(event, []).append(interpret)
        self.timers.update(capability.timers())
        if not capability.is_dormant:
            self.wake(capability)

    def wake(self, capability: Capability) -> None:
        """Call the other hooks of this one too."""
        kind = type(capability)
        for name, calls in self._by_name.items():
            method = name if hasattr(Capability, name) else f"on_{name}"
            if getattr(kind, method) is not getattr(Capability, method):
                calls.append(getattr(capability, method))
