"""What the command has for bags: options of ``run``, and ``wfrun results``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from wfrun.parsers.bags.commands import LineTemplate

F = TypeVar("F", bound=Callable[..., Any])


def _complete_selection(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.engine.policies.selection import SELECTION

    return [name for name in SELECTION if name.startswith(incomplete)]


class _Number(click.FloatRange):
    name = "number"


_OPTIONS = (
    click.option(
        "--command", metavar="TEMPLATE",
        help="The command for each row of the tables that are given as documents (CSV, TSV), with "
        "their columns in braces.",
    ),
    click.option(
        "--delimiter", metavar="CHARACTER",
        help="Between the cells of these tables; by default a comma, of .tsv files a tab.",
    ),
    click.option(
        "--stdout", metavar="TEMPLATE",
        help="Of tables and lists of commands: the file for what a task prints, kept in the run's "
        "outputs. It has to be another for each task, as `{index}.txt` is.",
    ),
    click.option(
        "--output", multiple=True, metavar="TEMPLATE",
        help="Likewise, a file that each task writes, as `{ligand}-{seed}.pdbqt`. Repeatable.",
    ),
    click.option(
        "--input", multiple=True, metavar="TEMPLATE",
        help="Likewise, a file that each task reads. Repeatable.",
    ),
    click.option(
        "--estimate", metavar="TEMPLATE",
        help="Likewise, how long a task takes, as `90 s`, or `{column}`, for policies that plan.",
    ),
    click.option(
        "--selection", metavar="NAME", shell_complete=_complete_selection,
        help="Selection policy: whose tasks come next. By default s-bot where there is a bag; "
        "`wfrun policies` lists them.",
    ),
    click.option(
        "--replicas", type=click.IntRange(min=0), metavar="N",
        help="Most further copies of a running task at other sites; the first to succeed counts. "
        "By default what the policy does.",
    ),
    click.option(
        "--replication", type=click.Choice(["idle", "stragglers"]), default="idle",
        show_default=True,
        help="Copy tasks when nothing else waits for the cores, or only those that run for much "
        "longer than others of their kind.",
    ),
    click.option(
        "--replica-share", type=_Number(min=0, max=1), default=1.0, show_default=True,
        metavar="X", help="Copies hold no more than this share of all cores.",
    ),
    click.option(
        "--straggler-factor", type=_Number(min=0), default=1.5, show_default=True, metavar="X",
        help="A straggler runs for longer than this times the quantile of its kind.",
    ),
    click.option(
        "--straggler-quantile", type=_Number(min=0, max=1), default=0.75, show_default=True,
        metavar="X", help="The quantile.",
    ),
    click.option(
        "--history", metavar="FILE",
        help="Where run times are kept across runs, for predictions; `none`: nowhere. By default "
        "~/.local/state/wfrun/history.sqlite. Runs with a selection policy use it.",
    ),
    click.option(
        "--past-usage", is_flag=True,
        help="Selection policies that are fair count what owners used in earlier runs, too.",
    ),
)  # fmt: skip


def bag_options(command: F) -> F:
    """Adds to ``run`` what is for bags, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def bag_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Those of them that are settings of a run, by their names in `Settings`."""
    names = (
        "replication", "replicas", "replica_share", "straggler_factor", "straggler_quantile",
    )  # fmt: skip
    return {"selection": options["selection"] or "", **{name: options[name] for name in names}}


def line_template(options: dict[str, Any]) -> LineTemplate | None:
    """What is said of the rows of tables and of lists of commands; None: nothing. Raises UsageError
    for a delimiter without tables, or that can't be one."""
    from wfrun.parsers.bags.commands import LineTemplate
    from wfrun.parsers.bags.parameters import to_delimiter

    delimiter: str | None = options["delimiter"]
    if delimiter is not None:
        if options["command"] is None:
            raise click.UsageError("--delimiter goes with --command")
        try:
            delimiter = to_delimiter("\t" if delimiter == "\\t" else delimiter)
        except ValueError as error:
            raise click.UsageError(f"--delimiter: {error}") from error
    template = LineTemplate(
        options["command"],
        delimiter,
        options["input"],
        options["output"],
        options["stdout"],
        options["estimate"],
    )
    return None if template == LineTemplate() else template


def _complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.runners.run.directory import existing

    names = [run.name for run in existing()]
    return [name for name in [*reversed(names), "last"] if name.startswith(incomplete)]


@click.command()
@click.argument("run", required=False, shell_complete=_complete_runs)
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="A file whose name ends with .csv, .tsv or .parquet. By default CSV is "
              "printed.")  # fmt: skip
def results(run: str | None, output: Path | None) -> None:
    """Tabulate the tasks of RUN (`last` by default).

    A row each: its parameters and what became of it: state, site, host, attempts, times, memory,
    exit code, outputs. Also while the run goes on.
    """
    from wfrun.runners.cli.results_command import write_results
    from wfrun.runners.run.directory import find
    from wfrun.runners.run.plugins import load_policies

    load_policies()
    write_results(find(run), output)
