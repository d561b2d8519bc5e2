"""Commands that show runs and policies: ``status``, ``list``, ``launchers``, ``files``, ``logs``,
``results`` and ``policies``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from wfrun.runners.cli.completion import complete_runs, complete_sites, complete_tasks
from wfrun.runners.cli.runs import run_argument, trust_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from wfrun.engine.core.state import RunState
    from wfrun.runners.inspect.tables.run_records import RunRecord
    from wfrun.runners.run.directory.run_directory import RunDir


class _Shown(NamedTuple):
    """A run whose path was printed, and its state."""

    path: Path
    state: RunState
    is_driven: bool
    """Whether a process drives the run now."""
    is_simulated: bool


def _read(found: RunDir) -> _Shown:
    """Read the state of a run. Raises the errors of ``read_state``."""
    from wfrun.runners.run.directory.run_directory import is_driven
    from wfrun.runners.run.directory.simulated import SIMULATED_ID
    from wfrun.runners.run.store.checkpoints import read_state

    driven = is_driven(found)
    state = read_state(found)
    return _Shown(found.path, state, driven, state.run_id == SIMULATED_ID)


def _show(run: str | None, console: Console) -> _Shown | None:
    """Print the path of a run and read its state. If the run is starting, print that and return
    None. Raises the errors of ``read_state``."""
    from wfrun.runners.run.directory.run_directory import StartingError

    found = _find(run)
    try:
        shown = _read(found)
    except StartingError as error:
        console.print(f"run {found.path}", soft_wrap=True)
        console.print(error.message, soft_wrap=True, markup=False)
        return None
    suffix = " (simulated)" if shown.is_simulated else ""
    console.print(f"run {found.path}{suffix}", soft_wrap=True)
    return shown


def _find(run: str | None) -> RunDir:
    """Load the policies of plugins, which the run may use, and find the run."""
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    return find(run)


_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.command()
@run_argument
@_json_option
def status(run: str | None, as_json: bool) -> None:
    """Show the state of RUN (default: `last`)."""
    from wfrun.engine.explain.visible import command_line
    from wfrun.runners.display.console import make_console
    from wfrun.runners.inspect.tables.report import summary

    if as_json:
        from wfrun.runners.display.ascii_json import print_json
        from wfrun.runners.inspect.tables.run_records import StatusRecord, status_record
        from wfrun.runners.run.directory.run_directory import StartingError

        found = _find(run)
        try:
            read = _read(found)
        except StartingError:
            print_json(StatusRecord(found.name, str(found.path), "starting"))
        else:
            print_json(status_record(read.path, read.state, driven=read.is_driven))
        return
    console = make_console()
    shown = _show(run, console)
    if shown is None:
        return
    console.print(summary(shown.state, driven=shown.is_driven))
    if not shown.is_driven and not shown.is_simulated and shown.state.ended != "done":
        command = command_line("wfrun", "resume", shown.path)
        console.print(f"to continue: {command}", soft_wrap=True)


@click.command()
@run_argument
@click.option("--all", "ended", is_flag=True, help="Also show launchers that have ended.")
def launchers(run: str | None, ended: bool) -> None:
    """Show the launchers of RUN (default: `last`).

    For each launcher: its site and host, its state and since when, slots, busy cores, remaining
    walltime, tasks done, and channel. Below the table: sites that get no more launchers, with the
    reason.
    """
    from wfrun.runners.display.console import make_console
    from wfrun.runners.inspect.tables.launchers import show

    console = make_console()
    shown = _show(run, console)
    if shown is not None:
        show(
            console, shown.state,
            driven=shown.is_driven, simulated=shown.is_simulated, ended=ended,
        )  # fmt: skip


@click.command()
@run_argument
@click.option("--name", "patterns", multiple=True, metavar="PATTERN",
              help="Show files whose names match, such as `*.fits`. Repeatable.")  # fmt: skip
@click.option(
    "--site",
    metavar="NAME",
    shell_complete=complete_sites,
    help="Show files that are at this site.",
)
@click.option("--all", "everything", is_flag=True,
              help="Also show files that are at no site: inputs, collected outputs, files that "
              "were removed or are not written yet.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=0), metavar="N", default=100, show_default=True,
              help="Maximum number of files shown; 0: no limit.")  # fmt: skip
@_json_option
def files(
    run: str | None,
    patterns: tuple[str, ...],
    site: str | None,
    everything: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show where the files of RUN are (default: `last`).

    For each file at a site: its size and checksum, the sites that have it, since when, and why it
    is still there. Below the table: number and total size of the files at each site.
    """
    from wfrun.engine.errors import InvalidError
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.inspect.tables.files import FilesDocument, file_records, read_files, show
    from wfrun.runners.run.directory.run_directory import is_driven
    from wfrun.runners.run.directory.simulated import SIMULATED_ID

    found = _find(run)
    driven = is_driven(found)
    state, since_s = read_files(found)
    names = [each.spec.name for each in state.sites]
    if site is not None and site not in names:
        raise InvalidError(f"the run has no site {site!r}", hint=f"its sites: {', '.join(names)}")
    records, more = file_records(
        state, since_s, patterns=patterns, site=site, everything=everything, limit=limit or None
    )
    if as_json:
        print_json(FilesDocument(str(found.path), tuple(records), more))
        return
    console = make_console()
    console.print(f"run {found.path}", soft_wrap=True)
    show(console, state, records, more, driven=driven, simulated=state.run_id == SIMULATED_ID)


