"""Lines about sites, as they come, in columns that fit the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Literal

import click
import msgspec

_STATES = {"ok": ("ok", "green"), "note": ("note", "yellow"), "failed": ("FAILED", "red")}
_STATE_WIDTH = 6
_CHECK_WIDTH = len("batch system")
_LEAST_WIDTH = 40


class Finding(msgspec.Struct, frozen=True):
    """What came of one check of a site."""

    site: str
    check: str
    state: Literal["ok", "note", "failed"]
    """``note``: the site can be used, but this should be known."""
    text: str
    hint: str = ""
    """What to do; for every failure."""


class Printer:
    """Prints findings about these sites. Not to a terminal: without wrapping."""

    def __init__(self, names: Sequence[str]) -> None:
        self._width = max(map(len, names), default=0)
        self._columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0

    def finding(self, finding: Finding) -> None:
        word, colour = _STATES[finding.state]
        shown = click.style(f"{word:{_STATE_WIDTH}}", fg=colour)
        head = f"{finding.site:{self._width}}  {{}}  {finding.check:{_CHECK_WIDTH}}  "
        indent = self._width + _STATE_WIDTH + _CHECK_WIDTH + 6
        first, *rest = self._wrapped(finding.text, indent)
        click.echo(head.format(shown) + first)
        for line in [*rest, *(self._wrapped(finding.hint, indent) if finding.hint else [])]:
            click.echo(" " * indent + line)

    def _wrapped(self, text: str, indent: int) -> list[str]:
        """At the terminal's width; lines that are indented stay whole: commands to be copied."""
        width = max(_LEAST_WIDTH, self._columns - indent - 1)
        lines = []
        for line in text.splitlines() or [""]:
            if not self._columns or line.startswith(" "):
                lines.append(line)
            else:
                lines += textwrap.wrap(line, width, break_long_words=False) or [""]
        return lines

    def end(self, count: int, failed: Sequence[str]) -> None:
        """The last line: how many can be used."""
        if failed:
            click.echo(f"{count - len(failed)} of {count} sites can be used; "
                       f"not: {', '.join(failed)}")  # fmt: skip
        else:
            click.echo("the site can be used" if count == 1 else f"all {count} sites can be used")
