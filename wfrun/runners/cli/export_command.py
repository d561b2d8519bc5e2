"""The command ``export``."""

from __future__ import annotations

from pathlib import Path

import click

from wfrun.runners.cli.runs import run_argument

FORMATS = ("wfformat", "ro-crate", "trace")


@click.command()
@run_argument
@click.option("--format", "form", type=click.Choice(FORMATS), required=True,
              help="wfformat: graph and measurements as WfFormat 1.5; ro-crate: provenance as a "
              "Workflow Run RO-Crate, a folder or a .zip; trace: a row for each "
              "attempt as CSV, or GWF or SWF by the suffix of the file.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE|DIR",
              help="File to write; of a run with several workflows, the folder of their "
              "documents.")  # fmt: skip
def export(run: str | None, form: str, output: Path | None) -> None:
    """Write RUN (default: `last`) in a format that other programs read.

    RUN may still run, or have failed: what it has measured is written.
    """
    from wfrun.engine.visible import message_block, name_line
    from wfrun.runners.experiments.export.export import export as write
    from wfrun.runners.run.directory import find
    from wfrun.runners.run.plugins import load_policies

    load_policies()
    write(
        find(run), form, output,
        note=lambda text: click.echo(name_line(text, 1000)),
        warn=lambda text: click.echo(message_block(f"warning: {text}"), err=True),
    )  # fmt: skip
