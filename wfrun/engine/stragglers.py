"""Tasks that run for much longer than others of their class, when no more of their bag waits.

A part of ``wfrun.engine.apply``; see `wfrun.engine.replicas`.
"""

from __future__ import annotations

from wfrun.engine.actions import SetTimer
from wfrun.engine.replicas import Usual
from wfrun.engine.state import RunState, WorkflowState

SOONEST_S = 0.1
"""Between two looks at a bag."""


def _kind(w: WorkflowState, task: int) -> tuple[str, str]:
    return w.workflow.owner, w.workflow.tasks[task].name


def learn(state: RunState, w: WorkflowState, task: int, runtime_s: float) -> None:
    """A task took so long, on the reference processor."""
    assert state.replicas is not None
    kind = _kind(w, task)
    usual = state.replicas.usual.get(kind)
    if usual is None:
        usual = state.replicas.usual[kind] = Usual()
    usual.observe(runtime_s)
    watch(state, w.index)


def watch(state: RunState, workflow: int) -> None:
    """Look at what runs of a bag of which nothing waits, unless a look is planned."""
    w = state.workflows[workflow]
    if state.settings.replication != "stragglers" or w.eligible.count or not w.dispatched:
        return
    if f"straggler:{workflow}" not in state.timers:
        look(state, workflow)


def look(state: RunState, workflow: int) -> None:
    """Note the stragglers of a bag, and look again when the next task may be one."""
    replicas = state.replicas
    assert replicas is not None
    w = state.workflows[workflow]
    settings = state.settings
    next_s: float | None = None
    for key, running in replicas.running.items():
        if key[0] != workflow or key in replicas.straggling or running.replicas >= replicas.most:
            continue
        usual = replicas.usual.get(_kind(w, key[1]))
        usual_s = None if usual is None else usual.quantile_s(settings.straggler_quantile)
        if usual_s is None:
            continue
        for one in running.tries:
            began_s = state.attempts[one.key].started_s
            if began_s is None:
                continue
            speed_ratio = state.sites[one.site].spec.speed_ratio
            due_s = began_s + settings.straggler_factor * usual_s / speed_ratio
            if due_s <= state.now_s:
                replicas.straggling[key] = None
                state.chance = True
                break
            next_s = due_s if next_s is None else min(next_s, due_s)
    if next_s is not None:
        timer = f"straggler:{workflow}"
        state.timers[timer] = max(next_s, state.now_s + SOONEST_S)
        state.outbox.append(SetTimer(timer, state.timers[timer]))
