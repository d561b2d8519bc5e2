"""A change of the options and sites of a run. Part of the interpreter of the log.

The change replaces the settings and the descriptions of sites. It then replaces all parts, since
parts depend on both. The hooks of the new parts are called for the workflows and the open attempts
as if these had just been added and placed. `Part.take_over` keeps observations of the former parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from wfrun.engine import events as ev
from wfrun.engine.core.capability import Part, Run
from wfrun.engine.core.state import (
    HELD,
    SUPERSEDED,
    Attempt,
    Condition,
    Phase,
    SiteState,
    WorkflowState,
)
from wfrun.engine.fitting.fit import classify, fits
from wfrun.engine.model import ORIGIN
from wfrun.engine.tasks.attempts import undispatch
from wfrun.engine.tasks.status import enter_eligible

_LEFT = "catalog"
"""The name of the condition of sites that are no longer in the catalog."""


def change_sites(run: Run, event: ev.RunChanged) -> None:
    """Give the sites their new descriptions, and add new sites to the run and to all resource
    managers. Close the sites that left the catalog. Give up the attempts that wait for inputs at
    sites that are closed now or no longer fit the attempts."""
    state = run.state
    before = state.network.bit(ORIGIN)
    for site, spec in zip(state.sites, event.sites, strict=False):
        others = 0 if site.spec.has_launchers else site.slots - site.slots_now
        site.spec, site.slots, site.slots_now = spec, spec.slots, spec.slots - others
    state.sites += [SiteState(spec) for spec in event.sites[len(state.sites) :]]
    state.left = sum(1 << index for index in event.left)
    for index, site in enumerate(state.sites):
        _reset(site, has_left=bool(state.left >> index & 1))
    for attempt in [a for a in state.attempts.values() if a.phase is Phase.STAGING]:
        asked = state.workflows[attempt.workflow].asked(attempt.task)
        if state.left >> attempt.site & 1 or not fits(asked, state.sites[attempt.site].spec):
            undispatch(run, attempt)
    state.fitting.clear()
    state.is_bounded = False
    after = 1 << len(state.sites)
    state.queues = [mask | after - before for mask in state.queues]
    for w in state.workflows:
        w.present = [p & ~before | after if p & before else p for p in w.present]


def _reset(site: SiteState, *, has_left: bool) -> None:
    """Reset what parts have set for a site: its capacity, and its conditions except a pause by the
    user."""
    site.capacity, site.holds_prefetch = inf, False
    held = site.conditions.get(HELD)
    site.conditions.clear()
    if held is not None:
        site.conditions[HELD] = held
    if has_left:
        reason = "it is no longer in the catalog, and gets no more tasks"
        site.conditions[_LEFT] = Condition(reason, closes=True)
    site.is_healthy = site.reported is None and not site.conditions


def introduce(run: Run, before: Mapping[type, object]) -> None:
    """Call the hooks of the new parts for all workflows and open attempts, then let the new parts
    take over observations of the former parts. Withdraw attempts that wait at sites that left the
    catalog. Cancel timers that no part handles any more."""
    state = run.state
    state.openings.clear()
    for w in state.workflows:
        w.class_masks, w.task_classes = [], []
        classify(state, w, required=False)
        w.order = w.runtimes_s = None
        for call in run.hooks.workflow_added:
            call(w)
        _renew_eligible(run, w)
    attempts = list(state.attempts.values())
    for attempt in attempts:
        _introduce(run, attempt)
    for kind, part in state.parts.items():
        if kind in before:
            assert isinstance(part, Part)
            part.take_over(before[kind])
    for index in range(len(state.sites)):
        if state.left >> index & 1:
            waiting = (Phase.SUBMITTING, Phase.QUEUED)
            run.withdraw(index, [a for a in attempts if a.site == index and a.phase in waiting])
    kinds = run.hooks.timers.keys() | {"retry", "copy", "paused", SUPERSEDED}
    state.timers = {t: at_s for t, at_s in state.timers.items() if t.split(":")[0] in kinds}


def _renew_eligible(run: Run, w: WorkflowState) -> None:
    keys = float(-w.workflow.priority) if w.order is None else w.order
    if w.task_classes:
        w.eligible.renew_fresh(w.task_classes[0], keys)
    enter_eligible(w)
    for call in run.hooks.eligible:
        call(w)


def _introduce(run: Run, attempt: Attempt) -> None:
    """Call the hooks for what has happened to an open attempt so far."""
    hooks, phase = run.hooks, attempt.phase
    for placed in hooks.placed:
        placed(attempt)
    for ready in hooks.ready if phase is not Phase.STAGING else ():
        ready(attempt)
    for queued in hooks.queued if phase in (Phase.QUEUED, Phase.RUNNING) else ():
        queued(attempt)
    if phase is Phase.RUNNING:
        at_s = run.state.now_s if attempt.started_s is None else attempt.started_s
        event = ev.AttemptStarted(at_s, attempt.key, attempt.launcher, attempt.host)
        for started in hooks.started:
            started(attempt, event)
    for withdrawn in hooks.withdrawn if attempt.withdrawn else ():
        withdrawn(attempt)
    for superseded in hooks.superseded if attempt.superseded else ():
        superseded(attempt)
