"""Statistics of runs as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.console import name_cell
from wfrun.runners.display.counts import counted
from wfrun.runners.display.durations import duration
from wfrun.runners.display.record_table import RecordColumn, number_column, record_table
from wfrun.runners.metrics.critical_path import PARTS, CriticalPath
from wfrun.runners.metrics.optional_bags import OptionalShares
from wfrun.runners.metrics.statistics import RunStatistics, Statistics, TypeStatistics

MAX_ROWS = 40
"""Maximum number of rows of a table by workflow or by type of task."""
_LABEL_COLUMNS = 24
_RUN_COLUMNS = 18
"""Width of the column of a run: the longest duration with its difference."""
NEGLIGIBLE = 0.005
"""Relative difference, and share of a sum, below which values are not shown."""


class _Row(NamedTuple):
    """A row of the comparison of runs."""

    label: str
    value: Callable[[RunStatistics], float | str | None]
    form: Callable[[float], str] = str
    compared: bool = True
    """Whether the difference to the first run is shown."""
    unit: Callable[[RunStatistics], str] = lambda _: ""
    """Unit that follows the value. Values of different units are not compared."""
    optional: bool = False
    """Whether the row is left out where no run has a value."""

    def text(self, run: RunStatistics) -> str | None:
        """The value as text; None: the run has no value."""
        value = self.value(run)
        if value is None or isinstance(value, str):
            return value
        return f"{self.form(value)} {self.unit(run)}".rstrip()


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _hours(core_s: float) -> str:
    """Core time in hours."""
    return _short(core_s / 3600)


def _short(value: float) -> str:
    """The number with three significant digits, or, from 1000 on, with all digits before the
    point."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1e-4 or not value else "<0.0001"


def _money(cost: float) -> str:
    return f"{cost:,.2f}" if cost >= 1 else _short(cost)


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:,.1f}"


def _time(name: str) -> Callable[[RunStatistics], float | None]:
    """A statistic of the run as a whole, by the name of its field."""

    def value(run: RunStatistics) -> float | None:
        found: float | None = getattr(run.total, name)
        return found

    return value


def _launcher_core_s(run: RunStatistics) -> float | None:
    known = [site.launcher_core_s for site in run.sites if site.launcher_core_s is not None]
    return sum(known) if known else None


def _optional(name: str) -> Callable[[RunStatistics], float | None]:
    """A metric of bags with optional tasks, by the name of the field."""

    def value(run: RunStatistics) -> float | None:
        found: float | None = getattr(run.optional, name, None)
        return found

    return value


METRICS = (
    _Row("state", lambda run: run.state),
    _Row("policy", lambda run: name_line(run.policy)),
    _Row("tasks done", lambda run: f"{run.total.done}/{run.total.tasks}"),
    _Row("failed tasks", _time("failed"), compared=False),
    _Row("failed attempts", _time("failed_attempts"), compared=False),
    _Row("time", lambda run: run.elapsed_s, duration),
    _Row("makespan", _time("makespan_s"), duration),
    _Row("NSL", _time("nsl"), _ratio),
    _Row("speedup", _time("speedup"), _ratio),
    _Row("efficiency", _time("efficiency"), _percent),
    _Row("run time of a task", _time("runtime_s"), duration),
    _Row("wait of a task", _time("wait_s"), duration),
    _Row("  at the throttle", _time("throttle_s"), duration),
    _Row("  for a launcher", _time("launcher_s"), duration),
    _Row("  for free cores", _time("room_s"), duration),
    _Row("  for files", _time("staging_s"), duration),
    _Row("  in a queue", _time("queue_s"), duration),
    _Row("overhead of a task", _time("overhead_s"), duration),
    _Row("core-hours used", _time("used_core_s"), _hours),
    _Row("  by failed attempts", _time("failed_core_s"), _hours),
    _Row("  by replicas", _time("replica_core_s"), _hours),
    _Row("core-hours of launchers", _launcher_core_s, _hours, optional=True),
    _Row("cost", _time("cost"), _money, unit=lambda run: run.currency or "", optional=True),
    _Row("energy", _time("energy_kwh"), _short, unit=lambda _: "kWh", optional=True),
    _Row("files between sites", _time("transfers")),
    _Row("  MB", _time("moved_bytes"), _megabytes),
    _Row("unhappy owners", _optional("unhappy_owners"), compared=False, optional=True),
    _Row("unfairness", _optional("unfairness"), _ratio, compared=False, optional=True),
    _Row("owners' tasks done", _optional("completed"), optional=True),
)
"""The metrics of a run, in the order in which they are shown."""


