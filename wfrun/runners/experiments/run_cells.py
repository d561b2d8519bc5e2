"""The cells of an experiment, on this machine or at sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.processes import Progress, no_progress, run_missing
from wfrun.runners.experiments.tables.results import CellT, Results, RowT


def run_cells(
    cells: Sequence[CellT],
    results: Results[CellT, RowT],
    simulate: Callable[[CellT], RowT],
    progress: Progress = no_progress,
    *,
    processes: int | None = None,
    on: Path | None = None,
    files: Files | None = None,
    quiet: bool = False,
) -> None:
    """Simulate the cells that ``results`` does not have: in processes of this machine, or ``on``
    the sites of a catalog, where ``files`` are those that ``simulate`` reads. The rows, and their
    order, are the same. See `run_missing` and `run_missing_on`, which says less if ``quiet``."""
    if on is None:
        run_missing(cells, results, simulate, processes, progress)
    else:
        from wfrun.runners.experiments.on_sites.missing import run_missing_on

        run_missing_on(on, cells, results, simulate, progress, files, quiet=quiet)
    results.arrange(cells)
