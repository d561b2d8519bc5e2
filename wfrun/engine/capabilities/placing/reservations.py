"""Reservations for wide tasks, so that narrow ones do not starve them.

A task that needs many cores would wait for ever if every core that becomes free went to a narrow
task. As in EASY backfilling (D. Lifka, The ANL/IBM SP Scheduling System, JSSPP 1995) the first task
that fits nowhere gets a reservation, and later tasks may overtake it where they do not delay it. No
run times are needed: the attempts at the reserved site end some time, and attempts placed there
after the reservation may hold only the cores that the wide task leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.core.capability import EVERY_HOOK, Part, Run
from wfrun.engine.core.state import Attempt, TaskStatus, WorkflowState
from wfrun.engine.tasks.eligible import TaskClass


class Reservation:
    """The reservation of cores at a site for one task."""

    __slots__ = ("cores", "keys", "queue", "site", "taken_cores", "task", "workflow")

    def __init__(self, w: WorkflowState, task: int, site: int) -> None:
        self.workflow, self.task, self.queue = w.index, task, w.queue
        self.cores = w.workflow.tasks[task].resources.cores
        self.site = site
        self.keys: set[str] = set()
        """Keys of the open attempts that were placed at the site after the reservation was made."""
        self.taken_cores = 0
        """Number of cores of the attempts in ``keys``."""


class Reservations(Part):
    """Reservations for tasks that are wider than the room at any site. There is at most one
    reservation per site, and one per resource manager, since each further one would take room from
    narrow tasks. Reservations are in the log, so that a replay restores them.

    A reservation ends when its task is placed at any site or is no longer eligible. It also ends
    when its site is paused or becomes too small, or when the placement policy leaves a task of the
    workflow unplaced. Cost: constant.
    """

    dormant = EVERY_HOOK

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.at: dict[int, Reservation] = {}
        """Reservations by site."""
        self._by_queue: dict[int, Reservation] = {}

        self._declined: dict[tuple[int, int], int] = {}
        """By (workflow, task), as a mask: sites where the task had a reservation when its policy
        left a task unplaced."""

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.CoresReserved: self._reserved,
            ev.ReservationDeclined: self._reservation_declined,
        }

    def _reserved(self, event: ev.CoresReserved) -> None:
        if self.dormant:
            self.run.hooks.wake(self)
        w = self.state.workflows[event.workflow]
        reservation = Reservation(w, event.task, event.site)
        self.at[event.site] = self._by_queue[w.queue] = reservation

    def _reservation_declined(self, event: ev.ReservationDeclined) -> None:
        key = event.workflow, event.task
        self._declined[key] = self._declined.get(key, 0) | 1 << event.site
        own = self._by_queue.get(self.state.workflows[event.workflow].queue)
        if own is not None and (own.workflow, own.task) == key:
            self._drop(own)

    def declined(self, w: WorkflowState) -> ev.ReservationDeclined | None:
        """The decision to end the reservation of a workflow, because its policy leaves its tasks
        unplaced; None if the workflow has no reservation."""
        own = self._by_queue.get(w.queue)
        if own is None or own.workflow != w.index:
            return None
        return ev.ReservationDeclined(self.state.now_s, w.index, own.task, own.site)

    def _drop(self, reservation: Reservation) -> None:
        del self.at[reservation.site], self._by_queue[reservation.queue]
        self.run.placement_possible = True

    def on_placed(self, attempt: Attempt) -> None:
        if self._declined:
            self._declined.pop((attempt.workflow, attempt.task), None)
        if not self.at:
            return
        w = self.state.workflows[attempt.workflow]
        own = self._by_queue.get(w.queue)
        if own is not None and (own.workflow, own.task) == (w.index, attempt.task):
            self._drop(own)
            return
        reservation = self.at.get(attempt.site)
        if reservation is not None:
            reservation.keys.add(attempt.key)
            reservation.taken_cores += attempt.cores

    def on_left(self, attempt: Attempt) -> None:
        reservation = self.at.get(attempt.site) if self.at else None
        if reservation is not None and attempt.key in reservation.keys:
            reservation.keys.discard(attempt.key)
            reservation.taken_cores -= attempt.cores

    def on_eligible(self, w: WorkflowState) -> None:
        own = self._by_queue.get(w.queue) if self.at else None
        if own is None or own.workflow != w.index:
            return
        is_eligible = w.status[own.task] == TaskStatus.ELIGIBLE
        if not is_eligible or not w.allowed_sites(own.task) >> own.site & 1:
            self._drop(own)

    def on_site_changed(self, site: int) -> None:
        reservation = self.at.get(site) if self.at else None
        if reservation is not None:
            s = self.state.sites[site]
            if not s.is_healthy or s.slots < reservation.cores:
                self._drop(reservation)

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        return self.limit(cores, mask)

    def limit(self, cores: int, mask: int) -> int:
        """The sites of a mask where a task of ``cores`` cores does not delay a wider task with a
        reservation. A reservation restricts only narrower tasks: if a task of the same or a larger
        width has room at a site, the reserved task has room there, too, and the order of the tasks
        decides."""
        for site, reservation in self.at.items():
            if cores < reservation.cores and mask >> site & 1:
                held_cores = reservation.cores + reservation.taken_cores + cores
                if held_cores > self.state.sites[site].capacity:
                    mask &= ~(1 << site)
        return mask

    def wanted(self, w: WorkflowState, task: int, kind: TaskClass, threatened: int) -> int | None:
        """The site at which to reserve cores for a task that fits nowhere now: of the sites that
        are large enough and have no reservation, the one with the most free cores. Called before a
        later, narrower task is placed at one of the sites in the mask ``threatened``. None if this
        placement cannot delay the task, if the resource manager of the task has a reservation
        already, or if jobs are packed: a list schedule starts every job that fits.

        Cost: the number of sites.
        """
        if w.queue in self._by_queue or self.state.settings.pack is not None:
            return None
        sites = self.state.sites
        mask = kind.mask & ~self._declined.get((w.index, task), 0)
        large = [
            index
            for index, site in enumerate(sites)
            if mask >> index & 1
            and site.is_healthy
            and site.slots >= kind.cores
            and index not in self.at
        ]
        if not any(threatened >> index & 1 for index in large):
            return None
        return max(large, key=lambda i: (sites[i].capacity - sites[i].committed_cores, -i))