def print_statistics(console: Console, runs: Sequence[RunStatistics]) -> None:
    """Print the tables of one run, or a comparison of several with the first."""
    if len(runs) > 1:
        for block in _blocks(runs, console.width):
            console.print(_comparison(block))
            console.print()
            console.print(_type_comparison(block))
            console.print()
        return
    (run,) = runs
    console.print(f"run {run.path}")
    console.print(_comparison(runs))
    parts = [type_table(run.types), wait_table(run.types)]
    if len(run.workflows) > 1:
        parts.insert(0, workflow_table(run))
    if run.optional is not None:
        parts.append(owner_table(run.optional))
    if has_use(run):
        parts.append(use_table(run.types))
    parts.append(site_table(run))
    if run.critical_path is not None:
        parts += [path_table(run.critical_path), step_table(run.critical_path)]
    for table in parts:
        console.print()
        console.print(table)
    for note in notes(run):
        console.print(Text(note, style="dim"))


def notes(run: RunStatistics) -> Iterator[str]:
    """Remarks on what the statistics leave out."""
    if run.state == "running":
        yield "open attempts do not count yet"
    if run.total.done and not has_use(run):
        why = "tasks were emulated, simulated or reused"
        yield f"the programs' use of resources was not measured: {why}"
    used = [site for site in run.sites if site.used_core_s]
    for total, what, of_site in (
        (run.total.cost, "cost leaves out sites without a price", _cost_of),
        (run.total.energy_kwh, "energy leaves out sites without watts", _energy_of),
    ):
        missing = [name_line(site.name) for site in used if of_site(site) is None]
        if total is not None and missing:
            yield f"{what}: {', '.join(missing)}"


def _cost_of(site: Statistics) -> float | None:
    return site.cost


def _energy_of(site: Statistics) -> float | None:
    return site.energy_kwh


def _blocks(runs: Sequence[RunStatistics], width: int) -> Iterator[Sequence[RunStatistics]]:
    """The runs in blocks that fit the width, each with the first run."""
    beside = max(1, (width - _LABEL_COLUMNS) // _RUN_COLUMNS - 1)
    for start in range(1, len(runs), beside):
        yield [runs[0], *runs[start : start + beside]]


def _new_table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True, overflow="ellipsis")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _names(runs: Sequence[RunStatistics]) -> list[str]:
    return [name_line(Path(run.path).name) for run in runs]


