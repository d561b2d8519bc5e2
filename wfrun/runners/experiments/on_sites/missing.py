"""Simulations as a bag of tasks over the sites of a catalog, with the contract of `run_missing`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.model import Catalog
from wfrun.runners.experiments.on_sites import work
from wfrun.runners.experiments.on_sites.bag_run import BagRun
from wfrun.runners.experiments.on_sites.chunks import WANTED_S, chunk_size, chunks_of
from wfrun.runners.experiments.on_sites.collector import Collector
from wfrun.runners.experiments.on_sites.driving import drive, stop
from wfrun.runners.experiments.on_sites.installation import installation
from wfrun.runners.experiments.on_sites.sites import prepared
from wfrun.runners.experiments.processes import Progress, no_progress, timed
from wfrun.runners.experiments.results import CellT, Results, RowT
from wfrun.runners.run.session import read_state
from wfrun.sites.catalog import read_catalog


def run_missing_on(
    sites: Path,
    cells: Sequence[CellT],
    results: Results[CellT, RowT],
    simulate: Callable[[CellT], RowT],
    progress: Progress = no_progress,
    files: work.Files | None = None,
) -> None:
    """Simulate the cells that ``results`` does not have, as a bag of tasks at the sites of a
    catalog. ``files`` are those that ``simulate`` reads. The first cell is simulated here, for its
    run time.

    The runs are beside the file of results, in FILE.runs: an interrupted one is continued, with
    what its tasks have done since then. An error in one cell ends all; rows of earlier cells are
    kept, also after an interrupt. Raises InvalidError for results without a file and for a wrong
    catalog, InfeasibleError for sites that cannot run the simulations.
    """
    if results.path is None:
        raise InvalidError(
            "--on keeps finished simulations in a file", hint="name the file with --output"
        )
    files = files or {}
    work.check_readable(files)
    parts = installation()
    catalog = prepared(read_catalog(sites), parts)
    collector = Collector(cells, results, progress)
    folder = results.path.with_name(f"{results.path.name}.runs")
    number = _finish_earlier(folder, collector, results.cell_type, catalog, parts)
    missing = [cell for cell in cells if cell in collector.missing]
    if not missing:
        return
    first = timed(missing[0], simulate, WANTED_S)
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
        click.echo(
            f"run {bag.run.path}: {len(missing)} simulated runs in {len(chunks)} "
            f"task{'' if len(chunks) == 1 else 's'} at {names}",
            err=True,
        )
        drive(session, bag, collector, catalog)
    if collector.missing:
        raise InfeasibleError(
            f"{len(collector.missing)} simulated runs are not among the rows of their tasks",
            source=str(folder),
            hint="the same command simulates them again",
        )


def _finish_earlier(
    folder: Path,
    collector: Collector[CellT, RowT],
    cell_type: type[CellT],
    catalog: Catalog,
    parts: Sequence[str],
) -> int:
    """Take the rows of earlier runs, and continue the last one if it is not over. One that this
    command would not begin is stopped: another installation began it, or its cells have rows now or
    are not wanted. Returns the number of the next run."""
    number = 0
    numbers = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    for number in sorted(numbers):
        bag = BagRun(folder / str(number))
        if not bag.has_begun:
            shutil.rmtree(bag.folder)
            continue
        collector.take(bag)
        failed = collector.forget_error()
        ended = read_state(bag.run).ended
        if ended == "done":
            continue
        began, rest = bag.rest()
        wanted = all(msgspec.convert(cell, cell_type) in collector.missing for cell in rest)
        if list(parts) == began and wanted and not failed:
            click.echo(f"run {bag.run.path}: continued", err=True)
            drive(bag.resume(catalog), bag, collector, catalog)
        elif ended is None:
            why = "stopped: this command simulates others, or with another wfrun"
            click.echo(f"run {bag.run.path}: {why}", err=True)
            stop(bag.resume(None))
            collector.take(bag)
            collector.forget_error()
    return number + 1
