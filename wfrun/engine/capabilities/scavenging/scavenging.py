"""The owners of a run share processors that no other user's job needs.

Source: thesis chapter 4 (KOALA). Each owner has launchers of one node, or of a few processors, at
each site. The sharing policy of `wfrun.engine.jobs.scavenging.policies` determines their number.
Launchers pull tasks of their owner for their free slots. When a job of another user waits, as many
processors as it requests are given back at once. By default the launchers that pulled last are
ended first, and their tasks run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.scavenging.holding import Holding
from wfrun.engine.capabilities.scavenging.idle_site import IdleSite
from wfrun.engine.capabilities.scavenging.owners import Owners
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.core.actions import StopLaunchers
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import HELD, Attempt, Phase, WorkflowState
from wfrun.engine.exchange import LauncherRequest, claim_of
from wfrun.engine.fitting.names import look_up
from wfrun.engine.jobs.scavenging.policies import PREEMPTION, Partition, all_sites, per_site
from wfrun.engine.model import LauncherSpec
from wfrun.engine.policies.policy_error import answer_error
from wfrun.engine.tasks.eligible import Entry

LATE_S = 60.0
"""Maximum time in seconds that a launcher waits in the queue: on idle processors it should start at
once. A launcher that waits longer is stopped, and then no launcher is requested at its site for
another `LATE_S`."""
LOOK_S = 10.0
"""Maximum time in seconds that a new engine waits for the first observation of a site: a site
without other jobs reports nothing."""

BEGIN_S = 1.0
"""Maximum time in seconds from the start of a run for which the sharing of processors waits until
all workflows are added. Without this wait, launchers of the first owner would be requested and
stopped again at once."""

_LOOK = "scavenging"


class Scavenging(Capability):
    """Shares idle processors among the owners of a run. Each owner has launchers of its own.

    Cost of an event: the owners times the sites; of one about a launcher, also the launchers of its
    site; of a new division, the idle processors times the owners.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        settings = self.state.settings
        self._policy = settings.scavenge
        self._preempted = look_up(PREEMPTION, settings.preempt, "order of preemption")
        self._pools = self.state.get(Launchers).pools
        self._storage = self.state.find(Storage)
        self.owners = Owners(self.state, settings.most_scavengers)
        self.idle = [IdleSite(site.spec) for site in self.state.sites]
        self.held: list[list[Holding]] = []
        """The launchers and attempts of each owner at each site, by owner and site."""
        self.division = ev.ProcessorsShared(0.0, (), (0,) * len(self.idle), (), ())
        """The latest division of the idle processors."""
        self.reclaims = [0] * len(self.idle)
        """By site: number of launchers that were stopped for other users' jobs."""
        self._made: list[int] = []
        """Number of launchers so far, by owner."""
        self._inputs: object = None
        """The values from which the division was computed."""
        self._is_due = False
        self._looks_s = inf

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return begun.settings.scavenge is not None

    def take_over(self, before: Scavenging) -> None:
        self.owners.turns = before.owners.turns
        self.division, self.reclaims, self._made = before.division, before.reclaims, before._made
        missing = [0] * (len(self.idle) - len(self.reclaims))
        self.reclaims = [*self.reclaims, *missing]
        for now, then in zip(self.held, before.held, strict=True):
            for holding, earlier in zip(now, then, strict=False):
                holding.launchers = earlier.launchers
                holding.refresh()

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.ProcessorsShared: self._shared,
            ev.LaunchersAsked: self._asked,
            ev.LauncherStarted: self._launcher_changed,
            ev.LauncherDraining: self._launcher_changed,
            ev.LaunchersStopped: self._stopped,
            ev.LauncherEnded: self._launcher_ended,
            ev.SiteObserved: self._observed,
            ev.SiteLoadObserved: self._load_observed,
        }

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {_LOOK: self._look}

    def claim_of(self, workflow: int) -> str:
        """The key of the claim that the launchers of the owner of a workflow belong to."""
        return f"{self.state.run_id}.C{self.owners.of(workflow) + 1}"

    # Facts

    def on_workflow_added(self, w: WorkflowState) -> None:
        if self.owners.add(w) == len(self.held):
            self.held.append([Holding() for _ in self.idle])
            self._made.append(0)
        self._soon()

    def on_eligible(self, w: WorkflowState) -> None:
        self.owners.changed(w.index)
        self._soon()

    def on_placed(self, attempt: Attempt) -> None:
        holding = self._holding_of(attempt)
        holding.attempts[attempt.key] = attempt
        holding.committed += attempt.cores
        self.owners.changed(attempt.workflow)

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        if not self.owners.all[self.owners.of(attempt.workflow)].cores:
            self._soon()  # Launchers without a task are not needed.

    def on_left(self, attempt: Attempt) -> None:
        holding = self._holding_of(attempt)
        del holding.attempts[attempt.key]
        holding.committed -= attempt.cores
        self.owners.changed(attempt.workflow)
        self._soon()

    def on_health_changed(self, site: int) -> None:
        self._soon()

    def _holding_of(self, attempt: Attempt) -> Holding:
        return self.held[self.owners.of(attempt.workflow)][attempt.site]

    def _shared(self, event: ev.ProcessorsShared) -> None:
        self.division = event

    def _asked(self, event: ev.LaunchersAsked) -> None:
        for request in event.launchers:
            owner = _owner_of(request.key)
            self._made[owner] += 1
            self.held[owner][event.site].launchers[request.key] = self._pools[event.site].launchers[
                request.key
            ]
        self._refresh(event.site)

    def _launcher_changed(self, event: ev.LauncherStarted | ev.LauncherDraining) -> None:
        self._refresh(event.site)

    def _stopped(self, event: ev.LaunchersStopped) -> None:
        if event.cause == "local":
            self.reclaims[event.site] += len(event.keys)
        elif event.cause == "late":
            self.idle[event.site].late_until_s = event.at_s + LATE_S
        self._refresh(event.site)

    def _launcher_ended(self, event: ev.LauncherEnded) -> None:
        self.held[_owner_of(event.key)][event.site].launchers.pop(event.key, None)
        self._refresh(event.site)

    def _refresh(self, site: int) -> None:
        for row in self.held:
            row[site].refresh()
        self._soon()

    def _observed(self, event: ev.SiteObserved) -> None:
        running = sum(job.cores for job in event.background if job.started_s is not None)
        queued = sum(job.cores for job in event.background) - running
        self.idle[event.site].observe(running, queued, event.at_s)
        self._soon()

    def _load_observed(self, event: ev.SiteLoadObserved) -> None:
        self.idle[event.site].observe(event.running_cores, event.queued_cores, event.at_s)
        self._soon()

    def on_resumed(self, dismissed: bool) -> None:
        """Stop again the launchers that the previous engine had stopped, since its stops may not
        have reached the sites. Reset the observations of other users' jobs: a site reports to a new
        engine only numbers that are not zero."""
        for site, idle in enumerate(self.idle):
            idle.observe(0, 0, self.state.now_s)
            idle.is_known, idle.late_until_s = False, -inf
            launchers = [x for row in self.held for x in row[site].launchers.values()]
            keys = tuple(x.request.key for x in launchers if x.stopped)
            if keys and not dismissed:
                self.run.outbox.append(StopLaunchers(site, keys, now=True))
            if dismissed:
                pool = self._pools[site]
                for row in self.held:
                    row[site].launchers = {
                        key: x for key, x in row[site].launchers.items() if key in pool.launchers
                    }
            self._refresh(site)
        self._looks_s = self.state.now_s + LOOK_S
        self.run.set_timer(_LOOK, self._looks_s)

    def _look(self) -> None:
        if self.state.now_s >= self._looks_s:
            self._looks_s = inf
            for idle in self.idle:
                idle.is_known = True
        self._soon()

    def _soon(self) -> None:
        self._is_due = self.run.decision_due = True

    # Decisions

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not self._is_due and not (possible and self._storage is not None):
            return
        self._is_due = False
        now_s = self.state.now_s
        begins_s = self.state.started_s + BEGIN_S
        if len(self.state.workflows) < self.state.expected and now_s < begins_s:
            self.run.set_timer(_LOOK, begins_s)
            return
        for idle in self.idle:
            idle.advance(now_s)
        self.owners.refresh()
        self._stop_late(decisions)
        self._divide(decisions)
        for site in self._pools:
            self._stop_surplus(decisions, site)
        for site in self._pools:
            self._ask(decisions, site)
            self._pull(decisions, site)
        self._take_back(decisions)
        self._look_again()
        self._is_due = False

    def end_replay(self) -> None:
        """Decide nothing: due decisions are found again when the run is resumed."""
        self._is_due = False

    def idle_at(self, site: int) -> int:
        """Number of launchers that owners may have at a site now. While other users' jobs wait, it
        is at most the number that owners hold already: further idle processors may be meant for the
        waiting jobs."""
        state, idle, pool = self.state.sites[site], self.idle[site], self._pools[site]
        if self.state.left >> site & 1 or HELD in state.conditions:
            return 0
        count = idle.launchers(self.state.now_s)
        held = self._held_at(site)
        is_open = state.is_healthy and idle.is_known and pool.paused_until_s <= self.state.now_s
        if idle.queued or not is_open:
            count = min(count, held)
        if idle.late_until_s > self.state.now_s:
            started = sum(not x.is_queued for row in self.held for x in row[site].kept)
            count = min(count, started)
        return count

    def _held_at(self, site: int) -> int:
        return sum(row[site] for row in self.division.held)

    def _divide(self, decisions: Decisions) -> None:
        """Divide the idle processors anew, if the processors, the owners or the needs of the owners
        have changed."""
        idle = tuple(self.idle_at(site) for site in range(len(self.idle)))
        admitted = self.owners.admitted()
        wanted = tuple(self._wanted(owner, sum(idle)) for owner in admitted)
        usable = tuple(self._usable(owner) for owner in admitted)
        inputs = idle, admitted, wanted, usable
        if inputs == self._inputs:
            return
        self._inputs = inputs
        last = self.division
        none = (0,) * len(idle)
        before = Partition(
            tuple(_row(last.held, owner, none) for owner in admitted),
            tuple(_row(last.lost, owner, none) for owner in admitted),
        )
        if self._policy == "all":
            found = all_sites(idle, before, wanted, usable, again=admitted != last.owners)
        else:
            found = per_site(idle, before, wanted, usable)
        count = len(self.held)
        held, lost = [none] * count, [none] * count
        for place, owner in enumerate(admitted):
            held[owner], lost[owner] = found.held[place], found.lost[place]
        new = ev.ProcessorsShared(self.state.now_s, admitted, idle, tuple(held), tuple(lost))
        if (new.owners, new.held, new.lost) != (last.owners, last.held, last.lost):
            decisions.take(new)

    def _usable(self, owner: int) -> int:
        """The sites that an owner has work for, as a mask."""
        waiting, mask = self.owners.sites(owner), 0
        for site, holding in enumerate(self.held[owner]):
            is_open = waiting >> site & 1 and self.state.sites[site].is_healthy
            if is_open or holding.attempts:
                mask |= 1 << site
        return mask

    def _wanted(self, owner: int, most: int) -> int:
        """Number of launchers that an owner has work for, including launchers that run tasks; at
        most ``most``."""
        unit = min(idle.unit for idle in self.idle)
        cores = self.owners.all[owner].cores
        if cores >= most * max(idle.unit for idle in self.idle):
            return most
        busy = free = kept = 0
        for holding in self.held[owner]:
            waiting = holding.waiting()
            cores += sum(attempt.cores for attempt in waiting)
            launchers = holding.kept
            busy += sum(x.busy_cores > 0 for x in launchers)
            free += sum(max(0, x.slots - x.busy_cores) for x in launchers if x.busy_cores)
            if any(attempt.phase is not Phase.STAGING for attempt in waiting):
                kept += len(launchers)  # Which of them has the attempt is not reported yet.
        return min(most, max(kept, busy + ceil(max(0, cores - free) / unit)))

    def _stop_late(self, decisions: Decisions) -> None:
        """Stop launchers that have waited too long in the queue of a site."""
        due_s = self.state.now_s - LATE_S
        for site in self._pools:
            late = tuple(
                x.request.key
                for row in self.held
                for x in row[site].kept
                if x.is_queued and x.asked_s <= due_s
            )
            if late:
                decisions.take(ev.LaunchersStopped(self.state.now_s, site, late, "late", now=True))

    def _stop_surplus(self, decisions: Decisions, site: int) -> None:
        """Stop the launchers that owners hold beyond their shares."""
        kept_here = [row[site].kept for row in self.held]
        exceeds = sum(map(len, kept_here)) > self.division.idle[site]
        for owner, kept in enumerate(kept_here):
            surplus = len(kept) - _at(self.division.held, owner, site)
            if surplus <= 0:
                continue
            chosen = self._chosen(self.held[owner][site].pulled_s(kept), surplus)
            keys = tuple(kept[number].request.key for number in chosen)
            cause: ev.StopCause = "shared" if self.owners.all[owner].cores else "unneeded"
            if exceeds:
                cause = "local"
            # What runs may end where nobody needs the processors.
            now = cause != "unneeded"
            decisions.take(ev.LaunchersStopped(self.state.now_s, site, keys, cause, now=now))

    def _chosen(self, pulled_s: Sequence[float], count: int) -> Sequence[int]:
        """Let the user's order of preemption choose ``count`` launchers to stop. Returns their
        positions in ``pulled_s``. Raises PolicyError unless it chooses ``count`` different
        positions."""
        found = self._preempted(pulled_s, count)
        if len(found) == count == len(set(found) & set(range(len(pulled_s)))):
            return found
        raise answer_error(
            f"the order of preemption {self.state.settings.preempt!r} chose {list(found)!r}",
            self._preempted,
            f"It returns {count} of the positions 0 to {len(pulled_s) - 1}",
        )

    def _ask(self, decisions: Decisions, site: int) -> None:
        """Request the launchers that owners are to hold at a site and do not have yet."""
        state, pool, now_s = self.state.sites[site], self._pools[site], self.state.now_s
        idle = self.idle[site]
        if not state.is_healthy or pool.paused_until_s > now_s or not idle.is_known:
            return
        if idle.queued:
            return
        requests: list[LauncherRequest] = []
        for owner, row in enumerate(self.held):
            missing = _at(self.division.held, owner, site) - len(row[site].kept)
            for number in range(missing):
                key = f"{self.state.run_id}.C{owner + 1}.{self._made[owner] + number + 1}"
                requests.append(_request(key, pool.spec, idle.unit))
        if requests:
            decisions.take(ev.LaunchersAsked(now_s, site, tuple(requests)))

    def _pull(self, decisions: Decisions, site: int) -> None:
        """Place tasks of each owner at a site as long as launchers of the owner have free slots
        there."""
        if not self.state.sites[site].is_healthy:
            return
        for owner, row in enumerate(self.held):
            holding = row[site]
            while (free := min(holding.free, holding.widest)) > 0:
                found = self._next(owner, site, free, decisions)
                if found is None:
                    break
                decisions.place(*found, site, 1 << site)
                self.owners.refresh()

    def _next(
        self, owner: int, site: int, free: int, decisions: Decisions
    ) -> tuple[WorkflowState, int] | None:
        """The next task of an owner that a site may run on ``free`` slots; None if there is none.
        Tasks without room in the storage of the site are made to wait for room."""
        for index in self.owners.in_order(owner):
            w = self.state.workflows[index]
            while True:
                first: Entry | None = None
                for kind in w.eligible.counts:
                    entry = w.eligible.first_of(kind)
                    if entry is None or not kind.mask >> site & 1 or kind.cores > free:
                        continue
                    if not self.run.candidates(w, entry[2], kind.cores) >> site & 1:
                        continue
                    if first is None or entry < first:
                        first = entry
                if first is None:
                    break
                if self._storage is None or self._storage.with_room(w, first[2], 1 << site):
                    return w, first[2]
                decisions.take(self._storage.awaited(w, first[2], 1 << site))
        return None

    def _take_back(self, decisions: Decisions) -> None:
        """Withdraw waiting attempts whose owner has neither a free slot nor a launcher on its way
        at their site."""
        for site in self._pools:
            keys: list[str] = []
            for row in self.held:
                holding = row[site]
                excess = -holding.free - holding.coming_slots
                for attempt in holding.waiting() if excess > 0 else ():
                    is_there = attempt.phase in (Phase.SUBMITTING, Phase.QUEUED)
                    if excess > 0 and is_there and not attempt.withdrawn:
                        keys.append(attempt.key)
                    excess -= attempt.cores
            if keys:
                decisions.take(ev.AttemptsWithdrawn(self.state.now_s, site, tuple(keys)))

    def _look_again(self) -> None:
        """Set the timer for the next time at which a decision may be due without an event."""
        now_s = self.state.now_s
        look_s = self._looks_s
        for site, pool in self._pools.items():
            idle = self.idle[site]
            queued_s = [x.asked_s + LATE_S for row in self.held for x in row[site].kept
                        if x.is_queued]  # fmt: skip
            times = idle.changes_s(now_s), idle.late_until_s, pool.paused_until_s, *queued_s
            look_s = min([look_s, *(at_s for at_s in times if at_s > now_s)])
        if look_s < inf and self.state.timers.get(_LOOK) != look_s:
            self.run.set_timer(_LOOK, look_s)

    # The end

    def expects(self) -> bool:
        """Whether processors that owners wait for may become idle without an event of this run."""
        if not self.state.open_workflows:
            return False
        return any(
            self.state.sites[site].is_healthy
            and (
                bool(pool.launchers)
                or idle.running > 0
                or idle.queued > 0
                or not idle.is_known
                or idle.changes_s(self.state.now_s) < inf
                or self.state.now_s < max(idle.late_until_s, pool.paused_until_s) < inf
            )
            for site, pool in self._pools.items()
            for idle in [self.idle[site]]
        )

    def explain_end(self) -> str | None:
        return "no site has processors for owners who scavenge, and none will become idle"


def _row(table: Sequence[tuple[int, ...]], owner: int, none: tuple[int, ...]) -> tuple[int, ...]:
    """The row of an owner in ``table``. If the owner, or some of the sites, are newer than the
    table, ``none`` supplies the values."""
    row = table[owner] if owner < len(table) else ()
    return row + none[len(row) :]


def _at(table: Sequence[tuple[int, ...]], owner: int, site: int) -> int:
    return table[owner][site] if owner < len(table) and site < len(table[owner]) else 0


def _owner_of(launcher: str) -> int:
    """Number of the owner of the launcher with this key."""
    return int(claim_of(launcher).rpartition("C")[2]) - 1


def _request(key: str, spec: LauncherSpec, unit: int) -> LauncherRequest:
    return LauncherRequest(
        key=key, nodes=1, cores=unit, memory_bytes=spec.memory_bytes, gpus=spec.gpus,
        walltime_s=spec.walltime_s,
    )  # fmt: skip
