"""``wfrun generate``: a command for each family of workflows, and one for bags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wfrun.runners.cli.sections import option

_SUMMARIES = {
    "montage": "A mosaic of the sky.",
    "cybershake": "The earthquake hazard of a place.",
    "inspiral": "A search for gravitational waves (LIGO).",
    "sipht": "A search for bacterial genes of small RNAs.",
    "epigenomics": "DNA reads mapped to a genome.",
    "bag": "Independent tasks.",
    "layered": "A random layered DAG.",
}
"""First lines of the help texts by family, here so that help and completion import no family."""


@click.group()
def generate() -> None:
    """Write a synthetic workflow of a family, or a workload of bags.

    A workload consists of the bags that the users of a grid submit over time.
    """


def _family(name: str, summary: str) -> click.Command:
    @click.command(name, help=f"{summary}\n\nWrites a synthetic workflow of this family.",
                   short_help=summary)  # fmt: skip
    @click.option("--tasks", type=click.IntRange(min=1), required=True, metavar="N",
                  help="Number of tasks, rounded to what the structure allows.")  # fmt: skip
    @click.option("--seed", type=int, default=0, show_default=True, metavar="N",
                  help="Seed of run times, sizes and random edges.")  # fmt: skip
    @click.option("--format", "form", type=click.Choice(["dax", "wfformat"]), default="dax",
                  show_default=True, help="Format: DAX 3.6 or WfFormat 1.5.")  # fmt: skip
    @click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
                  help="File to write. Default: <family>-<N>.dax or .json.")  # fmt: skip
    def command(tasks: int, seed: int, form: str, output: Path | None) -> None:
        from wfrun.parsers.generate import generate as make
        from wfrun.parsers.workflows.writers.write_dax import write_dax
        from wfrun.parsers.workflows.writers.write_wfformat import write_wfformat

        workflow = make(name, tasks, seed)
        suffix = "dax" if form == "dax" else "json"
        path = output or Path(f"{name}-{tasks}.{suffix}")
        (write_dax if form == "dax" else write_wfformat)(workflow, path)
        click.echo(f"{path}: {len(workflow.tasks)} tasks, {len(workflow.files)} files")

    return command


for _name, _summary in _SUMMARIES.items():
    generate.add_command(_family(_name, _summary))


@generate.command(short_help="Write a workload of bags of tasks, as submitted to grids.")
@click.option("--row", default="average", show_default=True, metavar="NAME",
              help="Row of the model's parameters: das-2, grid5000, ngs, auvergrid, sharcnet, "
              "lcg, nordugrid or average.")  # fmt: skip
@click.option("--tasks", type=click.IntRange(min=1), default=60_000, show_default=True,
              metavar="N", help="Number of tasks in all bags.")  # fmt: skip
@click.option("--load", type=click.FloatRange(0, min_open=True), default=0.6, show_default=True,
              metavar="X", help="Utilization of the clusters while bags arrive.")  # fmt: skip
@click.option("--sites", type=click.Path(path_type=Path), metavar="CATALOG",
              help="Catalog of the clusters that bags are submitted to.")  # fmt: skip
@click.option("--clusters", type=click.IntRange(min=1), metavar="N",
              help="Without a catalog: number of clusters, of 176 slots each, with speeds from 1 "
              "to 1.75. Default: 20.")  # fmt: skip
@click.option("--arrival", type=click.Choice(["realistic", "at-once", "even"]),
              default="realistic", show_default=True,
              help="Arrival of bags: with the model's daily cycle, all at the start, or at equal "
              "intervals.")  # fmt: skip
@click.option("--median-size", type=click.FloatRange(min=1), metavar="N",
              help="Scale the sizes of bags to this median.")  # fmt: skip
@click.option("--mean-runtime", metavar="TIME",
              help="Scale run times to this mean over all tasks, such as `3 min`.")  # fmt: skip
@click.option("--inaccuracy", type=click.FloatRange(min=0), default=0.0, metavar="PERCENT",
              help="Maximum error of estimates. Default: estimates are the run times.")  # fmt: skip
@click.option("--likeness", type=click.FloatRange(0, 1), default=0.0, show_default=True,
              metavar="R",
              help="Correlation of the run times of bags of the same application. 0: "
              "independent, as in the thesis; workload logs have about 0.5.")  # fmt: skip
@click.option("--log", "log_", type=click.Path(path_type=Path, exists=True), metavar="LOG",
              help="Take the bags from this workload log (SWF or GWF) instead of the model. They "
              "are compared to the row of --row.")  # fmt: skip
@option("--skip-bad-lines", is_flag=True, old_names=("--tolerant",),
        help="With --log: drop and count lines that cannot be read.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N",
              help="Seed of all random values.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["swf", "gwf", "yaml"]),
              help="Format: logs, or bag documents of tasks that sleep. Default: the suffix of the "
              "output, otherwise gwf.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE|DIR",
              help="File to write, or folder for one document per bag. Default: bags.gwf (or .swf, "
              ".yaml).")  # fmt: skip
def bags(**options: Any) -> None:
    """Write a workload of bags of tasks, as submitted to grids.

    Users, arrivals, sizes and run times are drawn from the model of thesis section 5.2, and
    compared to its Table 5.3.
    """
    from wfrun.runners.cli.simulate.generate_bags_command import generate_bags

    generate_bags(**options)
