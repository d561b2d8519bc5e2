"""The options that choose the file of the history across runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wfrun.runners.cli.completion import complete_files
from wfrun.runners.cli.sections import option

if TYPE_CHECKING:
    from wfrun.runners.run.history.history_file import HistoryFile

_C = TypeVar("_C", bound=Callable[..., Any])
_DEFAULT = "Default: ~/.local/state/wfrun/history.sqlite."


def history_options(section: str, what: str, *, default: str = _DEFAULT) -> Callable[[_C], _C]:
    """Add --history and --no-history to a command, whose function passes their values to
    `chosen_history`. ``what`` states what the command does with the file: it completes the help
    text "File that ..."."""
    every = [
        option("--history", metavar="FILE", shell_complete=complete_files, section=section,
               help=f"File that {what}. {default}"),
        option("--no-history", is_flag=True, section=section,
               help="Do without such a file."),
    ]  # fmt: skip

    def add(function: _C) -> _C:
        for each in reversed(every):
            function = each(function)
        return function

    return add


def chosen_history(options: Mapping[str, Any], *, emulate: bool = False) -> HistoryFile | None:
    """The history file that the options select; None: no file. An emulated run uses a history file
    only if the user names one. Raises UsageError if both options are given."""
    from wfrun.runners.run.history.history_file import history_file

    given: str | None = options["history"]
    if given is not None and options["no_history"]:
        raise click.UsageError("give --history or --no-history")
    return history_file(given, without=options["no_history"], own_only=emulate)
