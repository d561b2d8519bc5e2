"""Workflows of a run as WfFormat."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.core.state import WorkflowState
from wfrun.engine.explain.visible import command_line
from wfrun.parsers.workflows.writers.write_execution import (
    Execution,
    TaskExecution,
    write_execution,
)
from wfrun.runners.inspect.export.attempts import AttemptRecord, RunAttempts


def export_wfformat(read: RunAttempts, w: WorkflowState, path: Path) -> list[str]:
    """Write a workflow of a run, with the measured run times and resource use of its tasks. Returns
    the facts for which the format has no place. Raises InvalidError if ``path`` cannot be
    written."""
    losses = write_execution(w.workflow, execution_of(read, w), path)
    used = {attempt.site for attempt in read.successes(w.index).values()}
    speeds = sorted({read.state.sites[site].spec.speed_ratio for site in used})
    if len(speeds) > 1:
        command = command_line("wfrun", "simulate", "--from-run", read.run.path)
        losses.append(
            f"run times are as measured, at sites of speed {speeds[0]:g} to {speeds[-1]:g}; "
            f"`{command}` scales them to one processor"
        )
    return losses


def execution_of(read: RunAttempts, w: WorkflowState) -> Execution:
    """The measurements of a workflow of a run, for its document."""
    state = read.state
    tasks = {
        task: _measured(read, attempt, runtime_s, attempt.started_s)
        for task, attempt in read.successes(w.index).items()
        if (runtime_s := attempt.runtime_s) is not None and attempt.started_s is not None
    }
    end_s = state.end_s if w.ended_s is None else w.ended_s
    return Execution(
        description=f"run {read.run.name}: {read.word}, {w.done} of {len(w.status)} tasks done, "
        f"placement policy {state.settings.policy}",
        system=read.wfrun_version,
        created_s=state.end_s,
        started_s=w.added_s,
        makespan_s=max(0.0, end_s - w.added_s),
        tasks=tasks,
        sizes=w.sizes,
    )


def _measured(
    read: RunAttempts, attempt: AttemptRecord, runtime_s: float, started_s: float
) -> TaskExecution:
    outcome = attempt.outcome
    return TaskExecution(
        runtime_s=runtime_s,
        started_s=started_s,
        machine=attempt.host or read.state.sites[attempt.site].spec.name,
        cores=attempt.cores,
        cpu_s=None if outcome is None else outcome.cpu_s,
        memory_bytes=None if outcome is None else outcome.peak_memory_bytes,
    )
