"""``wfrun results``: a row for each task, with its parameters and its outcome.

The state comes from a checkpoint, and the log is read once for the outcomes, without interpreting
it. A few numbers per task are kept in arrays; rows are made and written some thousands at a time,
so that memory stays small for bags of millions of tasks.
"""

from __future__ import annotations

import csv
import re
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import islice
from math import isnan, nan
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO

from wfrun.engine import events as ev
from wfrun.engine.core.state import Attempt, Phase, RunState, TaskStatus, WorkflowState
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.visible import MAX_LINE, name_line
from wfrun.engine.model import Resources
from wfrun.engine.tasks.bag import parameter_names, tasks_of
from wfrun.parsers.atomic import drafted
from wfrun.runners.display.parameter_types import parameter_types
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.inspect.tables.running import expected_s, host_of
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.event_store import Store

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of cells that spreadsheets evaluate, also in full width (OWASP, "CSV
Injection")."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_ROWS = 4096
"""Number of rows written at a time."""
_NAMES = "surrogateescape"
"""Error handler for names of files that are not UTF-8: their bytes are written unchanged."""
_STATES = {
    TaskStatus.WAITING: "waiting",
    TaskStatus.ELIGIBLE: "waiting",
    TaskStatus.DISPATCHED: "queued",
    TaskStatus.DELAYED: "waiting to retry",
    TaskStatus.DONE: "done",
    TaskStatus.FAILED: "failed",
    TaskStatus.BLOCKED: "blocked",
    TaskStatus.UNNEEDED: "not needed",
}

BEFORE: Mapping[str, type] = {"bag": str, "owner": str, "task": int, "id": str, "state": str}
"""Columns before the parameters, with their types."""
AFTER: Mapping[str, type] = {
    "site": str, "host": str, "attempts": int, "replicas": int, "started_s": float,
    "ended_s": float, "run_time_s": float, "cpu_s": float, "peak_memory_bytes": int,
    "exit_code": int, "outputs": str, "expected_s": float, "cores": int,
}  # fmt: skip
"""Columns after the parameters. Times are in seconds since the start of the run. For a running task
``run_time_s`` is the time that it has run, and ``expected_s`` its expected run time. ``cores`` is
unknown until the size of a moldable job has been chosen."""

Row = list[Any]


class _Ends:
    """Outcomes of the tasks of a workflow. The outcome of a task is the outcome of its successful
    attempt, otherwise of its latest ended attempt. A cancelled attempt does not replace an earlier
    outcome."""

    def __init__(self, tasks: int, hosts: Sequence[str]) -> None:
        self.hosts = hosts
        """Names of hosts, by the numbers in ``host``."""
        self.attempts = array("I", bytes(4 * tasks))
        self.replicas = array("I", bytes(4 * tasks))
        self.site = array("h", [-1]) * tasks
        self.host = array("i", [-1]) * tasks
        self.started_s = array("d", [nan]) * tasks
        self.ended_s = array("d", [nan]) * tasks
        self.cpu_s = array("f", [nan]) * tasks
        self.peak_bytes = array("q", [-1]) * tasks
        self.exit_code = array("q", [-1]) * tasks
        self.is_done = bytearray(tasks)
        """Whether an attempt of each task has succeeded. Reset when a further attempt begins while
        no other is open, because a task whose output is lost runs again."""


class OutcomeCollector:
    """Collects the outcomes of attempts from the events of a log."""

    def __init__(self, state: RunState) -> None:
        """``state`` is the state of the run after the last of the events."""
        self.ends: list[_Ends] = []
        self.hosts: list[str] = []
        self._state = state
        self._host_numbers: dict[str, int] = {}
        self._open: dict[str, ev.AttemptPlaced] = {}
        self._open_of: dict[tuple[int, int], int] = {}

    def note(self, event: ev.AnyEvent) -> None:
        """Note the next event."""
        if isinstance(event, ev.AttemptPlaced):
            ends, task = self.ends_of(event.workflow), (event.workflow, event.task)
            others = self._open_of.get(task, 0)
            ends.attempts[event.task] += 1
            if others:
                ends.replicas[event.task] += 1
            else:
                ends.is_done[event.task] = False
            self._open_of[task] = others + 1
            self._open[event.key] = event
        elif isinstance(event, ev.AttemptEnded):
            placed = self._open.pop(event.key, None)
            if placed is None:
                return
            task = (placed.workflow, placed.task)
            self._open_of[task] -= 1
            if not self._open_of[task]:
                del self._open_of[task]
            self._ended(self.ends_of(placed.workflow), placed, event.outcome)

    def ends_of(self, workflow: int) -> _Ends:
        while len(self.ends) <= workflow:
            w = self._state.workflows[len(self.ends)]
            self.ends.append(_Ends(len(w.workflow.tasks), self.hosts))
        return self.ends[workflow]

    def _ended(self, ends: _Ends, placed: ev.AttemptPlaced, outcome: Outcome) -> None:
        task = placed.task
        if outcome.cause != "done":
            copy = outcome.cause == "cancelled" and ends.site[task] >= 0
            if copy or ends.is_done[task]:
                return
        else:
            ends.is_done[task] = True
        ends.site[task] = placed.site
        ends.host[task] = self._host(outcome.host)
        ends.started_s[task] = nan if outcome.started_s is None else outcome.started_s
        ends.ended_s[task] = nan if outcome.ended_s is None else outcome.ended_s
        ends.cpu_s[task] = nan if outcome.cpu_s is None else outcome.cpu_s
        ends.peak_bytes[task] = (
            -1 if outcome.peak_memory_bytes is None else (outcome.peak_memory_bytes)
        )
        ends.exit_code[task] = -1 if outcome.exit_code is None else outcome.exit_code

    def _host(self, name: str | None) -> int:
        if name is None:
            return -1
        number = self._host_numbers.setdefault(name, len(self.hosts))
        if number == len(self.hosts):
            self.hosts.append(name)
        return number


def outcomes_of(run: RunDir, state: RunState, events: int) -> OutcomeCollector:
    """Collect the outcomes of attempts from the first ``events`` events of the log. ``state`` is
    the state after these events. Raises what ``Store`` raises."""
    collector = OutcomeCollector(state)
    store = Store(run.path)
    try:
        for event in islice(store.load(), events):
            collector.note(event)
    finally:
        store.close()
    return collector


class RunResults:
    """The results of a run: a table with a row for each task."""

    def __init__(self, run: RunDir) -> None:
        """Reads the state, also while an engine drives the run. Raises what ``FollowedRun``
        raises."""
        with FollowedRun(run) as followed:
            self._state, self._events = followed.state, followed.seq
            driven = followed.is_driven
        self._run = run
        self._now_s = time.time() if driven else self._state.now_s
        """The present time if an engine drives the run, otherwise the time of its last event."""
        self._user = owner_of(run)
        """Owner of the tasks whose document names no owner."""
        names: dict[str, None] = {}
        for w in self._state.workflows:
            if w.workflow.bag is not None:
                names.update(dict.fromkeys(parameter_names(w.workflow.bag)))
        self.parameters = tuple(names)

    def columns(self, types: Mapping[str, type] = {}) -> dict[str, type]:
        """Names and types of the columns. A parameter with the name of another column gets the
        prefix ``parameter_``. ``types`` has the types of parameters that are not text."""
        others = {*BEFORE, *AFTER}
        named = {f"parameter_{p}" if p in others else p: types.get(p, str) for p in self.parameters}
        return {**BEFORE, **named, **AFTER}

    def typed_columns(self) -> dict[str, type]:
        """The columns, with types of numbers for parameters whose values are all numbers."""
        bags = (w.workflow.bag for w in self._state.workflows)
        return self.columns(parameter_types(bag for bag in bags if bag is not None))

    def rows(self) -> Iterator[Row]:
        """A row for each task, in the order of the documents; None is an unknown value. Reads the
        log, and raises what ``Store`` raises."""
        collected = outcomes_of(self._run, self._state, self._events)
        running: dict[tuple[int, int], Attempt] = {}
        for a in self._state.attempts.values():
            if a.phase is Phase.RUNNING:
                running.setdefault((a.workflow, a.task), a)
        for w in self._state.workflows:
            ends = collected.ends_of(w.index)
            values = self._values(w)
            folder = self._folder(w)
            for task in range(len(w.workflow.tasks)):
                yield self._row(w, ends, task, values(task), folder, running.get((w.index, task)))

    def _values(self, w: WorkflowState) -> Callable[[int], list[str | None]]:
        if w.workflow.bag is None:
            nothing: list[str | None] = [None] * len(self.parameters)
            return lambda task: nothing
        expansion = tasks_of(w.workflow).expansion

        def values(task: int) -> list[str | None]:
            found = expansion.parameters(task)
            return [found.get(name) for name in self.parameters]

        return values

    def _folder(self, w: WorkflowState) -> Callable[[int], str]:
        from wfrun.runners.run.requests import AttemptRequests

        requests = AttemptRequests(self._state, self._run, [s.spec for s in self._state.sites])
        return lambda file: str(requests.output_path(w.index, file))

    def _row(
        self,
        w: WorkflowState,
        ends: _Ends,
        task: int,
        values: Sequence[str | None],
        path: Callable[[int], str],
        running: Attempt | None,
    ) -> Row:
        record, status = w.workflow.tasks[task], TaskStatus(w.status[task])
        files = w.workflow.files
        site, host = ends.site[task], ends.host[task]
        names = (
            None if site < 0 else self._state.sites[site].spec.name,
            None if host < 0 else ends.hosts[host],
        )
        started_s = _number(ends.started_s[task] - self._state.started_s)
        ended_s = _number(ends.ended_s[task] - self._state.started_s)
        elapsed_s = None if started_s is None or ended_s is None else round(ended_s - started_s, 6)
        expected = None
        if running is not None:
            names = self._state.sites[running.site].spec.name, host_of(self._state, running) or None
            begun_s = self._state.now_s if running.started_s is None else running.started_s
            started_s, ended_s = _number(begun_s - self._state.started_s), None
            elapsed_s = _number(max(0.0, self._now_s - begun_s))
            expected = _number_or_none(expected_s(self._state, running))
        outputs = (
            [path(f) for f in record.outputs if files[f].collect]
            if status is TaskStatus.DONE
            else []
        )
        return [
            w.workflow.name,
            w.workflow.owner or self._user,
            task,
            record.id,
            "running" if running is not None else _STATES[status],
            *values,
            *names,
            ends.attempts[task],
            ends.replicas[task],
            started_s,
            ended_s,
            elapsed_s,
            _number(ends.cpu_s[task]),
            None if ends.peak_bytes[task] < 0 else ends.peak_bytes[task],
            None if ends.exit_code[task] < 0 else ends.exit_code[task],
            ";".join(outputs) or None,
            expected,
            _cores(w, task, record.resources),
        ]


def _cores(w: WorkflowState, task: int, documented: Resources) -> int | None:
    """Return the cores that the latest attempt of a task requested, or that its first attempt will
    request. None: the size of a moldable job has not been chosen yet."""
    if task in w.workflow.moldable and task not in w.asks:
        return None
    return (w.asks.get(task) or documented).cores


def owner_of(run: RunDir) -> str | None:
    """The login name of the owner of the run directory."""
    try:
        return run.path.owner()
    except (KeyError, OSError):
        return None


def _number_or_none(value: float | None) -> float | None:
    return None if value is None else _number(value)


def _number(value: float) -> float | None:
    return None if isnan(value) else round(value, 6)


# Writing


class _Writer(Protocol):
    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


class TableOfRun(Protocol):
    """A table of a run. Each row has a value for each column; None: unknown."""

    def columns(self) -> dict[str, type]: ...

    def typed_columns(self) -> dict[str, type]: ...

    def rows(self) -> Iterator[Row]: ...


def write_results(
    run: RunDir,
    path: Path | None,
    make: Callable[[RunDir], TableOfRun] = RunResults,
    *,
    safe_csv: bool = False,
) -> None:
    """Write the table that ``make`` makes of a run to ``path``, in the format of its suffix. If
    ``path`` is None, print the table as CSV. With ``safe_csv`` no cell of CSV or TSV is a formula
    to a spreadsheet.

    An existing file is replaced atomically. Raises InvalidError for an unknown suffix, and
    InfeasibleError if the file cannot be written, or for Parquet without pyarrow.
    """
    if path is None:
        table = make(run)
        is_terminal = sys.stdout.isatty()
        # Bytes, which a pipe gets unchanged.
        stream = TextIOWrapper(sys.stdout.buffer, "utf-8", _NAMES)
        try:
            text = _Text(stream, table.columns(), ",", safe=safe_csv, on_terminal=is_terminal)
            stream.flush()  # the reader of a pipe gets the header before the log is read
            _copy(table, text)
        finally:
            stream.detach()
        return
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".parquet"):
        raise InvalidError(
            f"{path} cannot be written: its suffix names no known format",
            hint="name the file .csv, .tsv or .parquet",
        )
    if kind == ".parquet":
        from wfrun.runners.display.parquet import check_parquet

        check_parquet(path)
    table = make(run)
    try:
        with drafted(path) as part:
            if kind == ".parquet":
                _copy(table, _Parquet(part, table.typed_columns()))
            else:
                stream = TextIOWrapper(part, "utf-8", _NAMES, newline="")
                delimiter = "," if kind == ".csv" else "\t"
                _copy(table, _Text(stream, table.columns(), delimiter, safe=safe_csv))
                stream.flush()
    except OSError as error:
        raise InfeasibleError(f"{path} cannot be written: {error.strerror or error}") from error


