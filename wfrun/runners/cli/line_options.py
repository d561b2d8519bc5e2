"""Options for documents whose lines are tasks: tables and lists of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wfrun.runners.cli.sections import option

if TYPE_CHECKING:
    from wfrun.parsers.bags.line_template import LineTemplate

_C = TypeVar("_C", bound=Callable[..., Any])


def line_options(section: str, *, outputs: bool) -> Callable[[_C], _C]:
    """Add the options to a command, whose function passes their values to `line_template`.
    ``outputs``: include the options for output files of tasks."""
    written = [
        option("--output", multiple=True, metavar="TEMPLATE", section=section,
               help="For tables and lists of commands: a file that each task writes, such as "
               "`{ligand}-{seed}.pdbqt`. Repeatable."),
        option("--stdout", metavar="TEMPLATE", section=section,
               help="For tables and lists of commands: the output file for the stdout of a task. "
               "Its name must differ for each task, such as `{index}.txt`."),
    ]  # fmt: skip
    every = [
        option("--command", metavar="TEMPLATE", section=section,
               help="Command for each row of the tables (CSV, TSV) among the documents, with names "
               "of columns in braces."),
        option("--delimiter", metavar="CHARACTER", section=section,
               help="Delimiter of the cells of tables. Default: a tab in .tsv files, otherwise a "
               "comma."),
        option("--input", multiple=True, metavar="TEMPLATE", section=section,
               help="For tables and lists of commands: a file that each task reads. Repeatable."),
        *(written if outputs else []),
        option("--estimate", metavar="TEMPLATE", section=section,
               help="For tables and lists of commands: the expected run time of a task, such as "
               "`90 s` or `{column}`, for policies that use it."),
    ]  # fmt: skip

    def add(function: _C) -> _C:
        for each in reversed(every):
            function = each(function)
        return function

    return add


def line_template(options: Mapping[str, Any]) -> LineTemplate | None:
    """Return the template that the options describe for documents whose lines are tasks; None if no
    such option is given. Raises UsageError for a delimiter without ``--command``, or of several
    characters."""
    from wfrun.parsers.bags.line_template import LineTemplate
    from wfrun.parsers.bags.values import to_delimiter

    delimiter: str | None = options["delimiter"]
    if delimiter is not None:
        if options["command"] is None:
            raise click.UsageError("--delimiter has no effect without --command")
        try:
            delimiter = to_delimiter("\t" if delimiter == "\\t" else delimiter)
        except ValueError as error:
            raise click.UsageError(f"--delimiter: {error}") from error
    has_outputs = "stdout" in options
    template = LineTemplate(
        options["command"],
        delimiter,
        options["input"],
        options["output"] if has_outputs else (),
        options["stdout"] if has_outputs else None,
        options["estimate"],
    )
    return None if template == LineTemplate() else template
