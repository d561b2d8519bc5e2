"""Bags whose lines are tasks: a table and a command for its rows, or a list of commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, Bag, BagFile
from wfrun.parsers.bags.columns import column_of
from wfrun.parsers.bags.draft import BagDraft
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.bags.text import lines_of, read_table
from wfrun.parsers.bags.values import escaped, words_of

SHELL = "sh"
COMMAND = "command"
"""Name of the parameter that holds the command of a line of a list."""
MAX_PROGRAMS = 64
"""Maximum number of programs in the folder of a list of commands that become inputs. Each of them
becomes an input of every task."""

_OPTIONS = {">": "name a file for what it prints with --stdout, "}


def read_table_bag(path: Path, template: LineTemplate) -> list[BagDraft]:
    """Read a table as a bag with a task for each row. The command refers to the cells by the names
    of their columns.

    Raises InvalidError for any fault of the table or a template.
    """
    command = template.command
    if command is None:
        raise InvalidError(
            "a table needs a command for its rows",
            source=str(path),
            hint="Give --command 'PROGRAM {COLUMN}', with the columns in braces; or name the "
            "table in a YAML document; see docs/bags.md.",
        )
    try:
        words = words_of(command, _OPTIONS)
    except ValueError as error:
        raise InvalidError(f"the command {command!r} cannot be used: {error}") from error
    axis = read_table(path, template.delimiter)
    return [_drafted(Bag(path.stem, str(path), words[0], words[1:], (axis,)), template, {})]


def read_commands(path: Path, template: LineTemplate) -> list[BagDraft]:
    """Read a list of commands as a bag with a task for each line, which a shell runs.

    Empty lines and lines that begin with # are ignored. A program that a line names by a relative
    path becomes an input if it is a file in or below the folder of the document.

    Raises InvalidError for a document that is not text or has no commands, and for an invalid
    template.
    """
    programs: dict[str, int] = {}
    column = column_of(_note_program(path, number, text, programs) for number, text in _lines(path))
    if not len(column):
        raise InvalidError(
            "there are no commands", source=str(path), line=1, hint="Write one on each line."
        )
    lines = {escaped(name): number for name, number in programs.items()}
    inputs = tuple(BagFile(template, executable=True) for template in lines)
    axis = Axis((COMMAND,), (column,))
    arguments = ("-c", f"{{{COMMAND}}}")
    bag = Bag(path.stem, str(path), SHELL, arguments, (axis,), inputs, application=path.stem)
    return [_drafted(bag, template, lines)]


def _drafted(bag: Bag, template: LineTemplate, lines: dict[str, int]) -> BagDraft:
    """Add the files and the estimate of the template. ``lines`` has the lines of templates that are
    not on the first line."""
    outputs = list(template.outputs)
    if template.stdout is not None and template.stdout not in outputs:
        outputs.append(template.stdout)
    bag = msgspec.structs.replace(
        bag,
        inputs=(*bag.inputs, *map(BagFile, template.inputs)),
        outputs=tuple(map(BagFile, outputs)),
        stdout=template.stdout,
        estimate=template.estimate,
    )

    def refuse(message: str, what: str, hint: str | None = None) -> InvalidError:
        option = template.option_of(what)
        return InvalidError(
            f"{option}: {message}" if option else message,
            source=bag.source,
            line=lines.get(what, 1),
            hint=hint,
        )

    return BagDraft(bag, refuse, {"": 1})


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    return ((number, text) for number, text in lines_of(path) if not text.startswith("#"))


def _note_program(path: Path, number: int, text: str, programs: dict[str, int]) -> str:
    """Return the line. If its program is a file in or below the folder of the document, add the
    program and the line's number to ``programs``."""
    word = text.split(None, 1)[0]
    if "/" in word and not word.startswith(("/", "~", "$", "'", '"')):
        name = word.removeprefix("./")
        if name not in programs and (path.parent / name).is_file():
            if len(programs) >= MAX_PROGRAMS:
                raise InvalidError(
                    f"the commands name more than {MAX_PROGRAMS} programs beside the document",
                    source=str(path),
                    line=number,
                    hint="Install them at the sites, or write a YAML document with a parameter "
                    "for the program; see docs/bags.md.",
                )
            programs[name] = number
    return text
