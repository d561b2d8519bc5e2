"""Options with sections in the help text, and with old names that still work but are hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

_C = TypeVar("_C", bound=Callable[..., Any])
_OTHERS = "Other options"
"""Heading of the last section, for options without a section."""


class SectionedCommand(click.Command):
    """A command whose help text lists the options under headings, in the order in which they are
    defined."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a definition list for each section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(section_of(param), []).append(record)
        if _OTHERS in sections:
            sections[_OTHERS] = sections.pop(_OTHERS)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class SectionedOption(click.Option):
    """An option with a section in the help text, and with old names that still work but are
    hidden."""

    def __init__(
        self, *args: Any, section: str = "", old_names: Sequence[str] = (), **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.section = section
        self._old_names = list(old_names)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts
        self.opts = shown + self._old_names
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def option(*names: str, **attributes: Any) -> Callable[[_C], _C]:
    """Add an option, like ``click.option``. ``section`` is its heading in the help text of a
    `SectionedCommand`; ``old_names`` are names that work but are not shown."""
    return click.option(*names, cls=SectionedOption, **attributes)


def section_of(param: click.Parameter) -> str:
    """The heading in the help text under which a parameter is listed."""
    return getattr(param, "section", "") or _OTHERS


def options_of(*adders: Callable[[Any], Any]) -> list[click.Parameter]:
    """The options that these decorators add to a command."""

    def bare() -> None:
        pass

    for add in reversed(adders):
        add(bare)
    found: list[click.Parameter] = bare.__click_params__  # type: ignore[attr-defined]
    return found[::-1]
