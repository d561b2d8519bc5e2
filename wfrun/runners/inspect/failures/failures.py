"""Failures for people: a line for each kind, with an example."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from wfrun.engine.core.state import RunState
from wfrun.engine.explain.visible import command_line, name_line
from wfrun.engine.model import Workflow
from wfrun.engine.tasks.bag import tasks_of
from wfrun.engine.tasks.failures import Failure, FailureGroup
from wfrun.parsers.bags.names import shown_parameters
from wfrun.runners.display.console import Hanging
from wfrun.runners.display.counts import counted, failed_attempts

MAX_GROUPS = 8
"""Maximum number of kinds of failures that a summary shows."""
MAX_EXCERPT_LINE = 1000
"""Maximum number of characters shown of a line of a failed task's output."""
EXCERPT_LINES = 4
"""Maximum number of lines shown of the output of an example."""
MANY_FAILURES = 20
"""Minimum number of failed attempts for which the display advises the user to look at their output,
if no attempt has succeeded."""


def task_parameters(workflow: Workflow, task: int) -> str:
    """The parameters of a bag's task, such as ``seed=91, ligand=a``; empty for other tasks."""
    if workflow.bag is None:
        return ""
    return shown_parameters(tasks_of(workflow).expansion, task)


def task_title(workflow: Workflow, task: int) -> str:
    """The id of a task, with its parameters if it is one of a bag."""
    title = name_line(workflow.tasks[task].id)
    parameters = task_parameters(workflow, task)
    return f"{title} ({name_line(parameters)})" if parameters else title


def failure_line(state: RunState, group: FailureGroup) -> Text:
    """A kind of failures on one line: the numbers of tasks and attempts, the cause and message, the
    first task."""
    attempts = counted(group.attempts, "failed attempt")
    if not group.tasks:
        count = attempts
    elif group.attempts > group.tasks:
        count = f"{counted(group.tasks, 'task')} ({attempts})"
    else:
        count = counted(group.tasks, "task")
    line = Text(f"{count} × {group.head}", style="red" if group.tasks else "yellow")
    if group.text:
        line.append(f": {name_line(group.text, MAX_EXCERPT_LINE)}")
    _, workflow, task, _ = group.first.key.rsplit(".", 3)
    title = task_title(state.workflows[int(workflow)].workflow, int(task))
    line.append(f", first: task {title} at {group.first.site}", style="default")
    return line


def cancelled_line(state: RunState) -> Text | None:
    """The tasks that the user has cancelled, on one line; None if there is none."""
    found = [(w, task) for w in state.workflows for task in sorted(w.cancelled)]
    if not found:
        return None
    w, task = found[0]
    first = f", first: {task_title(w.workflow, task)}" if len(found) > 1 else ""
    name = "" if len(found) > 1 else f": {task_title(w.workflow, task)}"
    return Text(f"{counted(len(found), 'task')} cancelled by the user{name}{first}", style="yellow")


def failure_summary(state: RunState) -> RenderableType | None:
    """The kinds of failures of failed tasks, each with the end of an example's output, and the
    tasks that the user has cancelled. None if no task has failed or was cancelled."""
    groups = [group for group in state.failure_groups.largest_first() if group.tasks]
    parts: list[RenderableType] = []
    for group in groups[:MAX_GROUPS]:
        text = failure_line(state, group)
        lines = excerpt(group.first)
        for line in lines[lines[0] == group.text :]:  # Not twice what the line above has.
            text.append(f"\n{line}", style="default")
        parts.append(Hanging(text))
    if len(groups) > MAX_GROUPS:
        left = sum(group.tasks for group in groups[MAX_GROUPS:])
        parts.append(Text(f"and {counted(left, 'failed task')} more", style="red"))
    if groups and state.failed > 1:
        parts.append(
            Text("`wfrun failures` shows their sites and hosts, and what to do", style="dim")
        )
    cancelled = cancelled_line(state)
    if cancelled is not None:
        parts.append(cancelled)
    return Group(*parts) if parts else None


def excerpt(failure: Failure) -> list[str]:
    """The end of the message of a failure."""
    lines = failure.message.strip().split("\n")[-EXCERPT_LINES:]
    return [name_line(line, MAX_EXCERPT_LINE) for line in lines]


def nothing_succeeds(state: RunState, run: str) -> str | None:
    """A remark for a run with `MANY_FAILURES` failures or more and no success."""
    count = failed_attempts(state)
    groups = state.failure_groups.largest_first()
    if state.done or count < MANY_FAILURES or not groups:
        return None
    group = groups[0]
    command = command_line("wfrun", "logs", run, group.first.task)
    reason = f"{group.head}: {name_line(group.text)}" if group.text else group.head
    return (
        f"no task has succeeded, and {count} attempts have failed, most by {reason}; "
        f"`{command}` shows the output of one, Ctrl-C stops the run"
    )
