"""What a grid of simulated runs looks like to its user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from wfrun.runners.experiments.metrics.samples import Summary, summarize
from wfrun.runners.experiments.results import GroupKey, Row, grouped, short_names

_MEASURES: Mapping[str, tuple[str, float]] = {
    "makespan s": ("makespan_s", 1.0),
    "NSL": ("nsl", 1.0),
    "QWT s": ("qwt_s", 1.0),
    "FTD s": ("ftd_s", 1.0),
    "transfers": ("transfers", 1.0),
    "moved MB": ("moved_bytes", 1e-6),
    "core h": ("core_s", 1 / 3600),
    "failed": ("failed", 1.0),
}
"""Headings, each with a field of Row and what turns it into the unit of the heading."""
_DECIMALS = {"NSL": 2, "core h": 2}
_LESS_WANTED = ("moved MB", "core h", "transfers", "FTD s", "QWT s", "NSL", "failed")
"""In this order columns are left out where the terminal is narrow."""
LONGEST_NAME = 20
"""Of a workflow, in the heading of its column."""

_NAMES = ("workflow", "workload", "architecture", "selection", "policy")
"""Columns that hold no numbers."""

Column = tuple[str, list[str]]
"""A heading and its cells."""


class ResultTable:
    """A row for each policy, throttle and load, the best first among those of one load; for each
    workflow, if each was simulated on its own. With several seeds, means with 95% confidence
    intervals.

    The best is that of the least mean makespan among those in which no task failed. On a narrow
    terminal columns are left out rather than cut.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.groups = grouped(rows)
        self._names = short_names(rows)
        self._means = {
            key: summarize([row.makespan_s for row in group]).mean
            for key, group in self.groups.items()
        }
        self._best = self._least_means()
        self._seeds = max((len(group) for group in self.groups.values()), default=0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, left_out = fitting(self._columns(), _LESS_WANTED, options.max_width)
        yield draw_table(columns)
        yield Text(self._legend(left_out), style="dim")

    def order(self) -> list[GroupKey]:
        """The rows: by workflow and load, those in which tasks failed behind the others, the best
        first."""
        cases = list(dict.fromkeys((key.workflow, key.load) for key in self.groups))
        return sorted(
            self.groups,
            key=lambda key: (
                cases.index((key.workflow, key.load)),
                self._failed(key),
                self._means[key],
            ),
        )

    def key_columns(self) -> list[Column]:
        """Policy, and workflow, throttle and load where they were asked for."""
        order = self.order()
        columns = [("policy", [key.policy for key in order])]
        if any(key.workflow is not None for key in order):
            columns.insert(0, ("workflow", [self._names[key.workflow] for key in order]))
        if any(key.throttle is not None for key in order):
            throttles = ["-" if key.throttle is None else str(key.throttle) for key in order]
            columns.append(("throttle", throttles))
        if any(key.load is not None for key in order):
            loads = ["-" if key.load is None else f"{key.load:g}" for key in order]
            columns.append(("load", loads))
        return columns

    def _failed(self, key: GroupKey) -> bool:
        return any(row.failed for row in self.groups[key])

    def _least_means(self) -> dict[tuple[str | None, float | None], float]:
        """Of each workflow and load."""
        best: dict[tuple[str | None, float | None], float] = {}
        for key, mean in self._means.items():
            if not self._failed(key):
                case = (key.workflow, key.load)
                best[case] = min(mean, best.get(case, mean))
        return best

    def _columns(self) -> list[Column]:
        order = self.order()
        columns = self.key_columns()
        for heading, (name, unit) in _MEASURES.items():
            if heading == "failed" and not any(map(self._failed, order)):
                continue
            values = [[getattr(row, name) * unit for row in self.groups[key]] for key in order]
            columns.append((heading, numbers(values, _DECIMALS.get(heading))))
            if heading == "makespan s":
                columns.append(("vs best", [self._versus(key) for key in order]))
        return columns

    def _versus(self, key: GroupKey) -> str:
        best = self._best.get((key.workflow, key.load))
        if best is None or self._failed(key):
            return "-"
        if isclose(self._means[key], best, rel_tol=1e-9):
            return "best"
        more = self._means[key] / best - 1 if best else float("inf")
        if more >= 9:
            return f"{more + 1:,.0f}×"
        return f"+{more:,.1%}" if more < 0.1 else f"+{more:,.0%}"

    def _legend(self, left_out: Sequence[str]) -> str:
        parts = [
            "NSL: makespan over critical path; QWT, FTD: queue wait and file transfer delay of "
            "a task; core h: cores in use times hours"
        ]
        if self._seeds > 1:
            parts.append(f"means of {self._seeds} seeds, ± their 95% confidence interval")
        if left_out:
            parts.append(f"no room for {', '.join(left_out)}")
        return "; ".join(parts)


def draw_table(columns: Sequence[Column]) -> Table:
    """Names at the left, numbers at the right; rows that are ``best`` in something are green."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, _ in columns:
        justify: Literal["left", "right"] = "left" if heading in _NAMES else "right"
        table.add_column(heading, justify=justify, overflow="fold")
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row, style="green" if "best" in row else "")
    return table


def fitting(
    columns: list[Column], less_wanted: Sequence[str], most: int
) -> tuple[list[Column], list[str]]:
    """The columns without as many of those that are less wanted, the least first, as it takes to
    draw them in ``most`` characters; and the headings of these."""
    left_out = []
    for heading in less_wanted:
        if table_width(columns) <= most:
            break
        kept = [column for column in columns if column[0] != heading]
        if len(kept) < len(columns):
            left_out.append(heading)
        columns = kept
    return columns, left_out


def table_width(columns: Sequence[Column]) -> int:
    """In characters, as ``draw_table`` draws it."""
    return sum(2 + max(map(len, [heading, *cells])) for heading, cells in columns) - 2


def numbers(samples: Sequence[Sequence[float]], decimals: int | None = None) -> list[str]:
    """Means of samples with their confidence intervals, all with the same decimals, by default
    about three digits of the largest; means of whole numbers have none."""
    summaries = [summarize(sample) for sample in samples]
    if decimals is None:
        largest = max(abs(s.mean) for s in summaries)
        decimals = 2 if largest < 10 else 1 if largest < 1000 else 0
    if all(s.mean == int(s.mean) and not s.half_width for s in summaries):
        decimals = 0
    return [_number(s, decimals) for s in summaries]


def _number(summary: Summary, decimals: int) -> str:
    text = f"{summary.mean:,.{decimals}f}" if summary.mean else "0"
    if summary.half_width and round(summary.half_width, decimals):
        text += f" ±{summary.half_width:,.{decimals}f}"
    return text


class WorkflowTable:
    """The mean makespan of each workflow, a column each, with the rows of `ResultTable`. Workflows
    for which a terminal has no room are counted below."""

    def __init__(self, rows: Sequence[Row], names: Sequence[str]) -> None:
        self._rows = rows
        self._names = names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ordered = ResultTable(self._rows)
        columns = ordered.key_columns()
        groups = [ordered.groups[key] for key in ordered.order()]
        keys = len(columns)
        for number, name in enumerate(self._names):
            means = [[summarize([r.makespans_s[number] for r in group]).mean] for group in groups]
            column = (_short(name), numbers(means))
            if table_width([*columns, column]) > options.max_width:
                break
            columns.append(column)
        shown = len(columns) - keys
        if not shown:
            return
        yield Text("makespan s of each workflow", style="bold")
        yield draw_table(columns)
        if shown < len(self._names):
            left = len(self._names) - shown
            yield Text(f"no room for {left} of {len(self._names)} workflows", style="dim")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
