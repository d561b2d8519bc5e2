"""Prints the output of attempts, under titles."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from typing import NamedTuple

from rich.text import Text

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.visible import message_block, name_line
from wfrun.engine.model import Workflow
from wfrun.runners.display.console import make_console
from wfrun.runners.inspect.failures.failures import task_parameters
from wfrun.runners.inspect.logs.log_files import (
    LogPart,
    SiteFiles,
    SiteLogs,
    part_sizes,
    parts_of,
    read_part,
    tail_start,
)
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.event_store import Store

STREAMS = ("stdout", "stderr")
TaskNumber = tuple[int, int]
"""Workflow and task, as indices."""


class LoggedAttempt(NamedTuple):
    """An attempt of a task, as the log has it."""

    placed: ev.AttemptPlaced
    outcome: Outcome | None
    """None: it has not ended."""


class AttemptHistory:
    """The attempts of some tasks, from the log of the run, which may grow."""

    def __init__(self, run: RunDir, wanted: Collection[TaskNumber]) -> None:
        self.has_ended = False
        """Whether the run has ended, and was not resumed since."""
        self._wanted = frozenset(wanted)
        self._attempts: dict[str, LoggedAttempt] = {}
        self._store = Store(run.path, judge=run.judge)

    def read(self) -> list[LoggedAttempt]:
        """All attempts so far, in the order of placement."""
        for event in self._store.load_more():
            if isinstance(event, (ev.RunEnded, ev.RunResumed)):
                self.has_ended = isinstance(event, ev.RunEnded)
            elif isinstance(event, ev.AttemptPlaced) and self._is_wanted(event):
                self._attempts[event.key] = LoggedAttempt(event, None)
            elif isinstance(event, ev.AttemptEnded) and event.key in self._attempts:
                placed = self._attempts[event.key].placed
                self._attempts[event.key] = LoggedAttempt(placed, event.outcome)
        return list(self._attempts.values())

    def _is_wanted(self, event: ev.AttemptPlaced) -> bool:
        return (event.workflow, event.task) in self._wanted

    def close(self) -> None:
        self._store.close()


class LogPrinter:
    """Prints what attempts wrote, under titles. On a terminal titles are bold. The output of a task
    cannot be bold, so that no task can forge a title."""

    def __init__(self, state: RunState, run: RunDir, task: str, tail: int | None) -> None:
        self.state = state
        self.run = run
        self.task = task
        self.logs = SiteLogs(state, run)
        self._tail = tail
        self._console = make_console()
        self._printed: dict[tuple[str, int], int] = {}
        """Number of bytes that were printed or left out, by attempt and stream."""
        self._current: tuple[str, int] | None = None
        """Attempt and stream under the last title."""
        self._in_line = False
        """Whether the last byte printed was no line end."""
        self._parameters: set[TaskNumber] = set()

    def say(self, text: str) -> None:
        """Print a line that is not output of a task."""
        self._end_line()
        self._console.print(Text(message_block(text), style="bold"), soft_wrap=True)

    async def show(self, attempt: LoggedAttempt) -> None:
        """Print the output of an attempt so far; if there is a limit, only its last lines."""
        placed, outcome = attempt
        self._say_parameters((placed.workflow, placed.task))
        try:
            files = await self.logs.files(placed.site)
            parts = parts_of(placed.key, None if outcome is None else outcome.packed)
            sizes = await part_sizes(files, parts)
            for stream in range(len(STREAMS)):
                await self._show_stream(attempt, files, stream, parts[stream], sizes[stream])
        except WfrunError as error:
            self.say_unreadable(attempt, error)
            self._say_message(outcome, even_of_exit=True)
        else:
            self._say_message(outcome)

    async def _show_stream(
        self, attempt: LoggedAttempt, files: SiteFiles, stream: int, part: LogPart, size: int
    ) -> None:
        start = 0
        if self._tail is not None:
            start = await tail_start(files, part, size, self._tail)
        left_out = f", without the first {start:,} of {size:,} bytes" if start else ""
        self._say_title(attempt, stream, left_out)
        self._printed[attempt.placed.key, stream] = start
        await self._copy(attempt, files, stream, part, size)

    async def advance(self, attempt: LoggedAttempt) -> None:
        """Print what an attempt wrote since it was last shown. Raises WfrunError if that cannot be
        read now."""
        placed, outcome = attempt
        files = await self.logs.files(placed.site)
        parts = parts_of(placed.key, None if outcome is None else outcome.packed)
        sizes = await part_sizes(files, parts)
        for stream, (part, size) in enumerate(zip(parts, sizes, strict=True)):
            printed = self._printed.setdefault((placed.key, stream), 0)
            if 0 < size < printed:  # 0: it moves into a pack
                self._printed[placed.key, stream] = size
                title = f"{self._title(attempt)}: {STREAMS[stream]}"
                self.say(f"{title} was cut meanwhile, by --max-log; what follows is new")
            elif size > printed:
                if self._current != (placed.key, stream):
                    self._say_title(attempt, stream)
                await self._copy(attempt, files, stream, part, size)

    async def _copy(
        self, attempt: LoggedAttempt, files: SiteFiles, stream: int, part: LogPart, size: int
    ) -> None:
        """Print a part up to ``size``, its size at the last look. What the task writes meanwhile
        waits for the next look, because a task may write faster than we print."""
        key = attempt.placed.key
        position = self._printed[key, stream]
        while position < size:
            data = await read_part(files, part, position, size - position)
            if not data and attempt.outcome is not None:
                raise InfeasibleError(f"{part.path} ends after {position:,} of {size:,} bytes")
            if not data:  # it moves; the next look finds it
                break
            position += len(data)
            self._printed[key, stream] = position
            # In a thread: a pager that waits for its user must not silence the connection.
            await asyncio.to_thread(_write, data)
            self._in_line = not data.endswith(b"\n")

    def say_unreadable(self, attempt: LoggedAttempt, error: WfrunError) -> None:
        """Say why the output of an attempt cannot be read, and where it is."""
        placed, outcome = attempt
        packed = None if outcome is None else outcome.packed
        self.say(f"{self._title(attempt)}: its output cannot be read:")
        self.say(f"{error}\nThe output is in {self.logs.where(placed.site, placed.key, packed)}")

    def say_end(self, attempt: LoggedAttempt) -> None:
        """Print the outcome of a followed attempt."""
        self.say(self._title(attempt))
        self._say_message(attempt.outcome)

    def _say_message(self, outcome: Outcome | None, *, even_of_exit: bool = False) -> None:
        """Print the message of a failure. Unless ``even_of_exit``, leave out the message of a task
        that ended with an exit code, which repeats the end of its stderr."""
        if outcome is not None and outcome.message and (even_of_exit or outcome.cause != "exit"):
            self.say(f"--- {outcome.message}")

    def _say_parameters(self, number: TaskNumber) -> None:
        if number in self._parameters:
            return
        self._parameters.add(number)
        parameters = task_parameters(self.state.workflows[number[0]].workflow, number[1])
        if parameters:
            self.say(f"--- {name_line(self.task)}: {parameters}")

    def _say_title(self, attempt: LoggedAttempt, stream: int, left_out: str = "") -> None:
        placed = attempt.placed
        file = _stream_file(self.state.workflows[placed.workflow].workflow, placed.task, stream)
        where = f", written to its output {name_line(file)}" if file is not None else ""
        self.say(f"{self._title(attempt)}: {STREAMS[stream]}{where}{left_out}")
        self._current = placed.key, stream

    def _title(self, attempt: LoggedAttempt) -> str:
        site = self.state.sites[attempt.placed.site].spec.name
        return f"--- {attempt.placed.key} at {site} ({_how(attempt.outcome)})"

    def _end_line(self) -> None:
        if self._in_line:
            _write(b"\n")
            self._in_line = False


def _write(data: bytes) -> None:
    """Write to stdout: unchanged, or on a terminal with escapes (`wfrun.runners.cli.streams`)."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _stream_file(workflow: Workflow, task: int, stream: int) -> str | None:
    """The output file that holds the task's stdout or stderr; None: it is no output of the task."""
    record = workflow.tasks[task]
    file = (record.stdout, record.stderr)[stream]
    return None if file is None else workflow.files[file].name


def _how(outcome: Outcome | None) -> str:
    if outcome is None:
        return "open"
    how = str(outcome.cause)
    if outcome.exit_code not in (None, 0):
        how += f", exit code {outcome.exit_code}"
    if outcome.started_s and outcome.ended_s:
        how += f", {outcome.ended_s - outcome.started_s:.2f} s"
    return how
