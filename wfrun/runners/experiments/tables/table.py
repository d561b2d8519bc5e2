"""The table of an experiment: a row for each variant, and what is common to all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum, isclose
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from wfrun.runners.display.console import Hanging
from wfrun.runners.experiments.cells import (
    Case,
    Row,
    Variant,
    grouped,
    makespan_of,
    short_names,
    varies_throttle,
)
from wfrun.runners.metrics.samples import Summary, summarize


class Measure(NamedTuple):
    """A measure of runs as a column of a table."""

    heading: str
    field: str
    """Name of the field of `Row`."""
    factor: float = 1.0
    """Factor from the unit of the field to the unit in the heading."""
    decimals: int | None = None
    """Number of decimals. None: about three digits of the largest value."""
    hidden_at_zero: bool = False
    """The column is left out where all values are 0."""


MEASURES = {
    measure.heading: measure
    for measure in (
        Measure("makespan s", "makespan_s"),
        Measure("NSL", "nsl", decimals=2),
        Measure("QWT s", "qwt_s"),
        Measure("FTD s", "ftd_s"),
        Measure("transfers", "transfers"),
        Measure("moved MB", "moved_bytes", 1e-6),
        Measure("core h", "core_s", 1 / 3600, 2),
        Measure("in time %", "completed_share", 100.0, 1),
        Measure("used %", "utilization", 100.0, 1),
        Measure("replicas", "replicas_started", 1.0, 0, hidden_at_zero=True),
        Measure("wasted %", "wasted_share", 100.0, 1, hidden_at_zero=True),
        Measure("unhappy", "unhappy_owners", 1.0, 0),
        Measure("unfairness", "unfairness", decimals=2),
        Measure("failed", "failed", hidden_at_zero=True),
    )
}
_LEFT_OUT_FIRST = (
    "moved MB", "core h", "transfers", "FTD s", "QWT s", "used %", "replicas", "wasted %",
    "in time %", "NSL", "unfairness", "unhappy", "failed",
)  # fmt: skip
"""The order in which columns are left out on a narrow terminal."""
_LEGENDS = (
    ("NSL", "NSL: makespan over critical path"),
    ("QWT s", "QWT: queue wait of a task"),
    ("FTD s", "FTD: file transfer delay of a task"),
    ("core h", "core h: cores in use times hours"),
    ("unhappy", "unhappy: owners without their mandatory results at the deadline"),
    ("failed", "failed: tasks that are not done, without which there is no makespan"),
)
_LEGENDS_OF_BAGS = (
    ("NSL", "makespan, NSL: means over the bags, NSL relative to the sum of their run times"),
    ("in time %", "in time: tasks done when the last bag arrives"),
    ("used %", "used: processors in use until then"),
    ("failed", "failed: tasks that are not done, without which there is no makespan"),
)
_NAMES = ("workload", "architecture", "selection", "policy")
"""Columns that hold no numbers."""

Column = tuple[str, list[str]]
"""A heading and its cells."""


class ResultTable:
    """The table of an experiment: a row for each variant, grouped by workload and load. With
    several seeds, values are means with 95% confidence intervals.

    In each group the rows without failed tasks come first, in the order of their mean makespans. On
    a narrow terminal columns are left out rather than cut.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.groups = grouped(rows)
        self._names = short_names(rows)
        self._means = {
            key: fsum(makespan_of(row) for row in group) / len(group)
            for key, group in self.groups.items()
        }
        self._best = self._least_means()
        self._seeds = max((len(group) for group in self.groups.values()), default=0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, left_out = fitting(self._columns(), _LEFT_OUT_FIRST, options.max_width)
        yield draw_table(columns)
        parts = legend([heading for heading, _ in columns], bags=self._of_bags())
        if self._seeds > 1:
            parts.append(f"means of {self._seeds} seeds, ± their 95% confidence interval")
        parts += endless(self.groups)
        if left_out:
            parts.append(f"no room for {', '.join(left_out)}")
        yield Text("; ".join(parts), style="dim")
        names = zip(*(cells for _, cells in self.key_columns()), strict=True)
        yield from failure_lines(self.groups, dict(zip(self.order(), names, strict=True)))

    def order(self) -> list[tuple[Case, Variant]]:
        """The keys of the rows in their order: by case; within a case, rows without failed tasks
        first, then by mean makespan."""
        cases = list(dict.fromkeys(case for case, _ in self.groups))
        return sorted(
            self.groups,
            key=lambda key: (cases.index(key[0]), self._failed(key), self._means[key]),
        )

    def key_columns(self) -> list[Column]:
        """Columns that identify the rows: the policy, and each other dimension with several
        values."""
        return key_columns(self.order(), self._names)

    def _of_bags(self) -> bool:
        return any(row.bags is not None for group in self.groups.values() for row in group)

    def _failed(self, key: tuple[Case, Variant]) -> bool:
        return any(row.failed for row in self.groups[key])

    def _least_means(self) -> dict[Case, float]:
        best: dict[Case, float] = {}
        for key, mean in self._means.items():
            if not self._failed(key):
                best[key[0]] = min(mean, best.get(key[0], mean))
        return best

    def _columns(self) -> list[Column]:
        order = self.order()
        columns = self.key_columns()
        for measure in MEASURES.values():
            samples = [values(self.groups[key], measure) for key in order]
            if not any(samples) or (measure.hidden_at_zero and not any(map(any, samples))):
                continue
            columns.append((measure.heading, numbers(samples, measure.decimals)))
            if measure.heading == "makespan s":
                columns.append(("vs best", [self._versus(key) for key in order]))
        return columns

    def _versus(self, key: tuple[Case, Variant]) -> str:
        best = self._best.get(key[0])
        if best is None or self._failed(key):
            return "-"
        if isclose(self._means[key], best, rel_tol=1e-9):
            return "best"
        more = self._means[key] / best - 1 if best else float("inf")
        if more >= 9:
            return f"{more + 1:,.0f}×"
        return f"+{more:,.1%}" if more < 0.1 else f"+{more:,.0%}"


def key_columns(
    order: Sequence[tuple[Case, Variant]], names: dict[str | None, str]
) -> list[Column]:
    """Columns that identify the rows: the policy, and each other dimension with several values."""
    columns: list[Column] = [
        ("workload", [names[case.workload] for case, _ in order]),
        ("architecture", [variant.architecture for _, variant in order]),
        ("selection", [variant.selection or "-" for _, variant in order]),
        ("policy", [variant.policy for _, variant in order]),
        ("load", [_or_dash(case.load) for case, _ in order]),
    ]
    if varies_throttle(variant for _, variant in order):
        columns.insert(4, ("throttle", [_or_dash(variant.throttle) for _, variant in order]))
    return [(name, cells) for name, cells in columns if name == "policy" or len(set(cells)) > 1]


def _or_dash(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "-" if value is None else f"{value:g}"


MAX_FAILURES = 8
"""Maximum number of variants whose failures are explained below a table."""


def failure_lines(
    groups: Mapping[tuple[Case, Variant], Sequence[Row]],
    names: Mapping[tuple[Case, Variant], Sequence[str]],
) -> Iterator[RenderableType]:
    """A line for each variant with runs that did not finish: the number of these runs, and why the
    first of them did not finish. ``names`` are the cells that identify a variant in the table.
    After MAX_FAILURES lines, one line with the number of further variants."""
    failed = [key for key in names if any(row.makespan_s is None for row in groups[key])]
    for key in failed[:MAX_FAILURES]:
        unfinished = [row for row in groups[key] if row.makespan_s is None]
        count = f" with {len(unfinished)} of {len(groups[key])} seeds" * (len(groups[key]) > 1)
        why = f": {unfinished[0].failure}" if unfinished[0].failure else ""
        name = " ".join(name for name in names[key] if name != "-")
        yield Hanging(Text(f"{name} did not finish{count}{why}", style="red"))
    if len(failed) > MAX_FAILURES:
        more = len(failed) - MAX_FAILURES
        yield Text(f"{more} more did not finish; --output FILE keeps why", style="red")


def values(rows: Sequence[Row], measure: Measure) -> list[float]:
    """Values of a measure in ``rows``, in the unit of the heading. Empty if any row lacks the
    measure, because a mean over the other rows would hide the missing one."""
    found = [getattr(row, measure.field) for row in rows]
    if None in found:
        return []
    return [value * measure.factor for value in found]


def legend(headings: Sequence[str], *, bags: bool) -> list[str]:
    """Explanations of the headings that are in the table."""
    return [text for name, text in (_LEGENDS_OF_BAGS if bags else _LEGENDS) if name in headings]


def endless(groups: Mapping[tuple[Case, Variant], Sequence[Row]]) -> list[str]:
    """A remark for the table if loads are above 1, where bags arrive faster than the sites can
    execute them; otherwise no remark. Only for workloads of bags."""
    over = any(
        case.load is not None and case.load > 1 and any(row.bags is not None for row in rows)
        for (case, _), rows in groups.items()
    )
    return ["at loads above 1 queues grow as long as bags arrive, and means with them"] * over


def draw_table(columns: Sequence[Column]) -> Table:
    """Draw a table with names at the left and numbers at the right. A row with the cell "best" is
    green."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, _ in columns:
        justify: Literal["left", "right"] = "left" if heading in _NAMES else "right"
        table.add_column(heading, justify=justify, overflow="fold")
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row, style="green" if "best" in row else "")
    return table


def fitting(
    columns: list[Column], left_out_first: Sequence[str], width: int
) -> tuple[list[Column], list[str]]:
    """Leave out columns in the order of ``left_out_first`` until the table fits into ``width``
    characters. Returns the remaining columns, and the headings of the columns that were left
    out."""
    left_out = []
    for heading in left_out_first:
        if table_width(columns) <= width:
            break
        kept = [column for column in columns if column[0] != heading]
        if len(kept) < len(columns):
            left_out.append(heading)
        columns = kept
    return columns, left_out


def table_width(columns: Sequence[Column]) -> int:
    """Width in characters of the table that ``draw_table`` draws."""
    return sum(2 + max(map(len, [heading, *cells])) for heading, cells in columns) - 2


def numbers(samples: Sequence[Sequence[float]], decimals: int | None = None) -> list[str]:
    """Means of samples with their confidence intervals, as texts with equal numbers of decimals. By
    default the largest mean has about three digits; if all means are whole numbers, there are no
    decimals. An empty sample gives "-"."""
    summaries = [summarize(sample) if sample else None for sample in samples]
    known = [summary for summary in summaries if summary is not None]
    if decimals is None:
        largest = max((abs(s.mean) for s in known), default=0.0)
        decimals = 2 if largest < 10 else 1 if largest < 1000 else 0
    if all(s.mean == int(s.mean) and not s.half_width for s in known):
        decimals = 0
    return ["-" if s is None else _number(s, decimals) for s in summaries]


def _number(summary: Summary, decimals: int) -> str:
    text = f"{summary.mean:,.{decimals}f}" if summary.mean else "0"
    if summary.half_width and round(summary.half_width, decimals):
        text += f" ±{summary.half_width:,.{decimals}f}"
    return text
