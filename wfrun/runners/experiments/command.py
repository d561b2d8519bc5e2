"""What commands do around a grid of simulated runs: its files, its progress, an interruption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from wfrun.runners.display import parquet
from wfrun.runners.display.pictures import check_picture
from wfrun.runners.experiments.processes import Progress
from wfrun.runners.experiments.progress import GridProgress
from wfrun.runners.experiments.results import CellT, Results, RowT


def run_shown(
    open_results: Callable[[Path | None], Results[CellT, RowT]],
    cells: Sequence[CellT],
    run: Callable[[Results[CellT, RowT], Progress], None],
    show: Callable[[Sequence[RowT]], None],
    draw: Callable[[Sequence[RowT], Path], None],
    *,
    identity: Mapping[str, str],
    output: Path | None,
    plot: Path | None,
    quiet: bool,
) -> None:
    """Run what ``output`` does not have yet with a progress bar, show all of it, and write the
    Parquet file and the plot, where they are wanted. Raises InvalidError for what can't be written,
    before anything is simulated."""
    if plot is not None:
        check_picture(plot)
    table = output if output is not None and output.suffix.lower() == ".parquet" else None
    if table is not None:
        parquet.check_parquet(table)
        output = table.with_suffix(".csv")
    results = open_results(output)
    if results.torn:
        click.echo(f"warning: {output}: the last line was cut off; its run is done again", err=True)
    try:
        with GridProgress(quiet=quiet) as progress:
            run(results, progress.update)
    except KeyboardInterrupt:
        done = len(results.of(cells))
        kept = f"kept in {output}; the same command goes on" if output else "lost without --output"
        click.echo(f"interrupted: {done} of {len(cells)} simulated runs are done, {kept}", err=True)
        raise
    finally:
        results.close()
    rows = results.of(cells)
    show(rows)
    if table is not None:
        parquet.write_parquet(rows, identity, table)
        click.echo(f"results: {table}, and {output} to go on from", err=True)
    if plot is not None:
        draw(rows, plot)
        click.echo(f"plot: {plot}", err=True)
