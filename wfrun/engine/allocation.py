"""How many launchers, how large, for how long and at which site: late binding.

Tasks are placed at a site with launchers only while these have room, so that the site whose queue
moves first does the work. More launchers are asked for while eligible tasks wait for room, at every
site that could take them, unless what lives will be through with the work before a new one would
have started, as the last waits in that queue say. What no work waits for is ended after a while.
What a site holds in advance goes back when another site idles. Work that the policy keeps from a
site which has room is none that launchers are asked for there.
"""

from __future__ import annotations

from math import ceil, inf

from wfrun.engine import events as ev
from wfrun.engine.actions import SetTimer
from wfrun.engine.apply import apply
from wfrun.engine.pool import Launcher, LauncherPhase, Pool
from wfrun.engine.records import LauncherRequest
from wfrun.engine.state import Attempt, Phase, RunState, SiteState, WorkflowState

SHORTEST_S = 300.0
"""Of a launcher's walltime: what starts it and ends it should be little beside it."""

WORTH = 4
"""What waits for a slot is taken back for an idle site if it would wait for so many times as long
as that takes."""


class Allocation:
    """Decides for one run; remembers since when no work has waited."""

    def __init__(self) -> None:
        self._unneeded_s: dict[int, float] = {}
        """By site: since when nothing waits for more launchers than live."""
        self._declined: dict[int, int] = {}
        """By workflow: sites that had room and that its policy kept a task from, as a mask."""

    def decline(self, workflow: int, sites: int) -> None:
        """The policy has left a task unplaced that these sites could have got."""
        self._declined[workflow] = self._declined.get(workflow, 0) | sites

    def decide(self, state: RunState) -> list[ev.Event]:
        """What follows for launchers from the state; the events are applied."""
        state.allocation_due = False
        decided: list[ev.Event] = []
        work = {index: self._waiting_cores(state, index) for index in state.pools}
        for index in state.pools:
            event = self._decide_site(state, index, work)
            if event is not None:
                apply(state, event)
                decided.append(event)
        if not any(w.eligible.count for w in state.workflows):
            for event in _withdrawals(state):
                apply(state, event)
                decided.append(event)
        state.allocation_due = False
        return decided

    def _decide_site(self, state: RunState, index: int, work: dict[int, int]) -> ev.Event | None:
        """``work``: the cores that wait for each site with launchers."""
        pool = _pool_of(state.sites[index])
        missing = work[index] - max(0, pool.live_slots + pool.closed_cores - pool.busy_cores)
        if work[index] > 0 and missing <= 0:
            missing += _slots_without_time(pool, state.now_s)
        if missing > 0 or len(pool.launchers) < pool.spec.min:
            self._unneeded_s.pop(index, None)
            return _ask(state, index, missing, work)
        since_s = self._unneeded_s.setdefault(index, state.now_s)
        return _stop(state, index, pool, since_s, idle=work[index] == 0)

    def _waiting_cores(self, state: RunState, index: int) -> int:
        """That eligible tasks which this site could take ask for, as far as policy and throttle
        let them start, and attempts that are there and have not started."""
        site = state.sites[index]
        assert site.pool is not None
        cores = site.committed_cores - site.pool.busy_cores
        throttle = state.settings.throttle
        for w in state.workflows:
            wanted = w.eligible.cores_for(1 << index)
            if not wanted or self._is_kept_from(state, w, index):
                continue
            if throttle is not None:
                allowed = max(0, throttle - w.dispatched)
                if allowed < w.eligible.count:
                    wanted = ceil(wanted * allowed / w.eligible.count)
            cores += wanted
        return cores

    def _is_kept_from(self, state: RunState, w: WorkflowState, index: int) -> bool:
        """Whether the policy wants the workflow to run elsewhere: as long as it can."""
        declined = self._declined.get(w.index, 0)
        if not declined >> index & 1:
            return False
        return any(
            site.is_well and not declined >> other & 1 for other, site in enumerate(state.sites)
        )


def _slots_without_time(pool: Pool, now_s: float) -> int:
    """That are free, and whose launchers end before another task would."""
    task_s = pool.task_s
    if task_s is None:
        return 0
    return sum(
        launcher.slots - launcher.busy_cores
        for launcher in pool.launchers.values()
        if launcher.phase is LauncherPhase.LIVE
        and launcher.ends_s is not None
        and launcher.ends_s - now_s < task_s
    )


def _ask(state: RunState, index: int, missing: int, work: dict[int, int]) -> ev.Event | None:
    """For as many launchers as there is work for, within what the catalog allows."""
    site = state.sites[index]
    pool = _pool_of(site)
    spec = pool.spec
    if pool.paused_until_s > state.now_s:
        _wake(state, index, pool.paused_until_s)
        return None
    if not site.is_well:
        return None
    most = min(spec.backlog - pool.queued, spec.max - len(pool.launchers))
    wanted = spec.min - len(pool.launchers)
    if most <= 0 or (missing <= pool.coming_slots and wanted <= 0):
        return None
    size = spec.cores * spec.nodes
    count = ceil((missing - pool.coming_slots) / size)
    if _will_be_done(state, index, work):
        count = 0
    count = min(most, max(count, wanted))
    if count <= 0:
        return None
    slots = size * (len(pool.launchers) + count)
    walltime_s = _walltime_s(state, site, pool, work[index], slots)
    requests = tuple(
        LauncherRequest(
            key=f"{state.run_id}.L{index}.{pool.made + number}",
            nodes=spec.nodes,
            cores=spec.cores,
            memory_bytes=spec.memory_bytes,
            gpus=spec.gpus,
            walltime_s=walltime_s,
        )
        for number in range(1, count + 1)
    )
    return ev.LaunchersAsked(state.now_s, index, requests)


