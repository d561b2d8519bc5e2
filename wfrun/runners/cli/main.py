"""The command ``wfrun``. Modules that take time to import are imported where they are used."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from wfrun.runners.cli.bags import bag_options, bag_settings, line_template, results
from wfrun.runners.cli.exit_statuses import DONE, FAILED, INTERRUPTED, INVALID, SITE
from wfrun.runners.cli.generate import generate
from wfrun.runners.cli.graph import graph
from wfrun.runners.cli.simulate import simulate, study
from wfrun.runners.cli.sites import bench, sites

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wfrun.engine.state import RunState
    from wfrun.runners.run.prepare import Plan
    from wfrun.runners.run.session import Session

DEFAULT_POLICY = "file-aware"


class _Command(click.Group):
    """``wfrun FILE`` is short for ``wfrun run FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"--help", "-h", "--version", *self.commands}
        if args and args[0] not in own:
            self._refuse_mistyped(ctx, args[0])
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands, or else the files that may stand in their place."""
        files = CompletionItem(incomplete, type="file")
        return super().shell_complete(ctx, incomplete) or [files]

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C where no run is being driven, as while a document is read."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def _refuse_mistyped(self, ctx: click.Context, word: str) -> None:
        """A word that is no file, but nearly a command."""
        from difflib import get_close_matches

        near = get_close_matches(word, self.commands, n=1)
        if near and "." not in word and not Path(word).exists():
            ctx.fail(f"There is no command and no workflow {word!r}. Did you mean {near[0]!r}?")


@click.group(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 all done, 1 some tasks failed, 2 wrong input or usage, 3 a site or the "
    "run directory could not be used, 130 interrupted.",
)
@click.version_option(package_name="wfrun")
def cli() -> None:
    """Run workflows and bags of tasks over several clusters.

    `wfrun WORKFLOW…` is short for `wfrun run WORKFLOW…`. RUN is the path of a run directory, its
    name, or `last`.
    """


def _complete_policies(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.engine.policies.placement import PLACEMENT
    from wfrun.runners.run.plugins import load_policies

    load_policies()
    return [name for name in PLACEMENT if name.startswith(incomplete)]


def _complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.runners.run.directory import existing

    names = [run.name for run in existing()]
    return [name for name in [*reversed(names), "last"] if name.startswith(incomplete)]


class _Scale(click.FloatRange):
    name = "number"


@cli.command()
@click.argument("workflows", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--sites", type=click.Path(path_type=Path), metavar="CATALOG",
              help="Site catalog (YAML). Without it there is one site: this machine.")  # fmt: skip
@click.option("--policy", "-p", default=DEFAULT_POLICY, show_default=True, metavar="NAME",
              shell_complete=_complete_policies,
              help="Placement policy; `wfrun policies` lists them.")  # fmt: skip
@click.option("--policy-option", "-O", multiple=True, metavar="NAME=VALUE",
              help="An option of the policy, as `size=50` of coarsening.")  # fmt: skip
@bag_options
@click.option("--throttle", type=click.IntRange(min=1), metavar="N",
              help="Most tasks of one workflow dispatched at once.")  # fmt: skip
@click.option("--inputs", type=click.Path(path_type=Path, file_okay=False, exists=True),
              metavar="DIR", help="Folder of initial input files.")  # fmt: skip
@click.option("--run-dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Where the run is kept; by default wfrun-runs/<name>-<number>.")  # fmt: skip
@click.option("--retries", type=click.IntRange(min=0), default=2, show_default=True, metavar="N",
              help="Further attempts of a task that fails by itself.")  # fmt: skip
@click.option("--retry-delay", type=click.FloatRange(min=0), default=1.0, show_default=True,
              metavar="SECONDS", help="Before the first retry; doubled for each more.")  # fmt: skip
@click.option("--on-failure", type=click.Choice(["continue", "stop"]), default="continue",
              show_default=True,
              help="After a task has failed for good: run all that does not depend on it, or "
              "start nothing more.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N",
              help="Of all random choices.")  # fmt: skip
@click.option("--emulate", is_flag=True,
              help="Replace each task by one that takes its run time (over the site's speed) and "
              "writes outputs of its sizes (sparse files).")  # fmt: skip
@click.option("--at-sites", is_flag=True,
              help="Emulation: at the clusters of the catalog, not at stand-ins of them on this "
              "machine.")  # fmt: skip
@click.option("--time-scale", type=_Scale(min=0), default=1.0, show_default=True, metavar="X",
              help="Emulation: run times and transfer times are multiplied by this.")  # fmt: skip
@click.option("--size-scale", type=_Scale(min=0), default=1.0, show_default=True, metavar="X",
              help="Emulation: file sizes are multiplied by this.")  # fmt: skip
@click.option("--pack-logs", is_flag=True,
              help="Keep what tasks print in one file of each launcher, not in two of each task: "
              "for bags of very many. `wfrun logs` shows it as ever.")  # fmt: skip
@click.option("--keep-files", is_flag=True,
              help="Leave intermediate files at the sites when all is done.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the events as lines of JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors and the end alone.")
def run(workflows: tuple[Path, ...], run_dir: Path | None, **options: Any) -> None:
    """Run workflows and bags of tasks, together as one run.

    Workflows may be DAX, Pegasus 5 YAML and WfFormat JSON; bags YAML, JSDL, tables (CSV or TSV,
    with --command) and lists of commands (.txt).
    """
    from wfrun.engine.events import Settings
    from wfrun.runners.run.history import history_file
    from wfrun.runners.run.plugins import load_policies
    from wfrun.runners.run.prepare import prepare, this_machine
    from wfrun.runners.run.session import Session
    from wfrun.sites.catalog import read_catalog

    load_policies()
    if not options["emulate"] and (options["time_scale"] != 1 or options["size_scale"] != 1):
        raise click.UsageError("--time-scale and --size-scale go with --emulate")
    if options["at_sites"] and not options["emulate"]:
        raise click.UsageError("--at-sites goes with --emulate")
    template = line_template(options)
    settings = Settings(
        policy=options["policy"],
        policy_options=_policy_options(options["policy_option"]),
        throttle=options["throttle"],
        retries=options["retries"],
        retry_delay_s=options["retry_delay"],
        on_failure=options["on_failure"],
        seed=options["seed"],
        emulate=options["emulate"],
        time_scale=options["time_scale"],
        size_scale=options["size_scale"],
        pack_logs=options["pack_logs"],
        **bag_settings(options),
    )
    catalog = read_catalog(options["sites"]) if options["sites"] else this_machine()
    plan = prepare(
        workflows, catalog, settings, inputs=options["inputs"], at_sites=options["at_sites"],
        template=template,
    )  # fmt: skip
    if not options["quiet"]:
        for warning in plan.warnings:
            click.echo(f"warning: {warning}", err=True)
    session = Session(
        keep_files=options["keep_files"],
        history=history_file(options["history"]),
        past_usage=options["past_usage"],
    )
    session.start(plan, run_dir, _run_name(plan, workflows[0]))
    sys.exit(_drive(session, as_json=options["as_json"], quiet=options["quiet"]))


def _run_name(plan: Plan, document: Path) -> str:
    """That of the first document, or of the only bag in it."""
    bags = [w.bag for w in plan.workflows if w.source == str(document)]
    return bags[0].name if len(bags) == 1 and bags[0] is not None else document.stem


def _policy_options(given: Sequence[str]) -> dict[str, int | float | str]:
    options: dict[str, int | float | str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--policy-option")
        options[name] = value
    return options


def _drive(session: Session, *, as_json: bool, quiet: bool) -> int:
    """Run to the end with a display; returns the exit status."""
    import asyncio
    import signal

    from wfrun.runners.display import progress
    from wfrun.runners.display.report import make_console, summary

    console = make_console(stderr=True)
    title = session.run.name
    display: progress.LiveProgress | progress.LineProgress
    if console.is_terminal:
        display = progress.LiveProgress(console, session.state, title)
    else:
        display = progress.LineProgress(session.state, title)
    if as_json:
        session.observers.append(progress.JsonEvents(session.logged))

    def told(times: int) -> None:
        message = (
            "no more tasks are started; running ones end. Ctrl-C again ends them too."
            if times == 1
            else "running tasks are being ended. Ctrl-C again leaves at once."
            if times == 2
            else "leaving; what runs goes on, and wfrun resume finds it."
        )
        if isinstance(display, progress.LiveProgress):
            display.note = message
        else:
            click.echo(message, err=True)

    async def show() -> None:
        await session.opened.wait()  # until then a login may ask
        await display.show()

    async def drive() -> RunState:
        session.listen_to_signals(told)
        shown = None if quiet else asyncio.create_task(show())
        try:
            return await session.drive()
        finally:
            if shown is not None:
                shown.cancel()
                await asyncio.gather(shown, return_exceptions=True)

    if not quiet and not as_json:
        console.print(f"run {session.run.path}")
        if session.clusters:
            console.print(f"connecting to {', '.join(session.clusters)}")
    try:
        state = asyncio.run(drive())
    except BrokenPipeError:  # the reader of --json is gone, as after `| head`
        path = session.run.path
        click.echo(f"nobody reads the events any more; to go on: wfrun resume {path}", err=True)
        raise
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # one Ctrl-C too many must not cut the summary
    out = make_console(stderr=as_json)
    out.print(summary(state))
    if state.ended == "done":
        if any(w.to_collect for w in state.workflows):
            out.print(f"outputs: {session.run.outputs}")
        return DONE
    out.print(f"to go on: wfrun resume {session.run.path}")
    if state.ended == "cancelled":
        return INTERRUPTED
    return SITE if state.end_reason else FAILED


@cli.command()
@click.argument("run", required=False, shell_complete=_complete_runs)
@click.option("--keep-files", is_flag=True, help="Leave intermediate files at the sites.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as lines of JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors and the end alone.")
def resume(run: str | None, keep_files: bool, as_json: bool, quiet: bool) -> None:
    """Go on with RUN after a crash, an interrupt or a failure.

    What is done is not run again, what still runs is adopted, failed tasks are tried again.
    """
    from wfrun.runners.run.directory import find
    from wfrun.runners.run.plugins import load_policies
    from wfrun.runners.run.session import Session
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    load_policies()
    session = Session(keep_files=keep_files)
    found = find(run)
    refuse_simulated(found, "there is nothing to go on with")
    session.resume(found)
    sys.exit(_drive(session, as_json=as_json, quiet=quiet))


@cli.command()
@click.argument("run", required=False, shell_complete=_complete_runs)
def status(run: str | None) -> None:
    """Show where RUN stands (`last` by default)."""
    from wfrun.runners.display.report import make_console, summary
    from wfrun.runners.run.directory import StartingError, find, is_driven
    from wfrun.runners.run.plugins import load_policies
    from wfrun.runners.run.session import read_state
    from wfrun.runners.simulate.simulation import RUN_ID

    load_policies()
    found = find(run)
    console = make_console()
    driven = is_driven(found)
    try:
        state = read_state(found)
    except StartingError as error:
        console.print(f"run {found.path}")
        console.print(error.message, soft_wrap=True, markup=False)
        return
    simulated = state.run_id == RUN_ID
    console.print(f"run {found.path} (simulated)" if simulated else f"run {found.path}")
    console.print(summary(state, driven=driven))
    if not driven and not simulated and state.ended != "done":
        console.print(f"to go on: wfrun resume {found.path}")


@cli.command()
@click.argument("run", required=False, shell_complete=_complete_runs)
@click.option("--all", "ended", is_flag=True, help="Those that have ended, too.")
def launchers(run: str | None, ended: bool) -> None:
    """Show the launchers of RUN (`last` by default).

    Where each is and since when, its slots and how many are busy, the walltime that is left, what
    it has done, and how it is connected. Below: why a site gets no more of them.
    """
    from wfrun.runners.cli import launchers_command
    from wfrun.runners.run.directory import find
    from wfrun.runners.run.plugins import load_policies

    load_policies()
    launchers_command.show(find(run), ended=ended)


@cli.command("list")
def list_() -> None:
    """List the runs in ./wfrun-runs."""
    from rich.table import Table

    from wfrun.engine.errors import WfrunError
    from wfrun.runners.display.report import duration, make_console, outcome_text
    from wfrun.runners.run.directory import StartingError, existing, is_driven
    from wfrun.runners.run.plugins import load_policies
    from wfrun.runners.run.session import read_state

    load_policies()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", no_wrap=True)
    table.add_column("state")
    for heading in ("tasks", "done", "failed", "time"):
        table.add_column(heading, justify="right")
    table.add_column("policy")
    runs = existing()
    if not runs:
        click.echo("there is no run yet in ./wfrun-runs")
        return
    for found in runs:
        try:
            state = read_state(found, 0.0)
        except StartingError:
            table.add_row(found.name, "starting")
            continue
        except WfrunError as error:
            table.add_row(found.name, f"unreadable: {error.message}")
            continue
        table.add_row(
            found.name,
            outcome_text(state, driven=is_driven(found)),
            str(state.tasks),
            str(state.done),
            str(state.failed),
            duration(state.now_s - state.started_s),
            state.settings.policy,
        )
    make_console().print(table)


@cli.command()
@click.argument("run", shell_complete=_complete_runs)
@click.argument("task")
def logs(run: str, task: str) -> None:
    """Print what TASK of RUN wrote.

    Its stdout and stderr, attempt by attempt, each under a line that says how it ended.
    """
    from wfrun.runners.display.logs import print_logs
    from wfrun.runners.run.directory import find
    from wfrun.runners.run.plugins import load_policies
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    load_policies()
    found = find(run)
    refuse_simulated(found, "its tasks printed nothing")
    print_logs(found, task)


@cli.command()
@click.argument("run", required=False, shell_complete=_complete_runs)
@click.option("--drain", is_flag=True, help="Let running tasks end.")
def cancel(run: str | None, drain: bool) -> None:
    """Stop RUN; `wfrun resume` can go on with it later."""
    import time

    from wfrun.engine.errors import InvalidError, WfrunError
    from wfrun.runners.run.directory import StartingError, await_start, find, is_driven
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    found = find(run)
    if not is_driven(found):
        raise InvalidError(f"the run {found.name} is not running; there is nothing to cancel")
    refuse_simulated(found, "Ctrl-C ends a simulation")
    found.ask_to_cancel("drain" if drain else "kill")
    click.echo(f"asked {found.path} to stop")
    try:
        await_start(found, 0.0)
    except StartingError:
        click.echo("it is starting, and stops as soon as its sites are open")
    except WfrunError:
        pass  # its engine has just ended, or says itself what is wrong with the log
    while not drain and is_driven(found):
        time.sleep(0.1)
    if not drain:
        click.echo("stopped")


@cli.command()
def policies() -> None:
    """List the placement and selection policies.

    Also the information that the former use (Tables 5.1 and 6.1 of the thesis).
    """
    from wfrun.runners.display.report import make_console, policy_table, selection_table
    from wfrun.runners.run.plugins import load_policies

    load_policies()
    console = make_console()
    console.print(policy_table())
    console.print()
    console.print(selection_table())


for _command in (bench, generate, graph, results, simulate, sites, study):
    cli.add_command(_command)


def _open_standard_streams() -> None:
    """Those that were closed, as by `>&-`: files of ours must not get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as long as we live
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def main() -> None:
    """The entry point: errors that the user is meant to read are printed, not raised."""
    from wfrun.engine.errors import InvalidError, WfrunError

    _open_standard_streams()
    try:
        cli(prog_name="wfrun")
    except WfrunError as error:
        click.echo(f"wfrun: {error}", err=True)
        sys.exit(INVALID if isinstance(error, InvalidError) else SITE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # stdout on a full disk; sites and stores have errors of their own
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        reason = error.strerror
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of it, at exit
        click.echo(f"wfrun: the output can't be written: {reason}", err=True)
        sys.exit(SITE)


if __name__ == "__main__":
    main()
