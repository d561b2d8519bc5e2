"""The command ``plan``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wfrun.engine.explain.visible import message_block
from wfrun.engine.settings import EMULATION, FILES, SCHEDULING
from wfrun.runners.cli.document_options import DOCUMENTS, document_options
from wfrun.runners.cli.exit_statuses import DONE, FAILED
from wfrun.runners.cli.history_options import chosen_history, history_options
from wfrun.runners.cli.line_options import line_options, line_template
from wfrun.runners.cli.options import settings_from, settings_options
from wfrun.runners.cli.sections import SectionedCommand, option
from wfrun.runners.cli.sites.present_sites import ask_present

if TYPE_CHECKING:
    from collections.abc import Callable

    from wfrun.engine.core.state import RunState
    from wfrun.engine.events import RunChanged
    from wfrun.runners.forecast.plan import RunPlan
    from wfrun.runners.run.directory.run_directory import RunDir


@click.command(cls=SectionedCommand)
@document_options
@line_options(DOCUMENTS, outputs=True)
@option("--runtime", type=click.FloatRange(min=0), metavar="SECONDS", section=DOCUMENTS,
        help="Run time, on the reference processor, of tasks whose document states none and whose "
        "class has not run before.")  # fmt: skip
@settings_options("run", without=("metrics_file", "on", "stalled_after_s"))
@history_options(
    SCHEDULING,
    "has run times and links of earlier runs, and is only read",
    default="Default: ~/.local/state/wfrun/history.sqlite, and none with --emulate.",
)
@option("--compare", type=click.FloatRange(min=0), metavar="SECONDS", section=SCHEDULING,
        help="Maximum time for the simulations of other policies and throttles. Default: 10, or "
        "the time of three simulations if that is longer.")  # fmt: skip
@option("--at-sites", is_flag=True, section=EMULATION,
        help="With --emulate: emulate at the clusters, not on this machine.")  # fmt: skip
@option("--json", "as_json", is_flag=True, section=FILES,
        help="Print one JSON document.")  # fmt: skip
def plan(documents: tuple[Path, ...], **options: Any) -> None:
    """Plan a run of workflows and bags, and start nothing.

    The run is simulated on the present state of the sites: their queues and idle slots are read,
    nothing is submitted or written there. The plan says what goes where, in which order, when it
    ends, and which policy and throttle would be faster.
    """
    from wfrun.runners.forecast.plan import plan_of
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.run.prepare.prepare import prepare, this_machine
    from wfrun.sites.catalog import read_catalog

    load_policies()
    settings = settings_from(options)
    if options["at_sites"] and not settings.emulate:
        raise click.UsageError("--at-sites has no effect without --emulate")
    catalog = read_catalog(options["sites"]) if options["sites"] else this_machine()
    prepared = prepare(
        documents, catalog, settings, inputs=options["inputs"], at_sites=options["at_sites"],
        template=line_template(options),
    )  # fmt: skip
    for warning in prepared.warnings:
        _warn(warning)
    found = plan_of(
        prepared.workflows, prepared.catalog, prepared.settings, ask_present(prepared.catalog),
        history=chosen_history(options, emulate=settings.emulate), assumed_s=options["runtime"],
        limit_s=options["compare"], warn=_warn,
    )  # fmt: skip
    _print(found, as_json=options["as_json"])


def plan_rest(
    run: RunDir,
    change: Callable[[RunState], RunChanged | None],
    *,
    assumed_s: float | None,
    keeps_history: bool,
    as_json: bool,
) -> None:
    """Plan the rest of a run. ``change`` returns the change that a resume of the run would make;
    None: no change. Raises InvalidError for a run that is done, and the errors of ``change``."""
    from wfrun.engine.errors import InvalidError
    from wfrun.engine.model import Catalog
    from wfrun.runners.forecast.plan import begun_run, plan_of
    from wfrun.runners.run.changes import present_of
    from wfrun.runners.run.history.history_file import HistoryFile
    from wfrun.runners.run.store.checkpoints import read_state

    state = read_state(run)
    if state.ended == "done":
        raise InvalidError(f"the run {run.name} is done: there is nothing to plan")
    resumed = change(state) or present_of(state)
    left = {resumed.sites[number].name for number in resumed.left}
    catalog = Catalog(
        tuple(site for site in resumed.sites if site.name not in left),
        tuple(link for link in resumed.links if not left & {link.source, link.destination}),
    )
    history = state.history or state.link_history
    found = plan_of(
        [w.workflow for w in state.workflows], catalog, resumed.settings,
        ask_present(catalog, own=f"wfrun-{state.run_id}-"),
        history=HistoryFile(Path(history)) if history is not None and keeps_history else None,
        assumed_s=assumed_s, limit_s=None, warn=_warn, begun=begun_run(run, state),
    )  # fmt: skip
    _print(found, as_json=as_json)


def _print(found: RunPlan, *, as_json: bool) -> None:
    if as_json:
        from wfrun.runners.display.ascii_json import print_json

        print_json(found)
    else:
        from wfrun.runners.display.console import make_console
        from wfrun.runners.forecast.plan_table import print_plan

        print_plan(make_console(), found)
    sys.exit(DONE if found.run.makespan_s is not None else FAILED)


def _warn(text: str) -> None:
    click.echo(message_block(f"warning: {text}"), err=True)
