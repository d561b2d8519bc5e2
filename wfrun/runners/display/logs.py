"""``wfrun logs``: the output of a task, attempt by attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from difflib import get_close_matches

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.engine.state import RunState, TaskStatus
from wfrun.engine.visible import command_line, name_line
from wfrun.runners.display.log_following import follow_attempts
from wfrun.runners.display.log_printer import AttemptHistory, LogPrinter, TaskNumber
from wfrun.runners.run.directory import RunDir
from wfrun.runners.run.session import read_state

_COMPARED = 5000
"""Maximum number of tasks of a workflow whose names are compared with a wrong one."""
_NAMED = 4
"""Maximum number of tasks, and of workflows, that a message names."""
_DIGITS = 10
"""Maximum number of digits of a task number."""


def print_logs(run: RunDir, task: str, *, tail: int | None = None, follow: bool = False) -> None:
    """Print stdout and stderr of every attempt of a task, each under a line with its outcome.

    ``tail`` is the maximum number of lines of each; lines before are left out, which is said.
    With ``follow`` print what open attempts write until they end. Raises InvalidError for an
    unknown task, with similar ids.
    """
    state = read_state(run)
    wanted = [(w.index, index) for w in state.workflows for index in _named(w.workflow, task)]
    if not wanted:
        raise InvalidError(f"run {run.name} has no task {task!r}", hint=_near(state, task))
    asyncio.run(_print_logs(LogPrinter(state, run, task, tail), wanted, follow=follow))


async def _print_logs(printer: LogPrinter, wanted: Collection[TaskNumber], *, follow: bool) -> None:
    history = AttemptHistory(printer.run, wanted)
    try:
        attempts = history.read()
        for attempt in attempts:
            await printer.show(attempt)
        dispatched = {(a.placed.workflow, a.placed.task) for a in attempts}
        for number in wanted:
            if number not in dispatched:
                printer.say(f"task {name_line(printer.task)} {_why_not(printer.state, number)}")
        if follow:
            await follow_attempts(printer, history, attempts, wanted)
    finally:
        history.close()
        await printer.logs.close()


def _named(workflow: Workflow, task: str) -> list[int]:
    """The tasks of a workflow with this id. Ids in a bag end with the number of the task."""
    if workflow.bag is None:
        return [index for index, record in enumerate(workflow.tasks) if record.id == task]
    number = task.rpartition("-")[2]
    if not (number.isascii() and number.isdigit() and len(number) < _DIGITS):
        return []
    index = int(number)
    is_there = index < len(workflow.tasks) and workflow.tasks[index].id == task
    return [index] if is_there else []


def _why_not(state: RunState, number: TaskNumber) -> str:
    """Why a task has no attempt."""
    w = state.workflows[number[0]]
    status = w.status[number[1]]
    if status == TaskStatus.DONE:
        name = next((part.run for part in w.reused if number[1] in part.tasks), "")
        command = command_line("wfrun", "logs", name, w.workflow.tasks[number[1]].id)
        return f"was done by an earlier run, whose outputs are reused: `{command}`"
    if status == TaskStatus.BLOCKED:
        return "is blocked, because a task that it depends on has failed"
    return "has not been dispatched yet"


def _near(state: RunState, task: str) -> str:
    """Tasks with similar names, and what tasks there are."""
    ids = [t.id for w in state.workflows for t in w.workflow.tasks[:_COMPARED]]
    near = get_close_matches(task, ids, n=3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    named = "; ".join(_ids(w.workflow) for w in state.workflows[:_NAMED])
    more = f"; and {len(state.workflows) - _NAMED} more" if len(state.workflows) > _NAMED else ""
    return f"{hint}tasks of the run: {named}{more}"


def _ids(workflow: Workflow) -> str:
    """The first and the last ids of a workflow."""
    count = len(workflow.tasks)
    if count <= _NAMED:
        return ", ".join(t.id for t in workflow.tasks)
    if workflow.bag is not None:
        return f"{workflow.tasks[0].id} to {workflow.tasks[count - 1].id}"
    some = ", ".join(t.id for t in workflow.tasks[:_NAMED])
    return f"{some} and {count - _NAMED} more"
