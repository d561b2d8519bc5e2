"""The page of all commands, from their definitions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tools.docs_site.reference.markdown import cell, code, escaped, table
from wfrun.runners.cli.main import cli
from wfrun.runners.cli.sections import section_of

HEAD = """\
# Commands

Generated from the code of wfrun. `wfrun COMMAND --help` prints the same at the terminal.
`wfrun DOCUMENT…` is short for `wfrun run DOCUMENT…`. RUN is the path of a run
directory, its name in `wfrun-runs`, or `last`.
"""


def commands_page() -> str:
    """The page: a heading for each command, its usage, its help text, its options."""
    return HEAD + "".join(_text(command, name) for name, command in all_commands())


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """All commands in alphabetical order, each with the words that call it."""
    yield from _below(cli, "wfrun")


def _below(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        yield f"{name} {word}", command
        if isinstance(command, click.Group):
            yield from _below(command, f"{name} {word}")


def _text(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"\n## {name}\n", f"```text\n{usage}\n```\n", _help(command)]
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in command.params:
        record = param.get_help_record(context)
        if isinstance(param, click.Option) and record is not None:
            sections.setdefault(section_of(param), []).append(_row(param, context))
    for heading, rows in sections.items():
        parts.append(table([heading if len(sections) > 1 else "option", "meaning"], rows))
    return "\n".join(parts)


def _help(command: click.Command) -> str:
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    return "\n\n".join(escaped(part) for part in text.split("\n\n")) + "\n"


def _row(option: click.Option, context: click.Context) -> tuple[str, str]:
    record = option.get_help_record(context)
    assert record is not None
    return code(record[0]), cell(record[1])
