"""Commands that start, continue and stop runs: ``run``, ``resume`` and ``cancel``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wfrun.engine.explain.visible import message_block
from wfrun.engine.settings import EMULATION, FILES, SCHEDULING
from wfrun.parsers.formats import formats_of, titles
from wfrun.runners.cli.completion import complete_sources
from wfrun.runners.cli.document_options import DOCUMENTS, document_options, owner_option
from wfrun.runners.cli.history_options import chosen_history, history_options
from wfrun.runners.cli.line_options import line_options, line_template
from wfrun.runners.cli.options import changes_from, settings_from, settings_options
from wfrun.runners.cli.runs import run_argument, trust_option
from wfrun.runners.cli.sections import SectionedCommand, option

if TYPE_CHECKING:
    from wfrun.engine.core.state import RunState
    from wfrun.engine.events import RunChanged
    from wfrun.runners.run.prepare.prepare import Plan

_json_option = option("--json", "as_json", is_flag=True, section=FILES,
                      help="Print each event as a line of JSON on stdout.")  # fmt: skip
_quiet_option = option("--quiet", "-q", is_flag=True, section=FILES,
                       help="Print only errors and the summary.")  # fmt: skip


@click.command(
    cls=SectionedCommand,
    help="Run workflows and bags of tasks together, as one run.\n\n"
    f"Formats of workflows: {titles(formats_of('workflow'))}. "
    f"Formats of bags: {titles(formats_of('bags'))}.",
)
@document_options
@owner_option
@line_options(DOCUMENTS, outputs=True)
@option("--reuse", metavar="RUN|auto|none", default="none", show_default=True,
        shell_complete=complete_sources, section=DOCUMENTS,
        help="Take over the outputs of tasks that an earlier run did with the same command, "
        "environment, program and inputs: the run RUN, or with `auto` your latest "
        "ones.")  # fmt: skip
@option("--dry-run", is_flag=True, section=DOCUMENTS,
        help="Say what would run, what would be reused and what is missing, and start nothing.",
        )  # fmt: skip
@option("--connect", is_flag=True, section=DOCUMENTS,
        help="With --dry-run: also connect to the sites, and check what they offer.")  # fmt: skip
@settings_options("run")
@history_options(
    SCHEDULING,
    "keeps run times, the speed of links and CPU times across runs",
    default="Default: ~/.local/state/wfrun/history.sqlite, and none with --emulate.",
)
@option("--past-usage", is_flag=True, section=SCHEDULING,
        help="Let fair selection policies count the CPU time that each owner used in earlier "
        "runs.")  # fmt: skip
@option("--at-sites", is_flag=True, section=EMULATION,
        help="With --emulate: emulate at the clusters, not on this machine.")  # fmt: skip
@option("--run-dir", type=click.Path(path_type=Path), metavar="DIR", section=FILES,
        help="Directory of the run. Default: wfrun-runs/<name>-<number>.")  # fmt: skip
@_json_option
@_quiet_option
def run(documents: tuple[Path, ...], run_dir: Path | None, **options: Any) -> None:
    """Run workflows and bags of tasks together, as one run."""
    from wfrun.runners.cli.run.driving import drive
    from wfrun.runners.run.prepare.owners import check_owner
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.run.prepare.prepare import prepare, this_machine
    from wfrun.runners.run.session import Session
    from wfrun.sites.catalog import read_catalog

    load_policies()
    settings = settings_from(options)
    if options["at_sites"] and not settings.emulate:
        raise click.UsageError("--at-sites has no effect without --emulate")
    if options["reuse"] != "none" and settings.emulate:
        raise click.UsageError("--reuse has no effect with --emulate: its outputs have no content")
    if options["connect"] and not options["dry_run"]:
        raise click.UsageError("--connect has no effect without --dry-run")
    if options["owner"]:
        check_owner(options["owner"])
    template = line_template(options)
    catalog = read_catalog(options["sites"]) if options["sites"] else this_machine()
    plan = prepare(
        documents, catalog, settings, inputs=options["inputs"], at_sites=options["at_sites"],
        template=template, owner=options["owner"],
    )  # fmt: skip
    if not options["quiet"]:
        for warning in plan.warnings:
            click.echo(message_block(f"warning: {warning}"), err=True)
    if options["dry_run"]:
        from wfrun.runners.cli.run.dry_run import dry_run

        sys.exit(dry_run(plan, options["reuse"], connect=options["connect"]))
    session = Session(
        history=chosen_history(options, emulate=settings.emulate),
        past_usage=options["past_usage"],
    )
    session.start(plan, run_dir, _run_name(plan, documents[0]), options["reuse"])
    if options["reuse"] != "none" and not options["quiet"] and session.reuse is not None:
        from wfrun.runners.cli.run.dry_run import reuse_lines

        for line in reuse_lines(session.reuse):
            click.echo(line, err=True)
    sys.exit(drive(session, as_json=options["as_json"], quiet=options["quiet"]))


def _run_name(plan: Plan, document: Path) -> str:
    """The default name of the run: that of the first document, or of the bag if the document has
    only one bag."""
    bags = [w.bag for w in plan.workflows if w.source == str(document)]
    return bags[0].name if len(bags) == 1 and bags[0] is not None else document.stem


@click.command(cls=SectionedCommand)
@run_argument
@option("--sites", type=click.Path(path_type=Path), metavar="CATALOG", section=DOCUMENTS,
        help="Site catalog (YAML) from now on. Sites that are not in it get no more tasks.",
        )  # fmt: skip
@option("--plan", "only_plan", is_flag=True, section=DOCUMENTS,
        help="Plan the rest of RUN as `wfrun plan` does, and start nothing.")  # fmt: skip
@option("--runtime", type=click.FloatRange(min=0), metavar="SECONDS", section=DOCUMENTS,
        help="With --plan: run time of tasks whose document states none and whose class has not "
        "run yet.")  # fmt: skip
@settings_options("resume")
@option("--no-history", is_flag=True, section=SCHEDULING,
        help="Add nothing to the history file of RUN.")  # fmt: skip
@_json_option
@_quiet_option
@option("--dead-host", "dead_hosts", multiple=True, metavar="NAME",
        help="Treat this host as dead, with the engine and the launchers of RUN on it. "
        "Repeatable.")  # fmt: skip
@trust_option
def resume(
    run: str | None,
    as_json: bool,
    quiet: bool,
    dead_hosts: tuple[str, ...],
    trust: bool,
    sites: Path | None,
    only_plan: bool,
    runtime: float | None,
    no_history: bool,
    **options: Any,
) -> None:
    """Continue RUN after a crash, an interrupt or a failure.

    Tasks that are done are not run again, running tasks are adopted, failed tasks are retried.
    Options of a run that are given here replace its earlier ones.
    """
    from wfrun.engine.settings import as_flag
    from wfrun.runners.cli.run.driving import drive
    from wfrun.runners.run.changes import changed_run, described
    from wfrun.runners.run.directory.trust import find_own
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.run.session import Session
    from wfrun.runners.simulate.simulated_run import refuse_simulated
    from wfrun.sites.catalog import read_catalog

    load_policies()
    if runtime is not None and not only_plan:
        raise click.UsageError("--runtime has no effect without --plan")
    found = find_own(run, "resume", trust=trust)
    refuse_simulated(found, "there is nothing to continue")
    given = changes_from(options)
    catalog = None if sites is None else read_catalog(sites)

    def change(state: RunState) -> RunChanged | None:
        return changed_run(state, given, catalog, as_flag)

    if only_plan:
        from wfrun.runners.cli.simulate.plan_command import plan_rest

        plan_rest(found, change, assumed_s=runtime, keeps_history=not no_history, as_json=as_json)
        return
    session = Session()
    session.resume(found, dead_hosts=dead_hosts, change=change, keeps_history=not no_history)
    if session.change is not None and not quiet:
        for line in described(session.state, session.change):
            click.echo(line, err=True)
    sys.exit(drive(session, as_json=as_json, quiet=quiet))


@click.command()
@run_argument
@click.option("--drain", is_flag=True, help="Let running tasks end instead of ending them.")
@trust_option
def cancel(run: str | None, drain: bool, trust: bool) -> None:
    """Stop RUN; `wfrun resume` can continue it later."""
    import time

    from wfrun.engine.errors import InvalidError, WfrunError
    from wfrun.runners.run.directory.lock import driver
    from wfrun.runners.run.directory.run_directory import StartingError, await_start, is_driven
    from wfrun.runners.run.directory.trust import find_own
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    found = find_own(run, "cancel", trust=trust)
    asked = driver(found.lock)
    if not is_driven(found):
        raise InvalidError(f"the run {found.name} is not running: there is nothing to cancel")
    refuse_simulated(found, "press Ctrl-C in its terminal")
    found.ask_to_cancel("drain" if drain else "kill")
    click.echo(f"asked {found.path} to stop")
    try:
        await_start(found, 0.0)
    except StartingError:
        click.echo("the run is starting; it stops once its sites are open")
    except WfrunError:
        pass  # the engine has just ended, or reports the error of the log itself
    while not drain and is_driven(found) and driver(found.lock) == asked:
        time.sleep(0.1)
    if not drain:
        click.echo("stopped")
