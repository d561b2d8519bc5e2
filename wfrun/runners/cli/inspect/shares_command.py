"""The command ``shares``."""

from __future__ import annotations

import click

from wfrun.runners.cli.runs import run_argument


@click.command()
@run_argument
@click.option("--slices", type=click.IntRange(1, 10_000), default=10, show_default=True,
              metavar="N", help="Number of equal parts of the time of RUN.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def shares(run: str | None, slices: int, as_json: bool) -> None:
    """Show what each owner in RUN holds and has got (default: `last`).

    For each owner: documents, tasks, cores of running tasks, core time of all attempts and its
    share of the core time of all owners, and the mean number of cores held. If there are several
    owners, a second table shows the cores held and the tasks done in each part of the time.
    """
    from wfrun.runners.display.console import make_console
    from wfrun.runners.inspect.tables.shares import print_shares, read_shares
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    found = read_shares(find(run), slices)
    if as_json:
        from wfrun.runners.display.ascii_json import print_json

        print_json(found)
    else:
        print_shares(make_console(), found)
