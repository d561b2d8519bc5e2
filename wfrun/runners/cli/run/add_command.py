"""The command ``add``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wfrun.engine.explain.visible import message_block
from wfrun.runners.cli.completion import complete_runs
from wfrun.runners.cli.document_options import DOCUMENTS, owner_option
from wfrun.runners.cli.line_options import line_options, line_template
from wfrun.runners.cli.runs import trust_option
from wfrun.runners.cli.sections import SectionedCommand, option


@click.command(cls=SectionedCommand)
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.argument("documents", nargs=-1, required=True, type=click.Path(path_type=Path),
                metavar="DOCUMENT...")  # fmt: skip
@owner_option
@option("--inputs", type=click.Path(path_type=Path, file_okay=False, exists=True),
        metavar="DIR", section=DOCUMENTS, help="Folder of the initial input files.")  # fmt: skip
@line_options(DOCUMENTS, outputs=True)
@trust_option
def add(
    run: str,
    documents: tuple[Path, ...],
    owner: str,
    inputs: Path | None,
    trust: bool,
    **options: Any,
) -> None:
    """Add documents to RUN while it runs, or before it is resumed.

    The documents are checked as at the start of RUN, with its options and sites. All of them join
    RUN, or none. The command returns once the documents are in the log of RUN. If RUN is not
    running, they join it when `wfrun resume` continues it. A run ends when all its documents are
    done; nothing can be added to an ended run.
    """
    from wfrun.runners.run.additions import addition
    from wfrun.runners.run.directory.trust import find_own
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.run.store.checkpoints import read_state
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    load_policies()
    template = line_template(options)
    found = find_own(run, "add", trust=trust)
    refuse_simulated(found, "it takes no documents")
    checked = addition.check_addition(
        read_state(found), found, documents, owner=owner, inputs=inputs, template=template
    )
    for warning in checked.warnings:
        click.echo(message_block(f"warning: {warning}"), err=True)
    written = addition.write_addition(found, checked.workflows)
    taken = addition.await_answer(found, written)
    for line in addition.effect(found, checked.workflows, taken=taken):
        click.echo(line)
