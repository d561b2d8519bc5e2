"""The command ``stats``."""

from __future__ import annotations

import sys

import click

from wfrun.runners.cli.completion import complete_runs


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_runs)
@click.option("--csv", "as_csv", is_flag=True,
              help="Print CSV: a row for each run, workflow, type of task and site.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def stats(runs: tuple[str, ...], as_csv: bool, as_json: bool) -> None:
    """Show statistics of RUN (default: `last`), or compare several runs.

    Prints makespan, speedup, efficiency, run times, waits by their cause, and core-hours used and
    lost, also by type of task and by site. docs/metrics.md defines them. Further runs are compared
    with the first.
    """
    from wfrun.runners.display.console import make_console
    from wfrun.runners.metrics.statistics import read_statistics
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    load_policies()
    found = [find(run) for run in runs] or [find(None)]
    read = [read_statistics(run).statistics for run in found]
    if as_json:
        from wfrun.runners.display.ascii_json import print_json

        print_json(read)
    elif as_csv:
        from wfrun.runners.inspect.statistics.statistics_csv import write_csv

        write_csv(sys.stdout, read)
    else:
        from wfrun.runners.inspect.statistics.statistics_table import print_statistics

        print_statistics(make_console(), read)