def _comparison(runs: Sequence[RunStatistics]) -> Table:
    """A row for each metric, a column for each run."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=len(runs) > 1)
    table.add_column("")
    for name in _names(runs):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for row in METRICS:
        if row.optional and all(row.value(run) is None for run in runs):
            continue
        table.add_row(row.label, *(_cell(row, run, runs[0]) for run in runs))
    return table


def _cell(row: _Row, run: RunStatistics, first: RunStatistics) -> Text:
    text = Text(row.text(run) or "-")
    value, base = row.value(run), row.value(first)
    if isinstance(value, str) or value is None or isinstance(base, str) or not base:
        return text
    if row.compared and run is not first and row.unit(run) == row.unit(first):
        change = value / base - 1
        if abs(change) >= NEGLIGIBLE:
            text.append(f" {change:+.0%}", style="dim")
    return text


def _type_comparison(runs: Sequence[RunStatistics]) -> Table:
    """The mean run time of each type of task, a column for each run."""
    table = _new_table("run time by type", *_names(runs))
    by_run = [{one.name: one for one in run.types} for run in runs]
    names = list(dict.fromkeys(name for types in by_run for name in types))
    for name in names[:MAX_ROWS]:
        found = [types.get(name) for types in by_run]
        table.add_row(name_cell(name), *(_seconds(f.runtime_s if f else None) for f in found))
    _add_rest(table, len(names))
    return table


_COUNTS = tuple(number_column(name, name) for name in ("tasks", "done", "failed"))


def workflow_table(run: RunStatistics) -> Table:
    """A row for each workflow."""
    columns = (
        RecordColumn("workflow", "name", name_cell),
        *_COUNTS,
        number_column("makespan", "makespan_s", duration),
        number_column("NSL", "nsl", _ratio),
        number_column("run time", "runtime_s", duration),
        number_column("wait", "wait_s", duration),
        number_column("core-h", "used_core_s", _hours),
    )
    return record_table(run.workflows[:MAX_ROWS], columns, more=len(run.workflows) - MAX_ROWS)


def owner_table(shares: OptionalShares) -> Table:
    """A row for each owner of bags with optional tasks."""
    columns = (
        RecordColumn("owner", "owner", lambda owner: name_cell(owner or "-")),
        number_column("done", "completed"),
        RecordColumn("in time", lambda share: "no" if share.unhappy else "yes"),
        number_column("core-h", "allocated_core_s", _hours),
        number_column("deserved", "deserved_core_s", _hours),
        number_column("satisfaction", "satisfaction", _ratio),
    )
    return record_table(shares.owners[:MAX_ROWS], columns, more=len(shares.owners) - MAX_ROWS)


def type_table(types: Sequence[Statistics]) -> Table:
    """A row for each type of task."""
    columns = (
        RecordColumn("type", "name", name_cell),
        *_COUNTS,
        number_column("run time", "runtime_s", duration),
        number_column("p95", "runtime_p95_s", duration),
        number_column("max", "runtime_max_s", duration),
        number_column("CPU", "cpu_share", _percent),
        number_column("MB", "peak_memory_bytes", "{:,.0f}", 1e6),
        number_column("core-h", "used_core_s", _hours),
    )
    return record_table(types[:MAX_ROWS], columns, more=len(types) - MAX_ROWS)


_WAITS = {
    "all": "wait_s", "throttle": "throttle_s", "launcher": "launcher_s", "cores": "room_s",
    "files": "staging_s", "queue": "queue_s", "overhead": "overhead_s",
}  # fmt: skip


def wait_table(types: Sequence[Statistics]) -> Table:
    """The waits of each type of task, by their cause."""
    columns = (
        RecordColumn("wait by type", "name", name_cell),
        *(number_column(heading, field, duration) for heading, field in _WAITS.items()),
    )
    return record_table(types[:MAX_ROWS], columns, more=len(types) - MAX_ROWS)


def site_table(run: RunStatistics) -> Table:
    """A row for each site."""
    columns = (
        RecordColumn("site", "name", name_cell),
        number_column("slots", "slots"),
        number_column("used", "utilization", _percent),
        number_column("done", "done"),
        number_column("errors", "failed_attempts"),
        number_column("run time", "runtime_s", duration),
        number_column("queue", "queue_s", duration),
        number_column("core-h", "used_core_s", _hours),
        number_column("lost", lambda site: site.failed_core_s + site.replica_core_s, _hours),
        number_column("files", "files_in"),
        number_column("MB", "bytes_in", _megabytes),
    )
    return record_table(run.sites, columns)


def has_use(run: RunStatistics) -> bool:
    """Whether the use of resources was measured."""
    return any(one.use.measured for one in run.types)


def use_table(types: Sequence[TypeStatistics]) -> Table:
    """Requested and used resources of each type of task, with what to request next time."""
    table = _new_table("requested / used → next", "cores", "memory", "walltime", "measured")
    for one in types[:MAX_ROWS]:
        use = one.use
        walltime = _use(
            use.requested_walltime_s, use.runtime_max_s, use.suggested_walltime_s, duration
        )
        table.add_row(
            name_cell(one.name),
            _use(use.requested_cores, use.used_cores, use.suggested_cores, _short),
            _use(use.requested_memory_bytes, use.peak_memory_bytes, use.suggested_memory_bytes,
                 _binary_size),
            walltime, str(use.measured),
        )  # fmt: skip
    _add_rest(table, len(types))
    return table


def _use(
    requested: float | None,
    used: float | None,
    suggested: float | None,
    form: Callable[[float], str],
) -> str:
    asked = form(requested) if requested else "-"
    if used is None or suggested is None:
        return f"{asked} / not measured"
    return f"{asked} / {form(used)} → {form(suggested)}"


def _binary_size(size_bytes: float) -> str:
    mebibytes = size_bytes / 2**20
    return f"{mebibytes:,.0f} MiB" if mebibytes < 1024 else f"{mebibytes / 1024:.3g} GiB"


def path_table(path: CriticalPath) -> Table:
    """The parts into which the time of the critical path divides."""
    table = _new_table("critical path", "time", "share")
    for label, part_s in zip(PARTS.values(), path.parts_s, strict=True):
        if part_s >= NEGLIGIBLE * path.length_s > 0:
            table.add_row(label, duration(part_s), _percent(part_s / path.length_s))
    table.add_row(counted(len(path.steps), "task"), duration(path.length_s), "")
    return table


def step_table(path: CriticalPath) -> Table:
    """The tasks of the critical path; if there are more than `MAX_ROWS`, only the longest."""
    table = _new_table("task", "type", "site", "begins", "waits", "run time", "longest wait")
    for column in table.columns[1:3]:
        column.justify = "left"
    by_length = sorted(path.steps, key=lambda step: step.begin_s - step.end_s)
    shown = set(map(id, by_length[:MAX_ROWS]))
    for step in path.steps:
        if id(step) not in shown:
            continue
        waits = {label: s for (name, label), s in zip(PARTS.items(), step.parts_s, strict=True)
                 if name != "runtime_s"}  # fmt: skip
        longest = max(waits, key=lambda label: waits[label])
        table.add_row(
            name_cell(step.task), name_cell(step.type), name_cell(step.site),
            duration(step.begin_s), duration(sum(waits.values())), duration(step.runtime_s),
            longest if waits[longest] > 0 else "-",
        )  # fmt: skip
    _add_rest(table, len(path.steps))
    return table


def _add_rest(table: Table, count: int) -> None:
    if count > MAX_ROWS:
        table.add_row(f"and {count - MAX_ROWS} more")


def _seconds(value: float | None) -> str:
    return "-" if value is None else duration(value)
