"""Bags without a document of their own: a table and a command for its rows, a list of commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, Bag, BagFile, Workflow
from wfrun.parsers.bags.check import checked
from wfrun.parsers.bags.columns import column_of
from wfrun.parsers.bags.text import lines_of, read_table

SHELL = "sh"
COMMAND = "command"
"""The parameter of a list of commands."""
MOST_PROGRAMS = 64
"""Programs of its own that a list of commands may bring along."""


def words_of(command: str) -> tuple[str, ...]:
    """A command's words, as a shell would split them. Raises ValueError for none, and for a quote
    that is not closed."""
    words = tuple(shlex.split(command))
    if not words:
        raise ValueError("it is empty")
    return words


def read_table_bag(path: Path, command: str, delimiter: str | None = None) -> Workflow:
    """A task for each row of a table, which the command names by its columns.

    Raises InvalidError for whatever is wrong with the table or the command.
    """

    def refuse(message: str, what: str, hint: str | None = None) -> InvalidError:
        return InvalidError(message, source=str(path), line=1, hint=hint)

    try:
        words = words_of(command)
    except ValueError as error:
        raise InvalidError(f"the command {command!r} can't be split: {error}") from error
    axis = read_table(path, delimiter)
    bag = Bag(path.stem, str(path), words[0], words[1:], (axis,))
    return checked(bag, refuse)


def read_commands(path: Path) -> Workflow:
    """A task for each line, which a shell runs. Empty lines and those that begin with # are passed
    over. Programs that lines name by relative paths beside the document come along.

    Raises InvalidError for what is no text, or has no commands.
    """
    programs: dict[str, int] = {}
    column = column_of(_note_program(path, number, text, programs) for number, text in _lines(path))
    if not len(column):
        raise InvalidError(
            "there are no commands", source=str(path), line=1, hint="Write one on each line."
        )
    inputs = tuple(BagFile(escaped(name), executable=True) for name in programs)

    def refuse(message: str, what: str, hint: str | None = None) -> InvalidError:
        return InvalidError(message, source=str(path), line=programs.get(what), hint=hint)

    axis = Axis((COMMAND,), (column,))
    arguments = ("-c", f"{{{COMMAND}}}")
    bag = Bag(path.stem, str(path), SHELL, arguments, (axis,), inputs, application=path.stem)
    return checked(bag, refuse)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    return ((number, text) for number, text in lines_of(path) if not text.startswith("#"))


def _note_program(path: Path, number: int, text: str, programs: dict[str, int]) -> str:
    """The line itself; its program is noted if it is a file beside the document."""
    word = text.split(None, 1)[0]
    if "/" in word and not word.startswith(("/", "~", "$", "'", '"')):
        name = word.removeprefix("./")
        if name not in programs and (path.parent / name).is_file():
            if len(programs) >= MOST_PROGRAMS:
                raise InvalidError(
                    f"the commands name more than {MOST_PROGRAMS} programs beside the document",
                    source=str(path),
                    line=number,
                    hint="Install them at the sites, or write a YAML document with a parameter "
                    "for the program; see docs/bags.md.",
                )
            programs[name] = number
    return text


def escaped(text: str) -> str:
    """A template for just this text."""
    return text.replace("{", "{{").replace("}", "}}")
