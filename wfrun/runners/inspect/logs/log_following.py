"""``wfrun logs --follow``: prints what open attempts write until they end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Sequence

from wfrun.engine.core.state import TaskStatus
from wfrun.engine.errors import TransientError, WfrunError
from wfrun.engine.explain.visible import command_line, message_block
from wfrun.runners.inspect.logs.log_printer import (
    AttemptHistory,
    LoggedAttempt,
    LogPrinter,
    TaskNumber,
)
from wfrun.runners.run.directory.run_directory import is_driven
from wfrun.runners.run.store.checkpoints import read_state

INTERVAL_S = 0.5
"""Interval between two looks at the log of the run and the files, in seconds. Each look sends one
request to a head node, whatever the number of attempts there."""


_SETTLED = (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.UNNEEDED)


async def follow_attempts(
    printer: LogPrinter,
    history: AttemptHistory,
    shown: Sequence[LoggedAttempt],
    wanted: Collection[TaskNumber],
) -> None:
    """Print what open attempts write until each has ended. ``shown`` are the attempts that were
    already printed; if all of them have ended, wait for the next attempt.

    Returns when no attempt will follow, because the tasks have settled or the run has ended. Also
    returns when no process drives the run, because the end of an attempt would then not be noted.
    """
    finished = {attempt.placed.key for attempt in shown if attempt.outcome is not None}
    # Of a task that has settled since ``shown`` was read, attempts are in the log by now.
    have_settled = len(finished) == len(shown) and _have_settled(printer, wanted)
    failed: dict[str, str] = {}
    while True:
        is_last_look = not is_driven(printer.run)  # before the log is read: an engine may end now
        current = [a for a in history.read() if a.placed.key not in finished]
        for attempt in current:
            await _advance(printer, attempt, failed)
            if attempt.outcome is not None:
                printer.say_end(attempt)
                finished.add(attempt.placed.key)
        if have_settled or history.has_ended:
            return
        if current and all(attempt.outcome is not None for attempt in current):
            return
        if is_last_look:
            _remark(
                f"no process drives run {printer.run.name}, so the ends of attempts are not noted; "
                f"`{command_line('wfrun', 'resume', printer.run.path)}` continues it"
            )
            return
        await asyncio.sleep(INTERVAL_S)


def _have_settled(printer: LogPrinter, wanted: Collection[TaskNumber]) -> bool:
    state = read_state(printer.run)
    return all(state.workflows[w].status[task] in _SETTLED for w, task in wanted)


async def _advance(printer: LogPrinter, attempt: LoggedAttempt, failed: dict[str, str]) -> None:
    """Print the new output of an attempt. A site that is out of reach is asked again at the next
    look, unless the attempt has ended."""
    key = attempt.placed.key
    try:
        await printer.advance(attempt)
        failed.pop(key, None)
    except TransientError as error:
        if attempt.outcome is not None:
            printer.say_unreadable(attempt, error)
        elif failed.get(key) != str(error):
            failed[key] = str(error)
            _remark(f"{error}; trying again")
    except WfrunError as error:
        if failed.get(key) != str(error):
            failed[key] = str(error)
            printer.say_unreadable(attempt, error)


def _remark(text: str) -> None:
    print(message_block(text), file=sys.stderr, flush=True)
