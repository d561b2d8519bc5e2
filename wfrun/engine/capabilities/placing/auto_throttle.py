"""The throttle that tunes itself: tasks that no site would start soon stay with the engine."""

from __future__ import annotations

from collections import deque

from wfrun.engine.capabilities.binding import Binding, has_launchers
from wfrun.engine.capabilities.queue_estimates import QueueEstimates
from wfrun.engine.capability import Capability, Decisions, Run
from wfrun.engine.eligible import Entry, TaskClass
from wfrun.engine.events import RunStarted
from wfrun.engine.policies.placement import binds_late, placement_class, throttle_of
from wfrun.engine.state import Attempt, WorkflowState

MAX_PLANNED = 16
"""Maximum number of tasks that are planned at a time. When there are more, the first ones are
dispatched to the queues of their sites."""


class AutoThrottle(Capability):
    """Holds tasks back that no site would start soon, so that a task that becomes eligible later
    can still go before them: the queue of a site is first come, first served, and would lose the
    order of the policy.

    A site starts a task soon while its attempts hold fewer cores than it has slots, plus the cores
    to prefetch there. The width of the task does not count: the first task in order goes to a site
    as soon as one of its cores is free, and narrower ones cannot starve it. Nothing is held back
    from a site where jobs of other users wait: a later task would queue behind them.

    A policy that estimates queues may prefer a busy site, although another one is idle. Then the
    task is planned there, in the model of its queue, until the decision is complete; the tasks
    behind it may use the idle slots. Tasks of other policies are dispatched in this case.

    Cost of a placement and an end: constant.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._binding = self.state.get(Binding)
        self._queues = self.state.find(QueueEstimates)
        self._planned: deque[tuple[WorkflowState, Entry, int]] = deque()
        """Tasks that are planned at a site in the present decision."""
        self.soon = 0
        """The sites that start a task soon, as a mask."""
        for index in range(len(self.state.sites)):
            self._update(index)

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        settings = run.state.settings
        late = binds_late(placement_class(settings.policy))
        return throttle_of(settings) == "auto" and not late

    def on_placed(self, attempt: Attempt) -> None:
        self._update(attempt.site)

    def on_left(self, attempt: Attempt) -> None:
        self._update(attempt.site)

    def on_site_changed(self, site: int) -> None:
        self._update(site)

    def on_load_changed(self, site: int) -> None:
        self._update(site)

    def _update(self, index: int) -> None:
        site, bit = self.state.sites[index], 1 << index
        slots = site.slots_now
        if has_launchers(site.spec):
            has_room = site.committed_cores < site.capacity
        else:
            most = max(1, slots) + self._binding.prefetched_cores(index)
            has_room = site.committed_cores < most or site.foreign_cores > site.slots - slots
        if has_room:
            self.soon |= bit
        else:
            self.soon &= ~bit

    def holds(self, site: int) -> bool:
        """Whether a task that the policy wants to place at this site is to be planned there."""
        return not self.soon >> site & 1 and self._queues is not None

    def plan(self, w: WorkflowState, entry: Entry, site: int, decisions: Decisions) -> None:
        """Plan a task at the end of the queue of a site."""
        assert self._queues is not None
        if len(self._planned) == MAX_PLANNED:
            self._dispatch_first(decisions)
        self._planned.append((w, entry, site))
        w.eligible.remove(entry[2], entry[3])
        self._queues.plan(w, entry[2], site)

    def _dispatch_first(self, decisions: Decisions) -> None:
        """Dispatch the first planned task."""
        assert self._queues is not None
        w, entry, site = self._planned.popleft()
        w.eligible.add(entry)
        self._queues.cancel_first(site)
        decisions.place(w, entry[2], site, entry[3].mask)

    def end_plan(self) -> list[tuple[WorkflowState, TaskClass]]:
        """Make the planned tasks eligible again. Returns their workflows and classes."""
        planned = self._planned
        if not planned:
            return []
        assert self._queues is not None
        self._queues.end_plan()
        waiting = []
        for w, entry, _ in planned:
            w.eligible.add(entry)
            waiting.append((w, entry[3]))
        planned.clear()
        return waiting
