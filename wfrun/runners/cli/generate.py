"""``wfrun generate``: a command for each family of workflows, and one for bags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_SUMMARIES = {
    "montage": "A mosaic of the sky.",
    "cybershake": "The earthquake hazard of a place.",
    "inspiral": "A search for gravitational waves (LIGO).",
    "sipht": "A search for bacterial genes of small RNAs.",
    "epigenomics": "DNA reads mapped to a genome.",
    "bag": "Independent tasks.",
    "layered": "A random layered DAG.",
}
"""Here, and not taken from the families, because help and completion are to be fast."""


@click.group()
def generate() -> None:
    """Write a synthetic workflow of a family, or a workload of bags.

    The bags are those that the users of a grid submit over some time.
    """


def _family(name: str, summary: str) -> click.Command:
    @click.command(name, help=f"{summary}\n\nWrites a workflow of the published structure.",
                   short_help=summary)  # fmt: skip
    @click.option("--tasks", type=click.IntRange(min=1), required=True, metavar="N",
                  help="Size; the nearest that the structure allows is made.")  # fmt: skip
    @click.option("--seed", type=int, default=0, show_default=True, metavar="S",
                  help="Of run times, sizes and random edges.")  # fmt: skip
    @click.option("--format", "form", type=click.Choice(["dax", "wfformat"]), default="dax",
                  show_default=True, help="DAX 3.6 or WfFormat 1.5.")  # fmt: skip
    @click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
                  help="By default <family>-<N>.dax or .json.")  # fmt: skip
    def command(tasks: int, seed: int, form: str, output: Path | None) -> None:
        from wfrun.parsers.generate import generate as make
        from wfrun.parsers.workflows.write_dax import write_dax
        from wfrun.parsers.workflows.write_wfformat import write_wfformat

        workflow = make(name, tasks, seed)
        suffix = "dax" if form == "dax" else "json"
        path = output or Path(f"{name}-{tasks}.{suffix}")
        (write_dax if form == "dax" else write_wfformat)(workflow, path)
        click.echo(f"{path}: {len(workflow.tasks)} tasks, {len(workflow.files)} files")

    return command


for _name, _summary in _SUMMARIES.items():
    generate.add_command(_family(_name, _summary))


@generate.command(short_help="A workload of bags of tasks, as grids see them.")
@click.option("--row", default="average", show_default=True, metavar="NAME",
              help="Of the model's parameters: das-2, grid5000, ngs, auvergrid, sharcnet, lcg, "
              "nordugrid or average.")  # fmt: skip
@click.option("--tasks", type=click.IntRange(min=1), default=60_000, show_default=True,
              metavar="N", help="In all bags together.")  # fmt: skip
@click.option("--load", type=click.FloatRange(0, min_open=True), default=0.6, show_default=True,
              metavar="X", help="Share of the clusters that is kept busy while bags "
              "arrive.")  # fmt: skip
@click.option("--sites", type=click.Path(path_type=Path), metavar="CATALOG",
              help="The clusters that bags are submitted to.")  # fmt: skip
@click.option("--clusters", type=click.IntRange(min=1), metavar="N",
              help="Without a catalog: so many of 176 slots, with speeds from 1 to 1.75; 20 by "
              "default.")  # fmt: skip
@click.option("--arrival", type=click.Choice(["realistic", "at-once", "even"]),
              default="realistic", show_default=True,
              help="With the model's daily cycle, all at the start, or at equal "
              "distances.")  # fmt: skip
@click.option("--median-size", type=click.FloatRange(min=1), metavar="N",
              help="Multiply the sizes of bags, to have this median.")  # fmt: skip
@click.option("--mean-runtime", metavar="TIME",
              help="Multiply run times, to have this mean over all tasks: `3 min`.")  # fmt: skip
@click.option("--inaccuracy", type=click.FloatRange(min=0), default=0.0, metavar="PERCENT",
              help="Of estimates, at most; by default they are the run times.")  # fmt: skip
@click.option("--log", "log_", type=click.Path(path_type=Path, exists=True), metavar="LOG",
              help="Take the bags of this workload log (SWF or GWF), not the model's; --row is "
              "what they are shown beside.")  # fmt: skip
@click.option("--skip-bad-lines", is_flag=True,
              help="With --log: drop and count lines that cannot be read.")  # fmt: skip
@click.option("--tolerant", is_flag=True, hidden=True)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S",
              help="Of all that is random.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["swf", "gwf", "yaml"]),
              help="Logs, or bag documents of tasks that sleep; by default what the output's name "
              "ends with, or else gwf.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE|DIR",
              help="By default bags.gwf (or .swf, .yaml). A folder gets a document for each "
              "bag.")  # fmt: skip
def bags(tolerant: bool, **options: Any) -> None:
    """A workload of bags of tasks, as grids see them.

    Users, arrivals, sizes and run times are drawn from the model of thesis section 5.2, and shown
    beside its Table 5.3.
    """
    from wfrun.runners.cli.generate_bags_command import generate_bags

    options["skip_bad_lines"] |= tolerant  # the old name
    generate_bags(**options)
