"""Statistics of runs as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from wfrun.engine.explain.visible import name_line
from wfrun.runners.inspect.tables.results import without_formulas
from wfrun.runners.metrics.statistics import (
    RunStatistics,
    SiteStatistics,
    Statistics,
    WorkflowStatistics,
)

COLUMNS = tuple(
    dict.fromkeys(
        ("run", "scope", *WorkflowStatistics.__struct_fields__, *SiteStatistics.__struct_fields__)
    )
)


def write_csv(stream: TextIO, runs: Sequence[RunStatistics]) -> None:
    """Write a row for each run, workflow, type of task and site; ``scope`` says which it is. No
    cell is a formula to a spreadsheet."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        name = name_line(Path(run.path).name)
        for scope, statistics in _scopes(run):
            cells: dict[str, Any] = msgspec.structs.asdict(statistics)
            cells |= {"run": name, "scope": scope, "name": name_line(statistics.name)}
            row = [cells.get(column) for column in COLUMNS]
            writer.writerow(
                without_formulas([round(c, 6) if isinstance(c, float) else c for c in row])
            )


def _scopes(run: RunStatistics) -> Iterator[tuple[str, Statistics]]:
    yield "run", run.total
    for scope, parts in (("workflow", run.workflows), ("type", run.types), ("site", run.sites)):
        for part in parts:
            yield scope, part
