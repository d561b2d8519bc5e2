"""The command ``report``."""

from __future__ import annotations

from pathlib import Path

import click

from wfrun.runners.cli.runs import run_argument


@click.command()
@run_argument
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              default=Path("report.html"), show_default=True, help="File to write.")  # fmt: skip
def report(run: str | None, output: Path) -> None:
    """Write a report of RUN (default: `last`) as one HTML file.

    It opens in a browser, offline: summary, charts of tasks, cores, attempts, waits and copies,
    failures, sites, options. RUN may still be running.
    """
    from wfrun.runners.experiments.report_html.page import write_report
    from wfrun.runners.run.directory import find
    from wfrun.runners.run.plugins import load_policies

    load_policies()
    write_report(find(run), output)
    click.echo(f"{output} written")
