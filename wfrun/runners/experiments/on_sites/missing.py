"""Simulations as a bag of tasks at the sites of a catalog, with the contract of `run_missing`.

Each task simulates enough cells for its run time to be much longer than its start-up.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Generic, TypeVar

import click
import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.model import Catalog
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.parsers.foreign import number_of
from wfrun.runners.experiments.on_sites import work
from wfrun.runners.experiments.on_sites.bag_run import BagRun
from wfrun.runners.experiments.on_sites.collector import RowCollector
from wfrun.runners.experiments.on_sites.driving import drive, stop
from wfrun.runners.experiments.on_sites.installation import installation
from wfrun.runners.experiments.on_sites.sites import prepared
from wfrun.runners.experiments.processes import Progress, no_progress, timed
from wfrun.runners.experiments.tables.results import CellT, Results, RowT
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.sites.catalog import read_catalog


def run_missing_on(
    sites: Path,
    cells: Sequence[CellT],
    results: Results[CellT, RowT],
    simulate: Callable[[CellT], RowT],
    progress: Progress = no_progress,
    files: work.Files | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Simulate the cells that have no rows in ``results``, as a bag of tasks at the sites of a
    catalog. ``files`` are the files that ``simulate`` reads. The first cell is simulated on this
    machine, to measure its run time. Prints the runs that it starts, continues and stops, unless
    ``quiet``.

    Runs are kept in FILE.runs beside the file of results. An interrupted run is continued, and rows
    that its tasks have written meanwhile are added. Errors of cells are treated as by
    `run_missing`. Raises InvalidError if ``results`` has no file, and for a wrong catalog;
    InfeasibleError if sites cannot run the simulations.
    """
    if results.path is None:
        raise InvalidError(
            "--on keeps finished simulations in a file", hint="name the file with --output"
        )
    files = files or {}
    work.check_readable(files)
    parts = installation()
    catalog = prepared(read_catalog(sites), parts)
    collector = RowCollector(cells, results, progress)
    folder = results.path.with_name(f"{results.path.name}.runs")
    earlier = _Earlier(collector, results.cell_type, catalog, parts, quiet=quiet)
    number = earlier.finish(folder)
    missing = [cell for cell in cells if cell in collector.missing]
    if not missing:
        return
    first = None
    try:
        first = timed(missing[0], simulate, WANTED_S)
    except PolicyError as error:
        results.leave_out(error)
        missing = missing[1:]
    if first is not None:
        collector.add(first.row)
        missing = missing[1:]
    if missing:
        slots = sum(site.slots for site in catalog.sites)
        size = chunk_size(len(missing), None if first is None else first.elapsed_s, slots)
        chunks = chunks_of(missing, size)
        bag = BagRun(folder / str(number))
        session = bag.start(simulate, chunks, files, catalog, parts)
        names = ", ".join(site.name for site in catalog.sites)
        count = f"{len(chunks)} task{'' if len(chunks) == 1 else 's'}"
        _say(bag, f"{len(missing)} simulated runs in {count} at {names}", quiet=quiet)
        drive(session, bag, collector, catalog)
    if collector.missing and not results.broken:
        raise InfeasibleError(
            f"{len(collector.missing)} simulated runs are not among the rows of their tasks",
            source=str(folder),
            hint="the same command simulates them again",
        )


def _say(bag: BagRun, text: str, *, quiet: bool) -> None:
    if not quiet:
        click.echo(f"run {bag.run.path}: {text}", err=True)


class _Earlier(Generic[CellT, RowT]):
    """The runs of earlier commands."""

    def __init__(
        self,
        collector: RowCollector[CellT, RowT],
        cell_type: type[CellT],
        catalog: Catalog,
        parts: Sequence[str],
        *,
        quiet: bool,
    ) -> None:
        self._collector = collector
        self._cell_type = cell_type
        self._catalog = catalog
        self._parts = list(parts)
        self._quiet = quiet

    def finish(self, folder: Path) -> int:
        """Add the rows of the runs in ``folder``, and continue the run that has not ended. Delete
        folders of runs that never began. Returns the number of the next run.

        An open run is stopped instead of continued if another installation began it, if one of its
        simulations failed, or if some of its remaining cells have rows already or are not wanted
        now.
        """
        numbers = sorted(
            number for path in folder.glob("*") if (number := number_of(path.name)) is not None
        )
        for number in numbers:
            bag = BagRun(folder / str(number))
            if bag.has_begun:
                self._finish(bag)
            else:
                shutil.rmtree(bag.folder)
        return max(numbers, default=0) + 1

    def _finish(self, bag: BagRun) -> None:
        self._collector.take(bag)
        failed = self._collector.forget_error()
        ended = read_state(bag.run).ended
        if ended == "done":
            return
        began, rest = bag.rest()
        missing = self._collector.missing
        wanted = all(msgspec.convert(cell, self._cell_type) in missing for cell in rest)
        if self._parts == began and wanted and not failed:
            _say(bag, "continued", quiet=self._quiet)
            drive(bag.resume(self._catalog), bag, self._collector, self._catalog)
        elif ended is None:
            why = "stopped: this command simulates others, or with another wfrun"
            _say(bag, why, quiet=self._quiet)
            stop(bag.resume(None))
            self._collector.take(bag)
            self._collector.forget_error()


T = TypeVar("T")

LEAST_S = 5.0
"""Minimum run time of a task, in seconds on this machine. A task costs its site about a second for
the start of an interpreter and for its inputs."""
WANTED_S = 30.0
"""Intended run time of a task, in seconds, if there are enough cells for all slots. An interrupt
costs at most the work of the running tasks."""
TASKS_PER_SLOT = 4
"""Minimum number of tasks for each slot, which keeps slots busy until the end. There are fewer
tasks if they would be shorter than LEAST_S."""


def chunk_size(cells: int, cell_s: float | None, slots: int) -> int:
    """Number of cells that one task simulates. A task runs for about WANTED_S. If there are too few
    cells for TASKS_PER_SLOT tasks on each of the ``slots``, tasks are shorter, but run for at least
    LEAST_S. ``cell_s`` is the measured run time of a cell in seconds; None: it is longer than
    WANTED_S, or unknown because its policy raised."""
    if cell_s is None:
        return 1
    cell_s = max(cell_s, 1e-6)
    balanced = min(ceil(WANTED_S / cell_s), cells // (slots * TASKS_PER_SLOT))
    return max(1, min(cells, max(balanced, ceil(LEAST_S / cell_s))))


def chunks_of(cells: Sequence[T], size: int) -> list[Sequence[T]]:
    """Divide the cells into chunks of ``size`` cells, in their order. Cells with the same workload
    are adjacent and mostly share a chunk."""
    return [cells[first : first + size] for first in range(0, len(cells), size)]
