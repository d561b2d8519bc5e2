"""The command ``failures``."""

from __future__ import annotations

import click

from wfrun.runners.cli.runs import run_argument


@click.command()
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def failures(run: str | None, as_json: bool) -> None:
    """Show the failures of RUN (default: `last`), by cause and error text.

    For each cause and text: the number of tasks and attempts since the run was started or resumed,
    the end of one attempt's output, sites and hosts, and what to do.
    """
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.inspect.failures.failure_report import failure_records, print_failures
    from wfrun.runners.inspect.tables.followed_run import FollowedRun
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    found = find(run)
    with FollowedRun(found) as followed:
        state, driven = followed.state, followed.is_driven
        if as_json:
            print_json(failure_records(found.path, state, driven=driven))
        else:
            print_failures(make_console(), found.path, state, driven=driven)
