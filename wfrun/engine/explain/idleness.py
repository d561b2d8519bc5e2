"""Explanation of the free cores of a site, from the state of the run alone.

The live display, the progress lines without a terminal, and ``wfrun status`` show the explanation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.capabilities.launchers.pool import LauncherPhase, LauncherPool
from wfrun.engine.capabilities.placing.auto_throttle import AutoThrottle
from wfrun.engine.capabilities.scavenging.scavenging import Scavenging
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.capabilities.withdrawals import Withdrawals
from wfrun.engine.core.state import Phase, RunState, SiteState, TaskStatus
from wfrun.engine.explain.shares import share_bound
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.model import ORIGIN

Kind = Literal[
    "paused", "limit", "launchers", "staging", "submission", "queue", "stopping", "throttle",
    "room", "policy", "misfit", "retry", "predecessors", "storage", "done",
]  # fmt: skip

MAX_WORKFLOWS = 2000
"""Maximum number of workflows whose eligible tasks are examined; the cost of an explanation is
proportional to it."""
MIN_FACTOR = 1.05
"""Minimum ratio of the speeds of two sites at which an explanation mentions the ratio."""


class Idleness(NamedTuple):
    """The reason why a site has free cores."""

    kind: Kind
    text: str
    """Reason as text for the user, without the name of the site."""
    since_s: float | None = None
    """Time in seconds at which the wait began; None: unknown."""


class _Waiting(NamedTuple):
    """Eligible tasks of one class of a workflow."""

    sites: int
    """Sites that may run the tasks, as a bit mask."""
    cores: int
    tasks: int
    is_throttled: bool


def explain_idleness(state: RunState) -> list[Idleness | None]:
    """Return for each site the reason why it has free cores, or None if all its cores are in use.
    After the end of the run only paused sites have a reason. Cost: the open attempts, and the
    number of sites times the number of examined workflows."""
    if state.ended is not None:
        return [_pause(site) for site in state.sites]
    used = [0] * len(state.sites)
    submitting_s: dict[int, float] = {}
    for attempt in state.attempts.values():
        if attempt.phase is Phase.RUNNING:
            used[attempt.site] += attempt.cores
        elif attempt.phase is Phase.SUBMITTING and attempt.ready_s is not None:
            before_s = submitting_s.get(attempt.site, attempt.ready_s)
            submitting_s[attempt.site] = min(before_s, attempt.ready_s)
    waiting = list(_waiting(state))
    return [
        _explain(state, index, used[index], submitting_s.get(index), waiting)
        for index in range(len(state.sites))
    ]


def _waiting(state: RunState) -> Iterator[_Waiting]:
    throttle = state.throttle
    for w in state.workflows[:MAX_WORKFLOWS]:
        is_throttled = throttle is not None and w.dispatched >= throttle
        for kind, count in w.eligible.counts.items():
            yield _Waiting(kind.mask & state.queue_sites(w), kind.cores, count, is_throttled)


def _explain(
    state: RunState, index: int, used: int, submitting_s: float | None, waiting: list[_Waiting]
) -> Idleness | None:
    site = state.sites[index]
    pool = pool_at(state, index)
    if not site.is_healthy:
        return _pause(site)
    if used >= (site.spec.slots if pool is None else max(1, pool.live_slots)):
        return None
    if site.job_limit is not None:
        return _at_limit(state, index, pool, site.job_limit)
    if state.find(Scavenging) is not None and any(x.sites >> index & 1 for x in waiting):
        bound = share_bound(state, index)
        if bound:
            return Idleness("launchers", bound)
    if pool is not None and not pool.live_slots:
        reason = explain_launchers(site, pool)
        if reason is not None and (
            site.committed_cores
            or any(x.sites >> index & 1 and not x.is_throttled for x in waiting)
        ):
            return reason
    if site.committed_cores < site.slots and (full := _full(state, index)) is not None:
        return full
    if site.phases[Phase.STAGING]:
        return _staging(state, index)
    if site.phases[Phase.QUEUED] or site.phases[Phase.SUBMITTING]:
        return _queued(site, pool, submitting_s)
    return _pause(site) or _without_work(state, index, waiting)


def _pause(site: SiteState) -> Idleness | None:
    """Return the pause reason of a site, with what the user has to do, or None if the site has
    none."""
    return Idleness("paused", site.pause_text) if site.pause_text else None


def _full(state: RunState, index: int) -> Idleness | None:
    """Return the reason that tasks wait for room in the storage of a site, or None if no task waits
    for it."""
    storage = state.find(Storage)
    count = 0 if storage is None else storage.waiting_tasks(index)
    if storage is None or not count:
        return None
    wait = f"{_tasks(count)} wait{'s' * (count == 1)} for"
    if storage.is_learning(index):
        text = f"{wait} the sizes of outputs, which the first task of a kind to end shows"
        return Idleness("storage", text)
    return Idleness("storage", f"storage full, {wait} room: {storage.describe(index)}")


def _at_limit(state: RunState, index: int, pool: LauncherPool | None, limit: int) -> Idleness:
    waiting = state.sites[index].phases[Phase.SUBMITTING] if pool is None else pool.queued
    what = "" if pool is None else " launchers"
    text = f"job limit reached ({limit}){state.sites[index].wait_text(limit)}"
    return Idleness("limit", f"{text}, {waiting}{what} waiting for room")


def _queued(site: SiteState, pool: LauncherPool | None, submitting_s: float | None) -> Idleness:
    """The reason that tasks are in the queue of a site, or are being submitted to it."""
    queued, submitting = site.phases[Phase.QUEUED], site.phases[Phase.SUBMITTING]
    cores = site.foreign_cores
    others = f", other users hold or want {cores} cores" if cores else ""
    # The jobs of launchers are no tasks.
    why = site.wait_text(queued) if pool is None else ""
    there = f"{_tasks(queued)} in its queue{others}{why}"
    if not submitting:
        return Idleness("queue", there)
    text = f"{_tasks(submitting)} being submitted"
    return Idleness("submission", f"{there}, {text}" if queued else text, submitting_s)


def explain_launchers(site: SiteState, pool: LauncherPool) -> Idleness | None:
    """The reason why no launcher of a site takes tasks."""
    if pool.reason is not None:
        return Idleness("launchers", _first_line(pool.reason))
    coming = [x for x in pool.launchers.values() if x.is_coming]
    if not coming:
        return Idleness("launchers", "no launcher is requested yet")
    since_s = min(x.asked_s for x in coming)
    if all(x.phase is LauncherPhase.AWAY for x in coming):
        return Idleness("launchers", "its launchers have not reconnected yet", since_s)
    count = "launcher" if len(coming) == 1 else f"{len(coming)} launchers"
    queued = sum(x.phase is LauncherPhase.QUEUED for x in coming)
    where = "in its queue" if queued == len(coming) else "starting"
    return Idleness("launchers", f"{count} {where}{site.wait_text(queued)}", since_s)


def _staging(state: RunState, index: int) -> Idleness:
    """The reason that inputs of tasks are on their way to a site."""
    size, sources, files = 0, set[int](), 0
    for (workflow, file, destination), copy in state.copies.items():
        if destination == index:
            files += 1
            size += max(0, state.workflows[workflow].sizes[file])
            sources.add(copy.source)
    names = ["here" if s == ORIGIN else state.sites[s].spec.name for s in sorted(sources)]
    count = state.sites[index].phases[Phase.STAGING]
    what = f"{files} file{'s' * (files != 1)}, {size / 1e6:.1f} MB from {', '.join(names)}"
    return Idleness("staging", f"inputs of {_tasks(count)} on their way: {what}")


def _without_work(state: RunState, index: int, waiting: list[_Waiting]) -> Idleness:
    """The reason why a site that could take tasks has none."""
    if not state.is_placing:
        return Idleness("stopping", "the run starts no further task")
    withdrawals = state.find(Withdrawals)
    if withdrawals is not None and withdrawals.stalls(index):
        return Idleness("queue", "its queue started nothing, and its tasks were taken back")
    here = [x for x in waiting if x.sites >> index & 1]
    if here and state.find(Scavenging) is not None:
        return Idleness("room", "the launchers of the owners whose tasks wait are busy")
    if here:
        return _left_out(state, index, here)
    if waiting:
        count = sum(x.tasks for x in waiting)
        return Idleness("misfit", f"none of the {_tasks(count)} that wait may run there")
    queues = [s.phases[Phase.QUEUED] + s.phases[Phase.SUBMITTING] for s in state.sites]
    longest = max(range(len(queues)), key=queues.__getitem__)
    delayed, unready = state.counts[TaskStatus.DELAYED], state.counts[TaskStatus.WAITING]
    # A few tasks that wait elsewhere are no reason where many more cannot start anywhere.
    if queues[longest] and sum(queues) >= min(unready, state.sites[index].slots):
        name = state.sites[longest].spec.name
        return _not_chosen(state, index, f": {_tasks(queues[longest])} in the queue of {name}")
    if delayed:
        return Idleness("retry", f"{_tasks(delayed)} waiting to retry")
    if unready:
        return Idleness("predecessors", f"{_tasks(unready)} waiting for predecessors")
    return Idleness("done", "no task is left for it")


def _left_out(state: RunState, index: int, here: list[_Waiting]) -> Idleness:
    """The reason why none of the eligible tasks ``here`` is placed at a site that may run them."""
    count = sum(x.tasks for x in here)
    free = [x for x in here if not x.is_throttled]
    if not free:
        text = f"throttle ({state.throttle}) reached, {_tasks(count)} held back"
        return Idleness("throttle", text)
    auto = state.find(AutoThrottle)
    if auto is not None and not state.is_bounded:
        return _held_back(state, index, auto, count)
    room = state.sites[index].slots_now - state.sites[index].committed_cores
    narrowest = min(x.cores for x in free)
    if narrowest > room:
        verb = "is" if room == 1 else "are"
        text = f"the next task needs {narrowest} cores, {max(0, room)} {verb} free"
        return Idleness("room", text)
    return _not_chosen(state, index, f", {_tasks(count)} waiting")


def _held_back(state: RunState, index: int, auto: AutoThrottle, count: int) -> Idleness:
    """The reason that the throttle ``auto`` holds all eligible tasks back: the policy expects them
    to end sooner at busy sites, or other users hold the free cores."""
    held = f"{auto.name} holds {_tasks(count)} back"
    if auto.soon >> index & 1:
        text = _refusal(state, index) + _slower(state, index)
        return Idleness("policy", f"{text}; {held} for other sites")
    site = state.sites[index]
    cores = site.slots - site.slots_now
    others = f"other users hold {cores} core{'s' * (cores != 1)}, " if cores > 0 else ""
    return Idleness("throttle", f"{others}{held} until it could start them soon")


def _not_chosen(state: RunState, index: int, what: str) -> Idleness:
    """Return the reason that the policy prefers other sites: the lower speed of this site if the
    policy knows speeds, otherwise the text ``what``."""
    why = _slower(state, index) or what
    return Idleness("policy", _refusal(state, index) + why)


def _refusal(state: RunState, index: int) -> str:
    none = "no more" if state.sites[index].committed_cores else "none"
    sizing = state.settings.sizing  # it chooses the sites with the sizes
    chooser = f"size {sizing}" if sizing else f"policy {state.settings.policy}"
    return f"{chooser} gave it {none}"


def _slower(state: RunState, index: int) -> str:
    """The factor by which a site is slower than the fastest site with work, as text. Empty if the
    policy does not know speeds, or if the factor is below `MIN_FACTOR`."""
    if state.information.processing_speed is Knowledge.UNKNOWN:
        return ""
    speeds = [s.spec.speed_ratio for s in state.sites if s.committed_cores]
    factor = max(speeds, default=0.0) / state.sites[index].spec.speed_ratio
    return f": slower by {factor:.1f}" if factor >= MIN_FACTOR else ""


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
