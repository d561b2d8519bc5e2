"""``wfrun explain --site``: why a site has idle cores, as records and as text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import msgspec
from rich.console import RenderableType
from rich.text import Text

from wfrun.engine.capabilities.health import retry_timer
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import Phase, RunState
from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.idleness import MAX_WORKFLOWS, Idleness, explain_idleness
from wfrun.engine.explain.obstacles import site_obstacle
from wfrun.engine.explain.visible import command_line, name_line
from wfrun.engine.tasks.eligible import Entry
from wfrun.parsers.read import paused_gc
from wfrun.runners.display.console import Hanging
from wfrun.runners.display.counts import counted
from wfrun.runners.inspect.explain.explain import (
    DecisionRecord,
    ReasonRecord,
    decision_record,
    reason_record,
)
from wfrun.runners.inspect.explain.explain_text import decision_parts, indented, reason_line
from wfrun.runners.inspect.explain.past_decisions import look
from wfrun.runners.inspect.tables.report import outcome_text
from wfrun.runners.run.directory.run_directory import RunDir, await_start, is_driven
from wfrun.runners.run.store.checkpoints import read_core
from wfrun.runners.run.store.event_store import Store


class SiteNextTask(msgspec.Struct, frozen=True):
    """The first eligible task that may run at the site; if there is none, the first eligible
    task."""

    workflow: str
    task: str
    obstacle: ReasonRecord | None
    """Why the site cannot get the task now; None: it can."""
    decision: DecisionRecord
    """The decision that the placement policy would take now."""


class SiteExplanation(msgspec.Struct, frozen=True):
    """What a site does, and why some of its cores are idle."""

    run: str
    state: str
    """State of the run, as in ``wfrun status``."""
    started_s: float
    now_s: float
    site: str
    slots: int
    """Cores on which attempts can run now. At a site with launchers, the cores of live
    launchers."""
    used_cores: int
    running: int
    queued: int
    staging: int
    done: int
    failed: int
    """Number of failed attempts. ``running``, ``queued``, ``staging`` and ``done`` count attempts,
    too."""
    reason: ReasonRecord | None
    """Why the site has idle cores; None: no core is idle, or the run has ended."""
    next_task: SiteNextTask | None
    """The next task for the site, if it can get one. None: no task is eligible, or the run places
    no tasks now."""


def explain_site(run: RunDir, name: str) -> SiteExplanation:
    """Explain a site of a run. Raises InvalidError if the run has no such site, and the errors of
    ``await_start`` and ``Store``."""
    await_start(run)
    driven = is_driven(run)
    with paused_gc(), closing(Store(run.path)) as store:
        core = read_core(store)
    state = core.state
    index = _site_index(state, name)
    site, phases = state.sites[index], state.sites[index].phases
    reason = explain_idleness(state)[index]
    return SiteExplanation(
        run=str(run.path),
        state=outcome_text(state, driven=driven),
        started_s=state.started_s,
        now_s=time.time() if driven else state.now_s,
        site=name,
        slots=site.slots,
        used_cores=sum(a.cores for a in state.attempts.values()
                       if a.site == index and a.phase is Phase.RUNNING),
        running=phases[Phase.RUNNING],
        queued=phases[Phase.QUEUED] + phases[Phase.SUBMITTING],
        staging=phases[Phase.STAGING],
        done=site.done,
        failed=site.failed,
        reason=None if reason is None else _reason(state, index, reason),
        next_task=_next_task(core.run, index),
    )  # fmt: skip


def _site_index(state: RunState, name: str) -> int:
    names = [site.spec.name for site in state.sites]
    if name not in names:
        raise InvalidError(f"the run has no site {name!r}", hint=f"its sites: {', '.join(names)}")
    return names.index(name)


def _reason(state: RunState, index: int, reason: Idleness) -> ReasonRecord:
    until_s = state.timers.get(retry_timer(index)) if reason.kind == "paused" else None
    name = state.sites[index].spec.name
    return ReasonRecord(reason.kind, reason.text, name, reason.since_s, until_s)


def _next_task(run: Run, index: int) -> SiteNextTask | None:
    state = run.state
    found: list[tuple[bool, int, Entry]] = [
        (not kind.mask >> index & 1, w.index, entry)
        for w in state.workflows[:MAX_WORKFLOWS]
        for kind in w.eligible.counts
        if (entry := w.eligible.first_of(kind)) is not None
    ]
    if not found or not state.is_placing or state.ended is not None:
        return None
    _, workflow, (_, _, task, _) = min(found)
    w = state.workflows[workflow]
    obstacle = site_obstacle(run, w, task, index)
    seen = look(run, w, task)
    best = None if seen.scores is None else seen.scores.best
    return SiteNextTask(
        w.workflow.name,
        w.workflow.tasks[task].id,
        None if obstacle is None else reason_record(state, obstacle),
        decision_record(state, seen, None, state.now_s, best),
    )


def site_text(found: SiteExplanation) -> Iterator[RenderableType]:
    """The parts of an explanation, from top to bottom."""
    if found.state == "interrupted":
        command = command_line("wfrun", "resume", found.run)
        yield Text(f"nothing drives the run; to continue: {command}")
    yield Hanging(Text(f"site {name_line(found.site)}: {_used(found)}", style="bold"))
    attempts = [
        f"{number} {what}"
        for number, what in (
            (found.running, "running"), (found.queued, "queued"), (found.staging, "staging"),
            (found.done, "done"), (found.failed, "failed"),
        )
        if number
    ]  # fmt: skip
    yield indented(Text(f"attempts: {', '.join(attempts) or 'none'}"))
    yield indented(Hanging(Text(_why(found))))
    if found.next_task is not None:
        yield Text("")
        yield from _next_parts(found, found.next_task)


def _used(found: SiteExplanation) -> str:
    """Text on the used cores of the site. They may exceed the slots, because launchers that take no
    more tasks have no slots but may still run tasks."""
    if not found.slots and not found.used_cores:
        return "it has no cores now"
    if found.used_cores > found.slots:
        return f"{counted(found.used_cores, 'core')} used"
    return f"{found.used_cores} of {counted(found.slots, 'core')} used"


def _why(found: SiteExplanation) -> str:
    """Why the site has idle cores, or that it has none."""
    if found.reason is not None:
        return f"idle: {reason_line(found, found.reason, with_site=False)}"
    if found.state in ("running", "interrupted"):
        return "no core is idle"
    return f"the run has ended: {found.state}"


def _next_parts(found: SiteExplanation, task: SiteNextTask) -> Iterator[RenderableType]:
    """The site that the next task would get, and why this site does not get the task."""
    title = f"next task: {name_line(task.task)} of {name_line(task.workflow)}"
    yield Hanging(Text(title, style="bold"))
    if task.obstacle is not None and task.obstacle not in task.decision.others:
        yield indented(Hanging(Text(reason_line(found, task.obstacle))))
    yield from decision_parts(found, task.decision)
