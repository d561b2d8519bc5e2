"""What a task printed, attempt by attempt."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from difflib import get_close_matches

import click

from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.engine.records import Outcome
from wfrun.engine.state import RunState, TaskStatus
from wfrun.runners.rundir import RunDir
from wfrun.runners.session import read_state
from wfrun.runners.store import Store
from wfrun.sites.local import LocalSite

TaskNumber = tuple[int, int]
"""Workflow and task."""


def print_logs(run: RunDir, task: str) -> None:
    """Print stdout and stderr of every attempt of a task, each under a line that says how it
    ended. Raises InvalidError for an unknown task, naming near ones."""
    state = read_state(run)
    wanted = [
        (w.index, index)
        for w in state.workflows
        for index, record in enumerate(w.workflow.tasks)
        if record.id == task
    ]
    if not wanted:
        raise InvalidError(f"run {run.name} has no task {task!r}", hint=_near(state, task))
    attempts = _attempts(run, wanted)
    dispatched = {(placed.workflow, placed.task) for placed, _ in attempts}
    for placed, outcome in attempts:
        _print_attempt(state, run, placed, outcome)
    for number in wanted:
        if number not in dispatched:
            click.echo(f"task {task} {_why_not(state, number)}")


def _attempts(
    run: RunDir, wanted: Collection[TaskNumber]
) -> list[tuple[ev.AttemptPlaced, Outcome | None]]:
    """The attempts of these tasks in the order in which they were placed."""
    placed: dict[str, ev.AttemptPlaced] = {}
    outcomes: dict[str, Outcome] = {}
    store = Store(run.path)
    try:
        for event in store.load():
            if isinstance(event, ev.AttemptPlaced) and (event.workflow, event.task) in wanted:
                placed[event.key] = event
            elif isinstance(event, ev.AttemptEnded) and event.key in placed:
                outcomes[event.key] = event.outcome
    finally:
        store.close()
    return [(event, outcomes.get(key)) for key, event in placed.items()]


def _why_not(state: RunState, number: TaskNumber) -> str:
    status = state.workflows[number[0]].status[number[1]]
    if status == TaskStatus.BLOCKED:
        return "was not run, because a task that it depends on has failed"
    return "has not been dispatched yet"


def _print_attempt(
    state: RunState, run: RunDir, placed: ev.AttemptPlaced, outcome: Outcome | None
) -> None:
    spec = state.sites[placed.site].spec
    site = LocalSite(spec, placed.site, run.site_directory(spec, state.run_id))
    texts = asyncio.run(site.log(placed.key))
    files = _stream_files(state.workflows[placed.workflow].workflow, placed.task)
    how = _how(outcome)
    for stream, text, file in zip(("stdout", "stderr"), texts, files, strict=True):
        where = f", written to its output {file}" if file is not None else ""
        click.echo(f"--- {placed.key} at {spec.name} ({how}): {stream}{where}")
        sys.stdout.flush()
        sys.stdout.buffer.write(text if not text or text.endswith(b"\n") else text + b"\n")
        sys.stdout.buffer.flush()
    if outcome is not None and outcome.message and outcome.cause != "exit":
        click.echo(f"--- {outcome.message}")


def _stream_files(workflow: Workflow, task: int) -> tuple[str | None, str | None]:
    """The outputs that hold the task's stdout and stderr."""
    record = workflow.tasks[task]
    stdout, stderr = (
        None if file is None else workflow.files[file].name
        for file in (record.stdout, record.stderr)
    )
    return stdout, stderr


def _how(outcome: Outcome | None) -> str:
    if outcome is None:
        return "open"
    how = str(outcome.cause)
    if outcome.exit_code not in (None, 0):
        how += f", exit code {outcome.exit_code}"
    if outcome.started_s and outcome.ended_s:
        how += f", {outcome.ended_s - outcome.started_s:.2f} s"
    return how


def _near(state: RunState, task: str) -> str | None:
    ids = [t.id for w in state.workflows for t in w.workflow.tasks[:5000]]
    near = get_close_matches(task, ids, n=3)
    return f"did you mean {', '.join(near)}?" if near else None
