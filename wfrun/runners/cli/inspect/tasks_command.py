"""The command ``tasks``."""

from __future__ import annotations

import click

from wfrun.runners.cli.completion import complete_sites, complete_types
from wfrun.runners.cli.runs import run_argument

STATES = (
    "running", "queued", "staging", "retrying", "eligible", "waiting", "failed", "blocked",
    "not needed", "done",
)  # fmt: skip
"""States of tasks: those of `wfrun.runners.inspect.tables.task_list`, repeated here to avoid its
imports. A test compares the two."""


@click.command()
@run_argument
@click.option("--state", "states", multiple=True, type=click.Choice(STATES),
              help="List tasks in this state. Repeatable. Default: those that have not "
              "ended.")  # fmt: skip
@click.option("--failed", is_flag=True, help="The same as `--state failed`.")
@click.option(
    "--site", metavar="NAME", shell_complete=complete_sites, help="List tasks at this site."
)
@click.option("--type", "types", multiple=True, metavar="PATTERN",
              shell_complete=complete_types,
              help="List tasks of types that match, such as `mProject*`. Repeatable.")  # fmt: skip
@click.option("--sort", type=click.Choice(("age", "task", "type", "site")), default="age",
              show_default=True,
              help="Order: the oldest of each state first, by document, type or site.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=0), metavar="N", default=100, show_default=True,
              help="Maximum number of tasks listed; 0: no limit.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def tasks(
    run: str | None,
    states: tuple[str, ...],
    failed: bool,
    site: str | None,
    types: tuple[str, ...],
    sort: str,
    limit: int,
    as_json: bool,
) -> None:
    """List tasks of RUN (default: `last`).

    For each task: its type, state, site and host, the number of its attempts, the time that it has
    run or waited at the site, and its expected run time. `wfrun results` tabulates all tasks.
    """
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.inspect.tables.task_list import TaskSelection, print_tasks, select_tasks
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    wanted = (*states, "failed") if failed else states
    selection = TaskSelection(wanted, site, types, sort, limit or None)
    document = select_tasks(find(run), selection)
    if as_json:
        print_json(document)
    else:
        print_tasks(make_console(), document)