@click.command("list")
@click.option("--all", "everywhere", is_flag=True,
              help="Also list your runs in other folders, with their paths.")  # fmt: skip
@_json_option
def list_(everywhere: bool, as_json: bool) -> None:
    """List the runs in ./wfrun-runs."""
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.run.directory.run_directory import existing
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    runs = [_record(run) for run in existing(here=not everywhere)]
    if as_json:
        print_json(runs)
    elif runs:
        make_console().print(_run_table(runs, paths=everywhere))
    elif elsewhere := existing():
        click.echo(
            "there is no run in ./wfrun-runs; `wfrun list --all` lists your runs in other folders: "
            f"{len(elsewhere)}"
        )
    else:
        click.echo("there is no run in ./wfrun-runs, and none of yours elsewhere")


def _record(run: RunDir) -> RunRecord:
    """The record of a run for the list. A run that cannot be read has a record with the error."""
    from wfrun.engine.errors import WfrunError
    from wfrun.runners.inspect.tables.run_records import RunRecord, run_record
    from wfrun.runners.run.directory.run_directory import StartingError, is_driven
    from wfrun.runners.run.store.checkpoints import read_state

    try:
        state = read_state(run, 0.0)
    except StartingError:
        return RunRecord(run.name, str(run.path), "starting")
    except WfrunError as error:
        return RunRecord(run.name, str(run.path), "unreadable", error.message)
    return run_record(run.path, state, driven=is_driven(run))


def _run_table(runs: list[RunRecord], *, paths: bool) -> Table:
    """The table of runs, with a row for each. ``paths``: show the paths of the runs instead of
    their names."""
    from rich.table import Table

    from wfrun.engine.explain.visible import name_line
    from wfrun.runners.display.durations import duration

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", no_wrap=not paths, overflow="fold")
    table.add_column("state")
    for heading in ("tasks", "done", "failed", "time"):
        table.add_column(heading, justify="right")
    table.add_column("policy")
    for run in runs:
        name = name_line(run.path, 1000) if paths else name_line(run.name)
        if run.tasks is None or run.elapsed_s is None:
            state = f"{run.state}: {run.reason}" if run.reason else run.state
            table.add_row(name, state)
            continue
        numbers = (run.tasks.total, run.tasks.done, run.tasks.failed)
        table.add_row(name, run.state, *map(str, numbers), duration(run.elapsed_s), run.policy)
    return table


@click.command()
@click.argument("run", shell_complete=complete_runs)
@click.argument("task", shell_complete=complete_tasks)
@click.option("--tail", "-n", type=click.IntRange(min=0), metavar="N",
              help="Print only the last N lines of each stream.")  # fmt: skip
@click.option("--follow", "-f", is_flag=True,
              help="Print what open attempts write until they end; without one, wait for the "
              "next.")  # fmt: skip
@trust_option
def logs(run: str, task: str, tail: int | None, follow: bool, trust: bool) -> None:
    """Print the output of TASK of RUN.

    Prints stdout and stderr of each attempt, under a line with its outcome. Bytes are printed
    unchanged, except on a terminal, which gets escapes in place of control characters.
    """
    from wfrun.runners.inspect.logs.logs import print_logs
    from wfrun.runners.run.directory.trust import find_own
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.simulate.simulated_run import refuse_simulated

    load_policies()
    found = find_own(run, "logs", trust=trust)  # it connects to the sites that the log names
    refuse_simulated(found, "its tasks have no output")
    print_logs(found, task, tail=tail, follow=follow)


@click.command()
@run_argument
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="File to write; its name ends with .csv, .tsv or .parquet. Default: print "
              "CSV.")  # fmt: skip
@click.option("--owners", is_flag=True,
              help="Instead, a row for each owner of bags with optional tasks: what the owner got "
              "and deserved.")  # fmt: skip
@click.option("--safe-csv", is_flag=True,
              help="Write an apostrophe before texts that a spreadsheet would evaluate: those that "
              "begin with = + - @, a tab or a carriage return, and are no numbers.")  # fmt: skip
def results(run: str | None, output: Path | None, owners: bool, safe_csv: bool) -> None:
    """Tabulate the tasks of RUN (default: `last`).

    A row for each task: its parameters, state, site, host, attempts, times, memory, exit code and
    outputs. RUN may still be running.
    """
    from wfrun.runners.inspect.tables.owners import OwnerResults
    from wfrun.runners.inspect.tables.results import RunResults, write_results
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    table = OwnerResults if owners else RunResults
    write_results(find(run), output, table, safe_csv=safe_csv)


@click.command()
def policies() -> None:
    """List the placement and selection policies.

    For placement policies also the information that they use (Tables 5.1 and 6.1 of the thesis).
    """
    from wfrun.runners.display.console import make_console
    from wfrun.runners.inspect.tables.report import policy_table, selection_table
    from wfrun.runners.run.prepare.plugins import load_policies

    load_policies()
    console = make_console()
    console.print(policy_table())
    console.print()
    console.print(selection_table())
