"""The self-tuning throttle: tasks that no site would start soon stay with the engine."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from wfrun.engine.capabilities.binding import Binding
from wfrun.engine.capabilities.estimates.queue_estimates import Completion, QueueEstimates
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.events import RunStarted
from wfrun.engine.files.staging import transfer_s
from wfrun.engine.policies.placement import placement_class, plans_again, throttle_of
from wfrun.engine.tasks.eligible import Entry, TaskClass

MAX_PLANNED = 16
"""Maximum number of tasks that are planned at a time. Beyond it, the first planned tasks are
dispatched to the queues of their sites, as far as these have room."""

MAX_PLANNED_OF_BAGS = 4
"""Maximum number of tasks that are planned at a time in runs whose sites bind late. Further tasks
are placed only at sites that start them soon. Each event may plan the tasks again, and a bag causes
many events."""


class Planned(NamedTuple):
    """A task that waits for a busy site."""

    w: WorkflowState
    entry: Entry
    found: Completion


class AutoThrottle(Capability):
    """Holds tasks back that no site would start soon. Otherwise a task that becomes eligible later
    could not go before them: the queue of a site is first come, first served, and would lose the
    order of the policy.

    A site starts a task soon while its attempts hold fewer cores than it has slots, plus the cores
    to prefetch there. The width of the task does not count: the first task in order goes to a site
    as soon as one core is free there, so that narrower tasks cannot starve it. Nothing is held back
    from a site where jobs of other users wait: a later task would queue behind them.

    A policy that estimates queues may prefer a busy site although another site is idle. The task is
    then *planned*: until the decision is complete it is only in the model of the busy site's queue,
    and later tasks may use the idle slots. With other policies, and in runs with storage limits,
    the task is dispatched to the busy site instead. With storage limits, later tasks might
    otherwise take the storage that it needs.

    Answers of a policy that ``completes_earliest`` are kept as long as the capacity of sites is not
    limited, so that not every decision asks about all tasks that wait for busy sites. All answers
    are dropped when a model is rebuilt, or when the health or the load of a site changes. A single
    answer is checked again when a task that was not planned goes before it to the same site. A site
    that no eligible task chose is not offered again until a further task becomes eligible. Answers
    of other policies are not kept, since they may change as time passes.

    Cost of a placement and an end: constant.
    """

    dormant = frozenset({"limit_candidates"})
    """This hook matters only once the capacity of sites is limited (``RunState.is_bounded``)."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        if self.state.is_bounded:
            run.hooks.wake(self)
        self._prefetched_cores = self.state.get(Binding).prefetched_cores
        self._has_launchers = [site.spec.has_launchers for site in self.state.sites]
        self._queues = self.state.find(QueueEstimates)
        self.plans = self._queues is not None and self.state.find(Storage) is None
        """Whether tasks for busy sites are planned; otherwise they are dispatched to the queues of
        these sites."""
        self._planned: deque[Planned] = deque()
        """Tasks that are planned at a site in the present decision."""
        self._answers: deque[Planned] = deque()
        """Kept answers: tasks that earlier decisions planned, in their order. The present decision
        has not considered these tasks yet."""
        self._stale: set[int] = set()
        """Serial numbers of the tasks in ``_answers`` whose site has got further tasks since they
        were planned."""
        self._asked_again: int | None = None
        """Site that the policy chose earlier for the task about which it is being asked again; None
        if the policy has no earlier answer for the task."""
        self._keeps = getattr(
            placement_class(self.state.settings.policy), "completes_earliest", False
        )
        """Whether the policy declares ``completes_earliest``: its answer for a task stays the same
        while only other sites get further tasks."""
        self.soon = 0
        """The sites that start a task soon, as a mask."""
        self.declined = 0
        """The sites in ``soon`` that no eligible task chose when it was last asked about them, as a
        mask."""
        self._rebuilds = 0
        """Number of rebuilds of the queue models when answers were last forgotten."""
        for index in range(len(self.state.sites)):
            self._update(index)

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return plans_again(run.state.settings)

    @property
    def name(self) -> str:
        """The cause that holds tasks back, as users see it: ``throttle auto``, or the policy if it
        holds tasks back under any throttle."""
        settings = self.state.settings
        if throttle_of(settings) == "auto":
            return "throttle auto"
        return f"policy {settings.policy}"

    def begin(self) -> None:
        """Begin a decision: forget answers that may be out of date."""
        rebuilds = 0 if self._queues is None else self._queues.rebuilds
        # Where capacities are limited, each placement may take a candidate from other tasks. Only
        # the earliest completion does not change with the time.
        if rebuilds != self._rebuilds or self.state.is_bounded or not self._keeps:
            self._rebuilds = rebuilds
            self._forget()

    def _forget(self) -> None:
        """Forget what the policy answered."""
        self.declined = 0
        self._clear_answers()

    def _clear_answers(self) -> None:
        self._answers.clear()
        self._stale.clear()

    def on_eligible(self, w: WorkflowState) -> None:
        self.declined = 0

    def on_health_changed(self, site: int) -> None:
        self._reconsider()

    def _reconsider(self) -> None:
        """Ask the policy again about tasks that wait for a site: the site may have less room by
        now."""
        self._forget()
        self.run.placement_possible = True

    def on_placed(self, attempt: Attempt) -> None:
        self._update(attempt.site)

    def on_left(self, attempt: Attempt) -> None:
        self._update(attempt.site)

    def on_site_changed(self, site: int) -> None:
        self._update(site)

    def on_load_changed(self, site: int) -> None:
        self._update(site)
        self._reconsider()

    def _update(self, index: int) -> None:
        site, bit = self.state.sites[index], 1 << index
        slots = site.slots_now
        if self._has_launchers[index]:
            has_room = site.committed_cores < site.capacity
        else:
            most = (slots if slots > 1 else 1) + self._prefetched_cores[index]
            has_room = site.committed_cores < most or site.foreign_cores > site.slots - slots
        if has_room:
            self.soon |= bit
        else:
            self.soon &= ~bit

    @property
    def placing(self) -> int:
        """Mask of the sites at which a task is placed if the policy chooses one of them. If it
        chooses another site, the task is only planned there."""
        return self.soon if self.plans else -1

    @property
    def has_planned(self) -> bool:
        """Whether the present decision has planned tasks."""
        return bool(self._planned)

    def on_workflow_added(self, w: WorkflowState) -> None:
        if self.state.is_bounded and self.dormant:
            self.run.hooks.wake(self)

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        """Leave out busy sites once `MAX_PLANNED_OF_BAGS` tasks are planned, unless all candidates
        are busy. Otherwise the tasks of a bag would be bound to queues although other sites are
        idle."""
        if len(self._planned) < MAX_PLANNED_OF_BAGS:
            return mask
        return mask & self.soon or mask

    def recall(self, w: WorkflowState, entry: Entry, mask: int) -> Planned | None:
        """The kept answer for the next task in order, if the policy would give it again; None if
        the policy has to be asked. ``mask``: the sites that may get the task."""
        answers, self._asked_again = self._answers, None
        if not answers:
            return None
        first = answers[0]
        if first.entry is not entry:
            # This task may take cores that the later ones were to have.
            if first.w is not w or first.entry < entry:
                self._clear_answers()
            return None
        answers.popleft()
        site, is_stale = first.found.site, entry[1] in self._stale
        if is_stale:
            self._stale.discard(entry[1])
            assert self._queues is not None
            is_stale = not self._queues.completes_before(w, first.found)
        if mask >> site & 1 and not is_stale:
            return first
        self._asked_again = site
        return None

    def answered(self, site: int) -> None:
        """Note the site that the policy has chosen for a task. If the task had no kept answer, kept
        answers with the same site are checked again. If the policy has changed its kept answer for
        the task, all kept answers are forgotten."""
        before, self._asked_again = self._asked_again, None
        if not self._answers:
            return
        if before is None:
            for later in self._answers:
                if later.found.site == site:
                    self._stale.add(later.entry[1])
        elif before != site:
            self._clear_answers()  # The former site has less to do.

    def plan(self, planned: Planned, decisions: Decisions) -> bool:
        """Plan a task at the end of the model of a site's queue. If `MAX_PLANNED` tasks are planned
        already, the first of them is dispatched before. Returns False, without planning the task,
        if the site of that first task has no room for it; the caller then ends the decision."""
        assert self._queues is not None
        if len(self._planned) == MAX_PLANNED and not self._dispatch_first(decisions):
            self.declined = -1
            return False
        w, entry, found = planned
        self._planned.append(planned)
        w.eligible.set_aside(entry)
        from_s = self.state.now_s + found.staging_s
        self._queues.models[found.site].plan(entry[3].cores, found.runtime_s, from_s)
        return True

    def planned(self, w: WorkflowState, entry: Entry, site: int) -> Planned:
        """The record of a task that the policy wants to place at a busy site, to be given to
        `plan`."""
        assert self._queues is not None
        task, found = entry[2], self._queues.latest
        if (found.workflow, found.task, found.site) != (w.index, task, site) or not self._keeps:
            runtime_s = self._queues.expected_s(w, task, site)
            staging_s = transfer_s(self.state, w, task, site)
            found = Completion(w.index, task, site, runtime_s, staging_s, 0.0)
        return Planned(w, entry, found)

    def _dispatch_first(self, decisions: Decisions) -> bool:
        """Dispatch the first planned task. Returns whether its site has room for it."""
        assert self._queues is not None
        first = self._planned[0]
        cores = first.entry[3].cores
        if not self.state.openings_for(cores).open >> first.found.site & 1:
            return False
        self._planned.popleft()
        first.w.eligible.put_back(first.entry)
        self._queues.cancel_first(first.found.site)
        decisions.place(first.w, first.entry[2], first.found.site, first.entry[3].mask)
        return True

    def end_plan(self, *, all_asked: bool) -> list[tuple[WorkflowState, TaskClass]]:
        """End a decision: make the planned tasks eligible again. Returns their workflows and
        classes. ``all_asked``: whether the policies were asked about all eligible tasks that open
        sites could run."""
        self.declined = self.soon if all_asked else 0
        planned = self._planned
        if not planned:
            return []
        assert self._queues is not None
        self._queues.end_plan()
        waiting = {}
        for w, entry, _ in planned:
            w.eligible.put_back(entry)
            waiting[w.index, entry[3]] = w
        self._answers.extendleft(reversed(planned))
        planned.clear()
        return [(w, kind) for (_, kind), w in waiting.items()]
