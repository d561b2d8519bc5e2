"""The command ``watch``."""

from __future__ import annotations

import click

from wfrun.runners.cli.runs import run_argument


@click.command()
@run_argument
def watch(run: str | None) -> None:
    """Show RUN (default: `last`) live, from any terminal.

    The display is drawn from the log of the run, so any number of terminals can watch a run, also
    after its end. `q` or Ctrl-C ends the display, not the run. Keys pause sites, raise priorities
    and cancel tasks, once confirmed, as `wfrun control` does. In a pipe, lines are printed until
    the run ends.
    """
    from wfrun.runners.inspect.watch.command import watch as show
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    show(find(run))
