"""What simulated workloads of bags look like to their user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from wfrun.runners.experiments.bag_rows import SIZES, BagCell, BagRow
from wfrun.runners.experiments.metrics.samples import summarize
from wfrun.runners.experiments.table import Column, draw_table, fitting, numbers, table_width

_MEASURES: Mapping[str, tuple[str, float, int | None]] = {
    "makespan s": ("makespan_s", 1.0, None),
    "NSL": ("nsl", 1.0, 2),
    "in time %": ("completed_share", 100.0, 1),
    "used %": ("utilization", 100.0, 1),
    "replicas": ("replicas_started", 1.0, 0),
    "wasted %": ("wasted_share", 100.0, 1),
}
"""Headings, each with a field of BagRow, what turns it into the unit, and its decimals."""
_OF_REPLICAS = ("replicas", "wasted %")
_OF_LOADS = ("makespan s", "NSL", "in time %")
_LEGEND = (
    "makespan, NSL: means of the bags, NSL over the sum of their run times; in time: tasks done "
    "until the last bag arrives"
)
_LESS_WANTED = ("used %", "replicas", "wasted %", "in time %")


class Case(NamedTuple):
    """What rows are compared within."""

    workload: str
    load: float | None


class Variant(NamedTuple):
    """What is compared."""

    architecture: str
    selection: str
    policy: str


Group = tuple[Case, Variant]


def group_of(cell: BagCell) -> Group:
    """Of cells that differ by their seed alone."""
    variant = Variant(cell.architecture, cell.selection, cell.policy)
    return Case(cell.workload, cell.load), variant


def grouped(rows: Sequence[BagRow]) -> dict[Group, list[BagRow]]:
    """Rows that differ by their seed alone, together."""
    groups: dict[Group, list[BagRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    return groups


class BagTable:
    """A row for each architecture, selection policy and policy, those of one workload and load
    together, the least mean makespan first. With several seeds, means with 95% confidence
    intervals. On a narrow terminal columns are left out rather than cut."""

    def __init__(self, rows: Sequence[BagRow]) -> None:
        self._groups = grouped(rows)
        self._means = {
            group: summarize([row.makespan_s for row in found]).mean
            for group, found in self._groups.items()
        }
        self._best: dict[Case, float] = {}
        for (case, _), mean in self._means.items():
            self._best[case] = min(mean, self._best.get(case, mean))
        self._seeds = max(map(len, self._groups.values()), default=0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, left_out = fitting(self._columns(), _LESS_WANTED, options.max_width)
        yield draw_table(columns)
        legend = _LEGEND + ", used: processors in use until then"
        if self._seeds > 1:
            legend += f"; means of {self._seeds} seeds, ± their 95% confidence interval"
        if left_out:
            legend += f"; no room for {', '.join(left_out)}"
        yield Text(legend, style="dim")

    def order(self) -> list[Group]:
        """The rows."""
        cases = list(dict.fromkeys(case for case, _ in self._groups))
        return sorted(self._groups, key=lambda g: (cases.index(g[0]), self._means[g]))

    def _columns(self) -> list[Column]:
        order = self.order()
        columns = _keys(order)
        for heading, (name, unit, decimals) in _MEASURES.items():
            values = [[getattr(row, name) * unit for row in self._groups[g]] for g in order]
            if heading in _OF_REPLICAS and not any(map(any, values)):
                continue
            columns.append((heading, numbers(values, decimals)))
            if heading == "makespan s":
                columns.append(("vs best", [self._versus(g) for g in order]))
        return columns

    def _versus(self, group: Group) -> str:
        mean, best = self._means[group], self._best[group[0]]
        if isclose(mean, best, rel_tol=1e-9):
            return "best"
        more = mean / best - 1 if best else float("inf")
        if more >= 9:
            return f"{more + 1:,.0f}×"
        return f"+{more:,.1%}" if more < 0.1 else f"+{more:,.0%}"


def _keys(order: Sequence[Group]) -> list[Column]:
    """What tells the rows apart: the policy, and all else of which there are several."""
    names: list[Column] = [
        ("workload", [case.workload.partition(" #")[0] for case, _ in order]),
        ("load", ["-" if case.load is None else f"{case.load:g}" for case, _ in order]),
        ("architecture", [variant.architecture for _, variant in order]),
        ("selection", [variant.selection for _, variant in order]),
        ("policy", [variant.policy for _, variant in order]),
    ]
    return [(name, cells) for name, cells in names if name == "policy" or len(set(cells)) > 1]


class LoadTables:
    """For several loads: a table for each measure, with a column for each load and a row for each
    architecture, selection policy and policy, the least makespan over all loads first. The best of
    each load is green. Loads for which a terminal has no room are counted below."""

    def __init__(self, rows: Sequence[BagRow]) -> None:
        self._groups = grouped(rows)
        self._loads = list(dict.fromkeys(row.load for row in rows))
        workloads = list(dict.fromkeys(row.workload for row in rows))
        lines = dict.fromkeys((case.workload, variant) for case, variant in self._groups)
        means = {
            line: summarize(
                [row.makespan_s for load in self._loads for row in self._rows(*line, load)]
            ).mean
            for line in lines
        }
        self._lines = sorted(lines, key=lambda line: (workloads.index(line[0]), means[line]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for heading in _OF_LOADS:
            keys = _keys([(Case(workload, None), variant) for workload, variant in self._lines])
            columns = [self._column(heading, load) for load in self._loads]
            while len(columns) > 1 and table_width([*keys, *columns]) > options.max_width:
                columns.pop()
            yield Text(f"{heading}, by load", style="bold")
            yield self._drawn(keys, columns, least=heading != "in time %")
            left_out = len(self._loads) - len(columns)
            if left_out:
                yield Text(f"no room for {left_out} of {len(self._loads)} loads", style="dim")
            yield Text()
        yield Text(_LEGEND + "; --output FILE keeps the other measures", style="dim")

    def _rows(self, workload: str, variant: Variant, load: float | None) -> list[BagRow]:
        return self._groups[Case(workload, load), variant]

    def _column(self, heading: str, load: float | None) -> Column:
        name, unit, decimals = _MEASURES[heading]
        values = [
            [getattr(row, name) * unit for row in self._rows(*line, load)] for line in self._lines
        ]
        return "-" if load is None else f"{load:g}", numbers(values, decimals)

    def _drawn(self, keys: list[Column], columns: list[Column], *, least: bool) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading, _ in keys:
            table.add_column(heading)
        for heading, _ in columns:
            table.add_column(heading, justify="right")
        choose = min if least else max
        best: dict[tuple[str, int], float] = {}
        for (workload, _), *cells in zip(self._lines, *(c for _, c in columns), strict=True):
            for place, cell in enumerate(cells):
                value = _value(cell)
                best[workload, place] = choose(value, best.get((workload, place), value))
        for number, (workload, _) in enumerate(self._lines):
            shown = [
                Text(cells[number], "green" if _value(cells[number]) == best[workload, place]
                     else "")
                for place, (_, cells) in enumerate(columns)
            ]  # fmt: skip
            table.add_row(*(cells[number] for _, cells in keys), *shown)
        return table


def _value(cell: str) -> float:
    """As it is shown: what looks the same is equally good."""
    return float(cell.split()[0].replace(",", ""))


class SizeTable:
    """The mean NSL of the bags of each size, with the rows of `BagTable`, of several loads those of
    the highest: what the mean of all hides (thesis section 5.4.1)."""

    def __init__(self, rows: Sequence[BagRow]) -> None:
        self._highest = max((row.load or 0.0 for row in rows), default=0.0)
        self._several = len({row.load for row in rows}) > 1
        kept = [row for row in rows if (row.load or 0.0) == self._highest]
        self._groups = grouped(kept)
        self._order = BagTable(kept).order()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        order = self._order
        columns = _keys(order)
        for number, (_, name) in enumerate(SIZES):
            means = [_mean_nsl(self._groups[group], number) for group in order]
            if any(mean is not None for mean in means):
                cells = ["-" if mean is None else f"{mean:,.2f}" for mean in means]
                columns.append((name, cells))
        left_out = 0
        while table_width(columns) > options.max_width:
            columns.pop()
            left_out += 1
        title = "NSL by the number of tasks of a bag"
        if self._several:
            title += f", at a load of {self._highest:g}"
        yield Text(title, style="bold")
        yield draw_table(columns)
        if left_out:
            yield Text(f"no room for {left_out} classes of size", style="dim")


def _mean_nsl(rows: Sequence[BagRow], size: int) -> float | None:
    """Over all bags of the class; None: there is none."""
    count = sum(row.class_bags[size] for row in rows)
    if not count:
        return None
    return sum(row.class_bags[size] * row.class_nsl[size] for row in rows) / count