def _will_be_done(state: RunState, index: int, work: dict[int, int]) -> bool:
    """Whether the slots that live anywhere, but where none of it or not all of it may go, will be
    through with the work before a launcher that is asked for now would have started."""
    wait_s = _pool_of(state.sites[index]).waits.predict()
    lengths_s = [p.task_s for p in map(_pool_of, _pools(state)) if p.task_s is not None]
    for_all = ~0
    for w in state.workflows:
        for mask, cores in w.eligible.cores.items():
            if cores and mask >> index & 1:
                for_all &= mask
    helpers = [i for i, cores in work.items() if cores and for_all >> i & 1]
    slots = sum(_pool_of(state.sites[i]).live_slots for i in helpers)
    if wait_s is None or not lengths_s or not slots:
        return False
    return work[index] * max(lengths_s) / slots < wait_s


def _pools(state: RunState) -> list[SiteState]:
    return [state.sites[index] for index in state.pools]


def _pool_of(site: SiteState) -> Pool:
    assert site.pool is not None
    return site.pool


def _walltime_s(state: RunState, site: SiteState, pool: Pool, work: int, slots: int) -> float:
    """Twice of what the work takes and of the longest task: short jobs start sooner. All that the
    catalog allows, where lengths are not known."""
    longest_s = state.lengths.longest_s
    if pool.task_s is None or longest_s is None:
        return pool.spec.walltime_s
    waiting = sum(w.waiting_tasks for w in state.workflows)
    longest_s /= site.spec.speed_ratio
    wanted_s = 2 * ((work + waiting) * pool.task_s / slots + longest_s)
    return min(pool.spec.walltime_s, max(SHORTEST_S, wanted_s))


def _stop(
    state: RunState, index: int, pool: Pool, since_s: float, *, idle: bool
) -> ev.Event | None:
    """Those that wait in the queue, and those that live and have had nothing to do for a while,
    but for as many as are always wanted."""
    timeout_s = pool.spec.idle_timeout_s
    there = [(key, x) for key, x in reversed(pool.launchers.items()) if not x.stopped]
    spare = len(there) - pool.spec.min
    keys: list[str] = []
    next_s = inf
    for key, launcher in sorted(there, key=lambda item: not item[1].is_queued):
        due_s = _useless_since_s(launcher, since_s, idle=idle) + timeout_s
        if due_s > state.now_s:
            next_s = min(next_s, due_s)
        elif len(keys) < spare:
            keys.append(key)
    if next_s < inf:
        _wake(state, index, next_s)
    return ev.LaunchersStopped(state.now_s, index, tuple(keys)) if keys else None


def _useless_since_s(launcher: Launcher, since_s: float, *, idle: bool) -> float:
    """Infinite: it is of use."""
    if launcher.is_queued:
        return since_s
    if launcher.phase is LauncherPhase.LIVE and launcher.idle_since_s is not None and idle:
        return launcher.idle_since_s
    return inf


def _wake(state: RunState, index: int, at_s: float) -> None:
    """Decide again then."""
    timer = f"launchers:{index}"
    if at_s < inf and (timer not in state.timers or at_s < state.timers[timer]):
        state.timers[timer] = at_s
        state.outbox.append(SetTimer(timer, at_s))


# What is taken back


def _withdrawals(state: RunState) -> list[ev.Event]:
    """Attempts that wait at one site while another has idle slots for them."""
    idle = {i: free for i, site in enumerate(state.sites) if (free := _idle_cores(state, i, site))}
    events: list[ev.Event] = []
    for index, site in enumerate(state.sites):
        others = {i: free for i, free in idle.items() if i != index}
        busy_cores = 0 if site.pool is None else site.pool.busy_cores
        surplus = site.committed_cores - max(site.slots_now, busy_cores)
        if surplus <= 0 or not others or not _is_worth_it(state, site):
            continue
        keys = _waiting_attempts(state, index, others, surplus)
        if keys:
            events.append(ev.AttemptsWithdrawn(state.now_s, index, tuple(keys)))
    return events


def _idle_cores(state: RunState, index: int, site: SiteState) -> int:
    if not state.open_sites >> index & 1:
        return 0
    return max(0, site.slots_now - site.committed_cores)


def _is_worth_it(state: RunState, site: SiteState) -> bool:
    """Whether what waits there would wait for long; a site without launchers is judged by what
    those of others have seen."""
    if not (site.slots_now if site.pool is None else site.pool.live_slots):
        return True
    pools = [_pool_of(other) for other in _pools(state)] if site.pool is None else [site.pool]
    return any(
        pool.task_s is not None and pool.task_s > WORTH * (pool.latency_s + pool.staging_s)
        for pool in pools
    )


def _waiting_attempts(
    state: RunState, index: int, others: dict[int, int], surplus: int
) -> list[str]:
    """The last ones that were placed, as many as others have cores for."""
    keys = []
    mask = sum(1 << i for i in others)
    room = min(surplus, sum(others.values()))
    for attempt in reversed(state.attempts.values()):
        if room <= 0:
            break
        if attempt.site != index or not _is_waiting(attempt):
            continue
        w = state.workflows[attempt.workflow]
        cores = w.asked(attempt.task).cores
        if cores <= room and w.choice(attempt.task) & mask:
            keys.append(attempt.key)
            room -= cores
    return keys


def _is_waiting(attempt: Attempt) -> bool:
    return attempt.phase in (Phase.SUBMITTING, Phase.QUEUED) and not attempt.withdrawn
