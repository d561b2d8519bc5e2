"""Tables with a column for each part of an experiment: a workflow, a load or a size class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from wfrun.runners.experiments.cells import (
    SIZES,
    Case,
    Row,
    Variant,
    grouped,
    makespan_of,
    short_names,
)
from wfrun.runners.experiments.tables.table import (
    MEASURES,
    Column,
    ResultTable,
    endless,
    failure_lines,
    key_columns,
    legend,
    numbers,
    table_width,
    values,
)
from wfrun.runners.metrics.samples import summarize

LONGEST_NAME = 20
"""Maximum length of the name of a workflow in a heading, in characters."""

_BY_LOAD = ("makespan s", "NSL", "in time %")
"""Measures that have a table with a column for each load."""


class PartTable:
    """A table with a title, key columns that identify the rows, and a column of numbers for each
    part.

    Parts that do not fit the terminal are left out; a line below the table gives their number, and
    calls them ``noun``. ``green`` are the cells (row, part) that are shown in green as best values.
    """

    def __init__(
        self, title: str, keys: list[Column], parts: list[Column], noun: str,
        green: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:  # fmt: skip
        self._title = title
        self._keys = keys
        self._parts = parts
        self._noun = noun
        self._green = green

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = list(self._parts)
        while shown and table_width([*self._keys, *shown]) > options.max_width:
            shown.pop()
        yield Text(self._title, style="bold")
        if shown:
            yield self._drawn(shown)
        left_out = len(self._parts) - len(shown)
        if left_out:
            yield Text(f"no room for {left_out} of {len(self._parts)} {self._noun}", style="dim")

    def _drawn(self, parts: list[Column]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading, _ in self._keys:
            table.add_column(heading, overflow="fold")
        for heading, _ in parts:
            table.add_column(heading, justify="right", overflow="fold")
        for number in range(len(self._keys[0][1])):
            table.add_row(
                *(cells[number] for _, cells in self._keys),
                *(
                    Text(cells[number], "green" if (number, place) in self._green else "")
                    for place, (_, cells) in enumerate(parts)
                ),
            )
        return table


def workflow_table(rows: Sequence[Row], names: Sequence[str]) -> PartTable:
    """A table of the mean makespan of each workflow. Its rows and their order are those of
    `ResultTable`."""
    ordered = ResultTable(rows)
    groups = [ordered.groups[key] for key in ordered.order()]
    parts = [
        (
            name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…",
            numbers(
                [
                    [summarize([row.makespans_s[n] for row in group]).mean]
                    if all(row.makespans_s for row in group)
                    else []
                    for group in groups
                ]
            ),
        )
        for n, name in enumerate(names)
    ]
    return PartTable("makespan s of each workflow", ordered.key_columns(), parts, "workflows")


def size_table(rows: Sequence[Row]) -> PartTable:
    """A table of the mean NSL by size class of bags. Its rows and their order are those of
    `ResultTable`.

    It shows differences that the mean over all bags hides (thesis section 5.4.1). If ``rows`` have
    several loads, only rows of the highest load are used.
    """
    highest = max((row.load or 0.0 for row in rows), default=0.0)
    kept = [row for row in rows if (row.load or 0.0) == highest]
    ordered = ResultTable(kept)
    parts: list[Column] = []
    for number, (_, name) in enumerate(SIZES):
        means = [_mean_nsl(ordered.groups[key], number) for key in ordered.order()]
        if any(mean is not None for mean in means):
            parts.append((name, ["-" if mean is None else f"{mean:,.2f}" for mean in means]))
    title = "NSL by the number of tasks of a bag"
    if len({row.load for row in rows}) > 1:
        title += f", at a load of {highest:g}"
    return PartTable(title, ordered.key_columns(), parts, "size classes")


def _mean_nsl(rows: Sequence[Row], size: int) -> float | None:
    """The mean NSL of all bags of a size class; None if there are no such bags, or if a run did not
    finish."""
    count = sum(row.class_bags[size] for row in rows)
    if not count or not all(row.class_nsl for row in rows):
        return None
    return sum(row.class_bags[size] * row.class_nsl[size] for row in rows) / count


class LoadTables:
    """A table for each measure of an experiment with several loads.

    Each table has a column for each load and a row for each workload and variant. The rows of a
    workload are in the order of the mean makespan over all loads. The best values of each workload
    and load are green.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._groups = grouped(rows)
        self._names = short_names(rows)
        self._loads = list(dict.fromkeys(row.load for row in rows))
        workloads = list(dict.fromkeys(row.workload for row in rows))
        lines = dict.fromkeys((case.workload, variant) for case, variant in self._groups)
        means = {
            line: fsum(makespan_of(row) for load in self._loads for row in self._rows(*line, load))
            for line in lines
        }
        self._lines = sorted(lines, key=lambda line: (workloads.index(line[0]), means[line]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        order = [(Case(workload, None), variant) for workload, variant in self._lines]
        keys = key_columns(order, self._names)
        for heading in _BY_LOAD:
            parts = [self._column(heading, load) for load in self._loads]
            green = frozenset(self._best(parts, largest=heading == "in time %"))
            yield PartTable(f"{heading}, by load", keys, parts, "loads", green)
            yield Text()
        parts_of_legend = [
            *legend(_BY_LOAD, bags=True),
            *endless(self._groups),
            "--output FILE keeps the other measures",
        ]
        yield Text("; ".join(parts_of_legend), style="dim")
        names = {
            key: [*(cells[line] for _, cells in keys), *([f"load {load:g}"] if load else [])]
            for line, (workload, variant) in enumerate(self._lines)
            for load in self._loads
            if (key := (Case(workload, load), variant)) in self._groups
        }
        yield from failure_lines(self._groups, names)

    def _rows(self, workload: str | None, variant: Variant, load: float | None) -> list[Row]:
        return self._groups[Case(workload, load), variant]

    def _column(self, heading: str, load: float | None) -> Column:
        measure = MEASURES[heading]
        samples = [values(self._rows(*line, load), measure) for line in self._lines]
        return "-" if load is None else f"{load:g}", numbers(samples, measure.decimals)

    def _best(self, parts: list[Column], *, largest: bool) -> Iterator[tuple[int, int]]:
        """The cells (row, part) with the best value of each workload and load."""
        choose = max if largest else min
        for part, (_, cells) in enumerate(parts):
            shown = [_shown(cell) for cell in cells]
            for workload in dict.fromkeys(workload for workload, _ in self._lines):
                places = [n for n, line in enumerate(self._lines) if line[0] == workload]
                best = choose((s for n in places if (s := shown[n]) is not None), default=None)
                yield from ((n, part) for n in places if shown[n] is not None and shown[n] == best)


def _shown(cell: str) -> float | None:
    """The rounded value that a cell shows, so that cells with equal texts count as equally good.
    None: the cell shows no value."""
    return None if cell == "-" else float(cell.split()[0].replace(",", ""))
