"""Parts of a run beside its tasks and files.

Each part is a class of its own, which the interpreter of the log and the core call through the
hooks of `Part`. *Core parts*, such as predictions and the order of placements, belong to every run;
other modules read them with ``RunState.get``. *Capabilities*, such as site health, launchers and
replicas, are the parts that a run has only if it needs them; other modules read them with
``RunState.find``. A part keeps its own facts. `wfrun.engine.capabilities` registers all parts in
the order of their calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from wfrun.engine import events as ev
from wfrun.engine.core.actions import Action, CancelAttempts, SetTimer
from wfrun.engine.core.state import Attempt, Condition, RunState, WorkflowState
from wfrun.engine.exchange import Outcome


class Decisions(Protocol):
    """The interface through which capabilities decide. Each decision is an event, which is applied
    immediately and logged."""

    def take(self, event: ev.Event) -> None:
        """Apply and log a decision."""

    def place(self, w: WorkflowState, task: int, site: object, allowed: int) -> None:
        """Place an attempt of the task at a site. Raises PolicyError, which names the policy, if
        ``site`` is not in the mask ``allowed``."""


class Run:
    """A run during the interpretation of its log: its state, the actions that follow from events,
    and the flags that tell whether a decision is due."""

    __slots__ = ("awaits_more", "decision_due", "has_new_room", "hooks", "hypothetical",
                 "is_watched", "outbox", "placement_possible", "state")  # fmt: skip

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.hooks = Hooks()
        self.outbox: list[Action] = []
        """Actions that follow from events. The core removes and returns them after each event."""
        self.placement_possible = False
        """Whether the latest event may have made a placement possible."""
        self.decision_due = False
        """Whether a capability has to decide after this event even if no placement is possible."""
        self.has_new_room = False
        """Whether a decision has made room. If so, placements are decided again in the same step,
        since no further event is certain to come."""
        self.awaits_more = False
        """Whether decisions wait for the workflow that the next event adds."""
        self.is_watched = True
        """Whether people may look at the run. Otherwise parts that only inform people are left
        out."""
        self.hypothetical: tuple[WorkflowState, int, int] | None = None
        """A hypothetical question to a placement policy: a workflow, one of its tasks, and the mask
        of sites to present as candidates of the task even if they have no room. None outside such a
        question."""

    def set_timer(self, timer: str, at_s: float) -> None:
        """Set or reset a timer. Its name is ``kind:number:number…``; the function that is
        registered for the kind is called when it fires."""
        self.state.timers[timer] = at_s
        self.outbox.append(SetTimer(timer, at_s))

    def site_changed(self, index: int) -> None:
        """Update what depends on the room at a site or on its health. Called after either has
        changed."""
        if self.state.update_site(index):
            self.placement_possible = True
        for call in self.hooks.site_changed:
            call(index)

    def set_condition(self, index: int, capability: str, condition: Condition | None) -> None:
        """Set the condition of a site that a capability has found, or clear it with None."""
        site = self.state.sites[index]
        if condition is None:
            site.conditions.pop(capability, None)
        else:
            site.conditions[capability] = condition
        self.update_health(index)

    def update_health(self, index: int) -> None:
        """Open or close a site for placements: it is healthy if it reports no problem and no
        condition closes it."""
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
        """Cancel attempts at a site that have not started. Attempts that are being withdrawn
        already are skipped."""
        pending = [attempt for attempt in attempts if not attempt.withdrawn]
        for attempt in pending:
            attempt.withdrawn = True
            for call in self.hooks.withdrawn:
                call(attempt)
        if pending:
            keys = tuple(attempt.key for attempt in pending)
            self.outbox.append(CancelAttempts(index, keys, queued_only=True))

    def candidates(self, w: WorkflowState, task: int, cores: int) -> int:
        """The sites that may get a task now, as a mask: open and with room for it.

        Sites that would only prefetch the task are left out while other sites have idle slots for
        it: a prefetched task waits in a queue although it could run. Cost: constant.
        """
        if (
            self.hypothetical is not None
            and self.hypothetical[0] is w
            and self.hypothetical[1] == task
        ):
            return self.hypothetical[2]
        openings = self.state.openings.get(cores) or self.state.openings_for(cores)
        mask = w.allowed_sites(task) & openings.open
        for limit in self.hooks.limit_candidates:
            mask = limit(w, task, cores, mask)
        if mask & openings.prefetching and mask & openings.idle:
            mask &= ~openings.prefetching
        return mask


class Part:
    """Base of all parts of a run; every hook does nothing.

    The interpreter calls hooks after it has changed the state. It calls them for live events and
    for events of a replayed log, and they must not distinguish the two: the same log must lead to
    the same state. The cost of a hook must not grow with the number of tasks, workflows or
    attempts, unless its description allows it.
    """

    dormant: frozenset[str] = frozenset()
    """Names of hooks that are not called until the part calls ``run.hooks.wake(self)``, which
    activates all its hooks; `EVERY_HOOK`: all hooks. An instance may override the value of its
    class. Dormant hooks save calls in the many runs that need them late or never."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = run.state

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Whether a run that begins with this event, or goes on with changed options, has the part.
        The sites, queues and declared information are in the state already."""
        return True

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        """The types of events that the part interprets, each with its interpreter."""
        return {}

    def timers(self) -> Mapping[str, Callable[..., None]]:
        """The kinds of timers that the part sets, each with the function to call when a timer
        fires. The numbers in the name of the timer are the arguments of the function."""
        return {}

    def take_over(self, before: Any) -> None:
        """Take over the observations of ``before``, the instance of this part before a change of
        the run's options or sites. Called once the workflows and open attempts are known. Sites
        keep their numbers; there may be new ones."""

    # Facts

    def on_workflow_added(self, w: WorkflowState) -> None:
        """A workflow was added; its tasks are not eligible yet. The cost may grow with its size."""

    def on_eligible(self, w: WorkflowState) -> None:
        """The eligible set of a workflow changed by other means than a placement: a task, or all
        tasks of a bag, became eligible or must wait again."""

    def on_resumed(self, dismissed: bool) -> None:
        """A new engine took over. ``dismissed``: the run had ended before. The cost may grow with
        the number of open attempts."""

    def on_placed(self, attempt: Attempt) -> None:
        """An attempt was placed. Its site has less room."""

    def on_ready(self, attempt: Attempt) -> None:
        """All inputs of an attempt are at its site; it is being submitted."""

    def on_queued(self, attempt: Attempt) -> None:
        """An attempt is in the queue of its site. Also called after a crash, when the site is found
        to have it."""

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        """An attempt runs."""

    def on_active(self, attempt: Attempt) -> None:
        """After a crash: the site has this attempt."""

    def on_absent(self, attempt: Attempt) -> None:
        """After a crash: the site never started this attempt, which is submitted again. Its
        ``started_s`` is set if it was believed to run."""

    def on_left(self, attempt: Attempt) -> None:
        """An attempt is no longer dispatched, for whatever reason. Its site has more room."""

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        """An attempt ended. `on_left` was called before. The attempt used ``core_s`` core seconds;
        None if unknown. `on_done` or `on_failed` follows, unless the attempt was superseded, wfrun
        cancelled it, or its processors were taken back."""

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt succeeded, and so its task is done."""

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt failed."""

    def on_undelivered(self, attempt: Attempt, outcome: Outcome) -> None:
        """An input did not arrive at a site, and the site is at fault. Called once for the input,
        with the last attempt that waited for it; `on_left` was called before."""

    def on_copy_dropped(self, copy: tuple[int, int, int]) -> None:
        """A copy that waited or was late was dropped, since no attempt waits for the file any more.
        ``copy`` is (workflow, file, destination)."""

    def on_redone(self, w: WorkflowState, task: int) -> None:
        """A task that was done must run again, since a file that it wrote is lost."""

    def on_superseded(self, attempt: Attempt) -> None:
        """Another attempt of the task was done first."""

    def on_withdrawn(self, attempt: Attempt) -> None:
        """An attempt is being withdrawn: its site is asked to cancel it if it has not started."""

    def on_reopened(self, site: int) -> None:
        """A site reports that it works, or a new engine begins. All problems held against the site
        are cleared."""

    def on_load_changed(self, site: int) -> None:
        """Other users' jobs at a site were observed; its ``slots_now`` is up to date."""

    def on_health_changed(self, site: int) -> None:
        """A site became healthy or unhealthy."""

    def on_site_changed(self, site: int) -> None:
        """The room at a site, or its health, has changed."""

    def on_copy_started(self, key: tuple[int, int, int], source: int) -> None:
        """A copy of a file started; ``key`` is its workflow, file and destination."""

    def on_file_removed(self, w: WorkflowState, file: int, site: int) -> None:
        """A file is no longer at a site: it was removed or lost."""

    # Decisions

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        """The sites in ``mask`` that may get this task."""
        return mask

    def limit_walltime(self, w: WorkflowState, task: int, site: int) -> float | None:
        """Walltime in seconds that the batch job of a task requests at a site; None: this part
        knows none. Called when the task is placed."""
        return None

    def choose_size(self, w: WorkflowState, task: int, site: int) -> int:
        """Number of processors of a moldable job at a site; 0: this part chooses none. When the job
        is placed, parts are asked in order until one returns a number."""
        return 0

    def decide(self, decisions: Decisions, possible: bool) -> None:
        """Decide what follows from the latest event.

        ``possible``: whether the event may have made a placement possible. The hook is called if
        so, or if a capability has set ``run.decision_due``. Its cost may grow with the number of
        decisions."""

    def settle(self, decisions: Decisions) -> None:
        """Make the decisions that wait until the run is idle: no copy, and no attempt except
        superseded ones, is open. Called after each event that leaves the run idle, while tasks may
        be placed. The run ends afterwards if nothing can start any more."""

    def on_declined(self, w: WorkflowState, task: int, sites: int) -> None:
        """The policy left this task unplaced although the sites in the mask ``sites`` had room for
        it. The log does not record this."""

    def explain_end(self) -> str | None:
        """Why this capability leaves eligible tasks unplaced although nothing is under way; None if
        it leaves none unplaced."""
        return None

    def expects(self) -> bool:
        """Whether this part may still start work, or expects an event, although no attempt or copy
        is open. If so, the run does not end."""
        return False

    # The log of a run that is taken over

    def before_replay(self, event: ev.Event) -> None:
        """Called before an event of the log is applied."""

    def after_replay(self, event: ev.Event) -> None:
        """Called after an event of the log was applied."""

    def end_replay(self) -> None:
        """Called after the last event of the log."""


