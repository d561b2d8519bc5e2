"""The command ``export``."""

from __future__ import annotations

from pathlib import Path

import click

from wfrun.runners.cli.runs import run_argument

FORMATS = ("wfformat", "ro-crate", "trace")
_SUFFIXES = {
    ".json": "wfformat", ".zip": "ro-crate", ".csv": "trace", ".gwf": "trace", ".swf": "trace",
}  # fmt: skip


@click.command()
@run_argument
@click.option("--format", "form", type=click.Choice(FORMATS),
              help="wfformat: graph and measurements as WfFormat 1.5; ro-crate: provenance as a "
              "Workflow Run RO-Crate, a folder or a .zip; trace: a row for each attempt as CSV, or "
              "GWF or SWF by the suffix of the file. Default: the format that the suffix of "
              "--output names.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE|DIR",
              help="File to write; of a run with several workflows, the folder of their "
              "documents.")  # fmt: skip
def export(run: str | None, form: str | None, output: Path | None) -> None:
    """Write RUN (default: `last`) in a format that other programs read.

    RUN may still run, or have failed: what it has measured is written.
    """
    from wfrun.engine.errors import InvalidError
    from wfrun.engine.explain.visible import message_block, name_line
    from wfrun.runners.inspect.export.export import export as write
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    if form is None:
        form = _SUFFIXES.get("" if output is None else output.suffix.lower())
    if form is None:
        raise InvalidError(
            "the format is not given, and the suffix of --output names none",
            hint=f"give --format ({', '.join(FORMATS)}), or a file that ends with "
            + ", ".join(_SUFFIXES),
        )
    load_policies()
    write(
        find(run), form, output,
        note=lambda text: click.echo(name_line(text, 1000)),
        warn=lambda text: click.echo(message_block(f"warning: {text}"), err=True),
    )  # fmt: skip
