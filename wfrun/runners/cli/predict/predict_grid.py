"""``wfrun predict --grid``: grid schedulers with and without predictions (thesis section 7.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wfrun.runners.cli.predict.predict_modes import Mode
from wfrun.runners.cli.sections import SectionedOption

if TYPE_CHECKING:
    from rich.table import Table

    from wfrun.runners.metrics.grid_waits import GridMeans
    from wfrun.runners.simulate.grid.grids import Grid
    from wfrun.runners.simulate.grid.model import GridJob

_SECTION = "Grid schedulers"


def _run(_: tuple[str, ...], options: dict[str, Any]) -> None:
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.metrics.grid_waits import grid_means
    from wfrun.runners.simulate.grid.grids import GRIDS
    from wfrun.runners.simulate.grid.schedulers import SCHEDULERS
    from wfrun.runners.simulate.grid.simulation import simulate_grid

    grid = GRIDS[options["grid"]]
    workload, jobs = _workload(grid, options)
    means = {
        name: grid_means(simulate_grid(jobs, grid.sites, kind.make(grid.sites)))
        for name, kind in SCHEDULERS.items()
    }
    if options["as_json"]:
        print_json({"grid": grid.name, "workload": workload, "schedulers": means})
        return
    console = make_console()
    sites = ", ".join(f"{spec.name} {spec.slots}" for spec in grid.sites)
    console.print(f"{grid.title}: processors of {sites}", soft_wrap=True, markup=False)
    console.print(f"{workload}: {len(jobs):,} jobs", soft_wrap=True, markup=False)
    console.print(_table(means, grid))


def _workload(grid: Grid, options: Mapping[str, Any]) -> tuple[str, Sequence[GridJob]]:
    """A title for the workload, and its jobs."""
    from wfrun.engine.explain.visible import message_block
    from wfrun.parsers.logs import read_log
    from wfrun.runners.simulate.grid.grids import generated_jobs, jobs_at_load

    load: float | None = options["load"]
    path: Path | None = options["log"]
    if path is None:
        jobs = generated_jobs(grid, options["seed"], load=load, part=options["part"])
        at = grid.load if load is None else load
        return f"generated workload, seed {options['seed']}, load {at:.0%}", jobs
    if options["part"] != 1.0:
        raise click.UsageError("--part is for generated workloads, and a log is given.")
    logged, remarks, _ = read_log(path, skip_bad_lines=options["skip_bad_lines"])
    jobs = jobs_at_load(grid, logged, load)
    larger = len(logged) - len(jobs)
    if larger:
        remarks.append(f"{path}: {larger} jobs are larger than every cluster and left out")
    for remark in remarks:
        click.echo(message_block(f"warning: {remark}"), err=True)
    return f"{path}" if load is None else f"{path} at load {load:.0%}", jobs


def _table(means: Mapping[str, GridMeans], grid: Grid) -> Table:
    from rich.table import Table

    from wfrun.runners.simulate.grid.schedulers import SCHEDULERS

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scheduler")
    headings = ("response", "wait", "slowdown", "waited", *(spec.name for spec in grid.sites))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, mean in means.items():
        table.add_row(
            SCHEDULERS[name].title,
            f"{mean.response_s:,.0f} s",
            f"{mean.wait_s:,.0f} s",
            f"{mean.slowdown:,.1f}",
            f"{mean.waited:.0%}",
            *(f"{share:.0%}" for share in mean.share),
        )
    return table


MODE = Mode(
    title="a grid (--grid)",
    chosen_by="grid",
    options=(
        SectionedOption(
            ["--grid"], type=click.Choice(["das3", "auver"]), section=_SECTION,
            help="Compare schedulers with and without predictions on a model of the DAS-3 or of "
            "AuverGrid (thesis section 7.4): mean response, wait and bounded slowdown, and the "
            "share of jobs at each cluster. Jobs are generated from --seed, at the load of the "
            "grid, or those of --log; --load changes it."),
        SectionedOption(
            ["--part"], type=click.FloatRange(0, 1, min_open=True), default=1.0, metavar="X",
            show_default=True, section=_SECTION,
            help="Share of the four months that are generated."),
    ),
    run=_run,
    shares=("log", "skip_bad_lines", "load", "seed"),
)  # fmt: skip
