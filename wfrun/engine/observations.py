"""What is learnt from attempts that were done: how long tasks take, how fast sites are.

A part of ``wfrun.engine.apply``.
"""

from __future__ import annotations

from wfrun.engine import late, stragglers
from wfrun.engine.records import Outcome
from wfrun.engine.state import Attempt, RunState, WorkflowState
from wfrun.engine.view import job_class

NEWEST = 0.2
"""What the latest task says of a site's performance counts so much."""


def observe(state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
    """How long it took, for those who want to know."""
    if not state.bounded or outcome.started_s is None or outcome.ended_s is None:
        return
    site = state.sites[attempt.site]
    elapsed_s = max(0.0, outcome.ended_s - outcome.started_s)
    speed_ratio = site.spec.speed_ratio
    if site.pool is not None:
        kind = w.index, w.workflow.tasks[attempt.task].name
        state.lengths.observe(kind, elapsed_s, speed_ratio)
    else:
        late.learn(site, elapsed_s)
    if state.predicts:
        kind_of_job = job_class(w, attempt.task)
        state.run_times.observe(kind_of_job, site.spec.name, elapsed_s, speed_ratio)
    if w.runtimes_s is not None and elapsed_s > 0:
        latest = w.runtimes_s[attempt.task] / elapsed_s
        known = site.performance
        site.performance = latest if known is None else known + NEWEST * (latest - known)
    if state.replicas is not None and state.settings.replication == "stragglers":
        stragglers.learn(state, w, attempt.task, elapsed_s * speed_ratio)
