"""The command ``report``."""

from __future__ import annotations

from pathlib import Path

import click

from wfrun.runners.cli.runs import run_argument


@click.command()
@run_argument
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="File to write, or to replace. Default: report.html, which replaces only a "
              "report of the same run.")  # fmt: skip
def report(run: str | None, output: Path | None) -> None:
    """Write a report of RUN (default: `last`) as one HTML file.

    The file opens in a browser, offline. It has a summary, charts of tasks, cores, attempts, waits
    and copies, failures, sites, and options. RUN may still be running.
    """
    from wfrun.runners.inspect.report_html.page import write_report
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    path = output or Path("report.html")
    write_report(find(run), path, replace=output is not None)
    click.echo(f"{path} written")
