"""Bags without a document of their own: a table and a command for its rows, a list of commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

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

_RAW_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\])+""", re.DOTALL)
_OF_SHELLS = re.compile(r"(\d*|&)[<>].*|\|[|&]?|&&?|(.*[^\\])?;", re.DOTALL)
"""Words, with their quotes, that mean something to a shell and nothing to a program."""
_KEYS = {
    ">": "name a file for what it prints with 'stdout', ",
    "<": "name a file for it to read with 'stdin', ",
}
_OPTIONS = {">": "name a file for what it prints with --stdout, "}


class LineTemplate(msgspec.Struct, frozen=True):
    """What is said beside a table or a list of commands: templates for the task of each line.

    ``delimiter``: see `read_table`. ``estimate`` is a time, or a parameter that holds it.
    """

    command: str | None = None
    """For the rows of tables; None: documents are lists of commands, or say all themselves."""
    delimiter: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    stdout: str | None = None
    estimate: str | None = None

    def option_of(self, template: str) -> str:
        """The option that a template was given by; empty for others."""
        given = {
            "--input": self.inputs,
            "--output": self.outputs,
            "--stdout": (self.stdout,),
            "--estimate": (self.estimate,),
        }
        return next((option for option, texts in given.items() if template in texts), "")


def words_of(command: str, streams: Mapping[str, str] = _KEYS) -> tuple[str, ...]:
    """A command's words, as a shell would split them. Raises ValueError for none, for a quote that
    is not closed, and for what only a shell would understand, such as ``>``; ``streams`` say what
    to do instead."""
    words = tuple(shlex.split(command))
    if not words:
        raise ValueError("it is empty")
    for word in _RAW_WORD.findall(command):
        if _OF_SHELLS.fullmatch(word):
            instead = next((text for sign, text in streams.items() if sign in word), "")
            raise ValueError(
                f"{word!r} is for a shell, and none runs the command; {instead}write sh -c '…', "
                "or quote it if the program is to get it"
            )
    return words


def read_table_bag(path: Path, command: str, template: LineTemplate) -> Workflow:
    """A task for each row of a table, which the command names by its columns.

    Raises InvalidError for whatever is wrong with the table or a template.
    """
    try:
        words = words_of(command, _OPTIONS)
    except ValueError as error:
        raise InvalidError(f"the command {command!r} can't be used: {error}") from error
    axis = read_table(path, template.delimiter)
    return _checked(Bag(path.stem, str(path), words[0], words[1:], (axis,)), template, {})


def read_commands(path: Path, template: LineTemplate) -> Workflow:
    """A task for each line, which a shell runs. Empty lines and those that begin with # are passed
    over. Programs that lines name by relative paths beside the document come along.

    Raises InvalidError for what is no text, or has no commands, and for a template that is wrong.
    """
    programs: dict[str, int] = {}
    column = column_of(_note_program(path, number, text, programs) for number, text in _lines(path))
    if not len(column):
        raise InvalidError(
            "there are no commands", source=str(path), line=1, hint="Write one on each line."
        )
    inputs = tuple(BagFile(escaped(name), executable=True) for name in programs)
    axis = Axis((COMMAND,), (column,))
    arguments = ("-c", f"{{{COMMAND}}}")
    bag = Bag(path.stem, str(path), SHELL, arguments, (axis,), inputs, application=path.stem)
    return _checked(bag, template, programs)


def _checked(bag: Bag, template: LineTemplate, lines: dict[str, int]) -> Workflow:
    """The bag with what the template adds to it. ``lines``: of the document, where others than
    the first are to blame for a template."""
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