class Capability(Part, ABC):
    """Base of the parts that a run has only if it needs them."""

    @classmethod
    @abstractmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """See `Part.is_wanted`. There is no default: a run must not pay for a capability that it
        does not need."""


class Hooks:
    """The hooks of all parts of a run, in registry order. A hook that a part does not override is
    not called for it, so unused hooks cost nothing."""

    __slots__ = ("_by_name", "_ranks", "_ranks_of", "absent", "active", "after_replay",
                 "before_replay", "choose_size", "copy_dropped", "copy_started", "decide",
                 "declined", "done", "eligible", "end_replay", "ended", "events", "expects",
                 "explain_end", "failed", "file_removed", "health_changed", "left",
                 "limit_candidates", "limit_walltime", "load_changed", "placed", "queued", "ready",
                 "redone", "reopened", "resumed", "settle", "site_changed", "started", "superseded",
                 "timers", "undelivered", "withdrawn", "workflow_added")  # fmt: skip

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
        self.copy_dropped: list[Callable[[tuple[int, int, int]], None]] = []
        self.redone: list[Callable[[WorkflowState, int], None]] = []
        self.superseded: list[Callable[[Attempt], None]] = []
        self.withdrawn: list[Callable[[Attempt], None]] = []
        self.reopened: list[Callable[[int], None]] = []
        self.load_changed: list[Callable[[int], None]] = []
        self.health_changed: list[Callable[[int], None]] = []
        self.site_changed: list[Callable[[int], None]] = []
        self.copy_started: list[Callable[[tuple[int, int, int], int], None]] = []
        self.file_removed: list[Callable[[WorkflowState, int, int], None]] = []
        self.limit_candidates: list[Callable[[WorkflowState, int, int, int], int]] = []
        self.limit_walltime: list[Callable[[WorkflowState, int, int], float | None]] = []
        self.choose_size: list[Callable[[WorkflowState, int, int], int]] = []
        self.declined: list[Callable[[WorkflowState, int, int], None]] = []
        self.decide: list[Callable[[Decisions, bool], None]] = []
        self.settle: list[Callable[[Decisions], None]] = []
        self.explain_end: list[Callable[[], str | None]] = []
        self.expects: list[Callable[[], bool]] = []
        self.before_replay: list[Callable[[ev.Event], None]] = []
        self.after_replay: list[Callable[[ev.Event], None]] = []
        self.end_replay: list[Callable[[], None]] = []
        self._by_name = {n: getattr(self, n) for n in self.__slots__ if hasattr(self, n)}
        self._ranks: dict[type[Part], int] = {}
        """The position of each part in the registry."""
        self._ranks_of: dict[str, list[int]] = {name: [] for name in self._by_name}
        """By hook: the registry positions of the parts for which it is called."""
        self.events: dict[type[ev.Event], list[Callable[[Any], None]]] = {}
        self.timers: dict[str, Callable[..., None]] = {}

    def add(self, part: Part) -> None:
        """Add a part, to be called after those added before."""
        self._ranks[type(part)] = len(self._ranks)
        for event, interpret in part.events().items():
            self.events.setdefault(event, []).append(interpret)
        self.timers.update(part.timers())
        self._call(part, EVERY_HOOK - part.dormant)

    def wake(self, part: Part) -> None:
        """Call the dormant hooks of a part from now on."""
        names, part.dormant = part.dormant, frozenset()
        if type(part) in self._ranks:  # Else it is being made, and `add` follows.
            self._call(part, names)

    def _call(self, part: Part, names: frozenset[str]) -> None:
        """Register the hooks of a part that have these method names. Calls stay in registry order,
        whichever part woke first: a limit that leaves out sites only while others remain must see
        the result of the earlier limits."""
        kind = type(part)
        rank = self._ranks[kind]
        for name, calls in self._by_name.items():
            method = _method(name)
            if method in names and getattr(kind, method) is not getattr(Part, method):
                place = bisect(self._ranks_of[name], rank)
                self._ranks_of[name].insert(place, rank)
                calls.insert(place, getattr(part, method))


def _method(hook: str) -> str:
    """The method of `Part` that a list of `Hooks` calls."""
    return hook if hasattr(Part, hook) else f"on_{hook}"


EVERY_HOOK = frozenset(map(_method, Hooks()._by_name))
"""The names of all hooks."""