def _copy(table: TableOfRun, writer: _Writer) -> None:
    rows = table.rows()
    while some := list(islice(rows, _ROWS)):
        writer.write(some)
    writer.close()


class _Text:
    def __init__(
        self,
        stream: TextIO,
        columns: Mapping[str, type],
        delimiter: str,
        *,
        safe: bool,
        on_terminal: bool = False,
    ) -> None:
        self._safe = safe
        self._on_terminal = on_terminal
        self._writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        self._writer.writerow(columns)

    def write(self, rows: Sequence[Row]) -> None:
        if self._safe:
            rows = [without_formulas(row) for row in rows]
        if self._on_terminal:  # a line end in a cell could forge a row
            rows = [
                [name_line(c, MAX_LINE) if isinstance(c, str) else c for c in row] for row in rows
            ]
        self._writer.writerows(rows)

    def close(self) -> None:
        """Leave the stream open; its opener closes it."""


def without_formulas(row: Row) -> Row:
    """The row with an apostrophe before each text that a spreadsheet would evaluate."""
    return [
        f"'{cell}"
        if isinstance(cell, str) and cell.startswith(_FORMULAS) and not _NUMBER.fullmatch(cell)
        else cell
        for cell in row
    ]


class _Parquet:
    def __init__(self, stream: BinaryIO, columns: Mapping[str, type]) -> None:
        import pyarrow
        from pyarrow import parquet

        kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
        self._kinds = tuple(columns.values())
        self._schema = pyarrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
        self._make = pyarrow.table
        self._writer = parquet.ParquetWriter(stream, self._schema)

    def write(self, rows: Sequence[Row]) -> None:
        columns = [
            [_converted(cell, kind) for cell in column]
            for kind, column in zip(self._kinds, zip(*rows, strict=True), strict=True)
        ]
        self._writer.write_table(self._make(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _converted(cell: Any, kind: type) -> Any:
    """A cell of a column of this type. Bytes of file names that are no UTF-8 are escaped: Parquet
    has only text."""
    if not isinstance(cell, str):
        return cell
    if kind is not str:
        return kind(cell) if cell else None
    if cell.isascii():
        return cell
    return cell.encode("utf-8", _NAMES).decode("utf-8", "backslashreplace")
