"""An experiment on the command line: it keeps results in files, shows progress and tables, and
handles interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from rich.console import RenderableType

from wfrun.engine.policies.policy_error import PolicyError
from wfrun.runners.display import parquet
from wfrun.runners.display.console import make_console
from wfrun.runners.display.pictures import check_picture
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.experiments.cells import Cell, Row
from wfrun.runners.experiments.experiment import Experiment, run_cells
from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.progress import ExperimentProgress
from wfrun.runners.experiments.subjects.documents import Documents
from wfrun.runners.experiments.tables.parts import LoadTables, size_table, workflow_table
from wfrun.runners.experiments.tables.plot import plot as draw
from wfrun.runners.experiments.tables.results import CellT, Results, RowT
from wfrun.runners.experiments.tables.table import ResultTable

_CORRECT = "its runs are left out; correct the policy, and the same command with --output adds them"
"""Hint for the user if a policy raised an exception in a simulation."""


def open_results(experiment: Experiment, path: Path | None) -> Results[Cell, Row]:
    """Open the file of results at ``path``, with the rows of the experiment that it has; None: keep
    rows in memory only. Raises the errors of `Results`."""
    return Results(path, Cell, Row, experiment.identity() if path is not None else {})


def run_shown(
    experiment: Experiment,
    *,
    output: Path | None,
    plot: Path | None,
    processes: int | None,
    quiet: bool,
    on: Path | None = None,
) -> list[Row]:
    """Simulate the runs that have no rows in ``output``, here or ``on`` the sites of a catalog, and
    show a progress bar. Then print the tables, and write the Parquet file and the picture. Returns
    all rows.

    Raises InvalidError for files that cannot be written, before anything is simulated. Raises
    PolicyError if a policy raises, after the results of the other runs are shown.
    """
    if plot is not None:
        check_picture(plot)
    table = output if output is not None and output.suffix.lower() == ".parquet" else None
    if table is not None:
        parquet.check_parquet(table)
        output = table.with_suffix(".csv")
    results = open_results(experiment, output)
    cells = experiment.cells()
    if results.torn:
        click.echo(
            f"warning: {output}: the last line was cut off; its run is simulated again", err=True
        )
    rows = simulate_shown(
        cells, results, experiment.simulate,
        processes=processes, on=on, files=experiment.files, quiet=quiet,
    )  # fmt: skip
    if not rows:
        refuse_broken(results)
    console = make_console()
    for number, part in enumerate(tables_of(experiment, rows)):
        if number:
            console.print()
        console.print(part)
    if table is not None:
        parquet.write_parquet(rows, experiment.identity(), table)
        click.echo(f"results: {table}, and {output} to go on from", err=True)
    if plot is not None:
        draw(rows, plot)
        click.echo(f"plot: {plot}", err=True)
    refuse_broken(results)
    return rows


def refuse_broken(results: Results[CellT, RowT]) -> None:
    """Raise the error of the last policy that raised; the errors of other policies are printed
    first. Does nothing if no policy raised."""
    for number, error in enumerate(results.broken, 1):
        shown = PolicyError(error.message, source=error.source, line=error.line, hint=_CORRECT)
        if number == len(results.broken):
            raise shown from error
        click.echo(f"wfrun: {shown}", err=True)


def simulate_shown(
    cells: Sequence[CellT],
    results: Results[CellT, RowT],
    simulate: Callable[[CellT], RowT],
    *,
    processes: int | None,
    on: Path | None,
    files: Files | None,
    quiet: bool,
) -> list[RowT]:
    """Simulate the cells that have no rows in ``results``, with a progress bar; see `run_cells`.
    Returns the rows of all cells, and closes ``results``. On an interrupt, prints where the
    finished rows are kept and raises KeyboardInterrupt."""
    try:
        with ExperimentProgress(quiet=quiet) as progress:
            run_cells(
                cells, results, simulate, progress.update,
                processes=processes, on=on, files=files, quiet=quiet,
            )  # fmt: skip
    except KeyboardInterrupt:
        done, path = len(results.of(cells)), results.path
        kept = f"kept in {path}; the same command goes on" if path else "lost without --output"
        click.echo(f"interrupted: {done} of {len(cells)} simulated runs are done, {kept}", err=True)
        raise
    finally:
        results.close()
    return results.of(cells)


def tables_of(experiment: Experiment, rows: Sequence[Row]) -> Iterator[RenderableType]:
    """The table of all variants, and a table with a column for each workflow or size class of
    bags."""
    subject = experiment.subject
    if isinstance(subject, Documents):
        yield ResultTable(rows)
        if len(subject.workflows) > 1 and not subject.separately:
            yield workflow_table(rows, distinct_names(subject.workflows))
        return
    yield LoadTables(rows) if len(experiment.loads) > 1 else ResultTable(rows)
    yield size_table(rows)
