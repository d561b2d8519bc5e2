"""The command ``wfrun clean``."""

from __future__ import annotations

import sys

import click

from wfrun.runners.cli.exit_statuses import SITE
from wfrun.runners.cli.runs import run_argument, trust_option


@click.command()
@run_argument
@click.option("--keep-outputs", is_flag=True, help="Keep `outputs/` in the run directory.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@trust_option
def clean(run: str | None, keep_outputs: bool, yes: bool, trust: bool) -> None:
    """Remove all that RUN has left, on every site and here.

    Ends the attempts and launchers that are left. Removes files, logs and programs of the run from
    its sites; images of containers stay for other runs. The run directory is removed last, and only
    if all sites are clean; otherwise run the same command again later.
    """
    import asyncio

    from wfrun.engine.errors import InvalidError
    from wfrun.engine.explain.visible import command_line, message_block
    from wfrun.runners.admin.clean import clean_run
    from wfrun.runners.run.directory.run_directory import is_driven
    from wfrun.runners.run.directory.trust import find_own
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    load_policies()
    found = find_own(run, "clean", trust=trust)
    if is_driven(found):
        raise InvalidError(
            f"the run {found.name} is running",
            hint=f"`{command_line('wfrun', 'cancel', found.path)}` stops it",
        )
    refuse_simulated(found, "remove its directory")
    what = f"{found.path}" + (", but its outputs," if keep_outputs else " with its outputs")
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidError(f"{what} would be removed for good", hint="--yes does it")
        click.confirm(message_block(f"Remove {what} here and its files at all sites?"), abort=True)
    left = asyncio.run(clean_run(found, keep_outputs=keep_outputs))
    for one in left:
        click.echo(
            message_block(f"site {one.site}: {one.directory} is left there: {one.reason}"), err=True
        )
    if left:
        again = command_line("wfrun", "clean", found.path)
        click.echo(f"{message_block(str(found.path))} stays; `{again}` goes on", err=True)
        sys.exit(SITE)
    click.echo(message_block(f"removed {what.removesuffix(',')}"))
