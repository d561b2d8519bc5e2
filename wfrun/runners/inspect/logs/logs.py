"""``wfrun logs``: the output of a task, attempt by attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from wfrun.engine.core.state import RunState, TaskStatus
from wfrun.engine.explain.visible import command_line, name_line
from wfrun.runners.inspect.logs.log_following import follow_attempts
from wfrun.runners.inspect.logs.log_printer import AttemptHistory, LogPrinter, TaskNumber
from wfrun.runners.inspect.tables.task_names import find_tasks
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state


def print_logs(run: RunDir, task: str, *, tail: int | None = None, follow: bool = False) -> None:
    """Print stdout and stderr of every attempt of a task, each under a line with its outcome.

    ``tail`` is the maximum number of lines printed of each stream; None: all. The title then says
    how many bytes are left out. With ``follow``, also print what open attempts write until they
    end. Raises InvalidError, with similar ids, for an unknown task.
    """
    state = read_state(run)
    wanted = find_tasks(state, run.name, task)
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
    if status == TaskStatus.UNNEEDED:
        return "was not needed"
    return "has not been dispatched yet"
