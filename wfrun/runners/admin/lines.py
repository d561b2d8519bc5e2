"""Findings about sites, and their output in columns that fit the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Literal

import click
import msgspec
from rich.text import Text

from wfrun.runners.display.console import make_console

_STATES = {"ok": ("ok", "green"), "note": ("note", "yellow"), "failed": ("FAILED", "red")}
_STATE_WIDTH = 6
_CHECK_WIDTH = len("batch system")
_MIN_WIDTH = 40
"""Minimum width of a wrapped line in characters, even on a narrower terminal."""


class Finding(msgspec.Struct, frozen=True):
    """The result of one check of a site."""

    site: str
    check: str
    state: Literal["ok", "note", "failed"]
    """``note``: the site can be used, but the user should know this."""
    text: str
    hint: str = ""
    """What to do; never empty for a failure."""


class SiteFindings:
    """Makes the findings of one site, and passes each to a callback."""

    def __init__(self, site: str, on_finding: Callable[[Finding], None]) -> None:
        self._site = site
        self._on_finding = on_finding

    def ok(self, check: str, text: str) -> None:
        """Report that the check succeeded."""
        self._on_finding(Finding(self._site, check, "ok", text))

    def note(self, check: str, text: str, hint: str = "") -> None:
        """Report something that the user should know although the site can be used."""
        self._on_finding(Finding(self._site, check, "note", text, hint))

    def fail(self, check: str, text: str, hint: str | None) -> None:
        """Report that the site cannot be used."""
        hint = hint or "Try again later; if it fails again, ask the cluster's administrators."
        self._on_finding(Finding(self._site, check, "failed", text, hint))


class CheckFailedError(Exception):
    """Raised after the finding of a failed check is reported. The later checks of the site are
    skipped."""


class Printer:
    """Prints findings about the sites ``names``. Wraps lines on a terminal only."""

    def __init__(self, names: Sequence[str]) -> None:
        self._width = max(map(len, names), default=0)
        self._console = make_console()
        self._columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0

    def finding(self, finding: Finding) -> None:
        """Print one finding and its hint."""
        word, colour = _STATES[finding.state]
        head = Text(f"{finding.site:{self._width}}  ")
        head.append(f"{word:{_STATE_WIDTH}}", style=colour)
        head.append(f"  {finding.check:{_CHECK_WIDTH}}  ")
        indent = self._width + _STATE_WIDTH + _CHECK_WIDTH + 6
        first, *rest = self._wrapped(finding.text, indent)
        head.append(first)
        self._console.print(head, soft_wrap=True)
        for line in [*rest, *(self._wrapped(finding.hint, indent) if finding.hint else [])]:
            self._console.print(" " * indent + line, soft_wrap=True)

    def _wrapped(self, text: str, indent: int) -> list[str]:
        """Wrap a text to the width of the terminal. Indented lines are commands to copy, and stay
        whole."""
        width = max(_MIN_WIDTH, self._columns - indent - 1)
        lines = []
        for line in text.splitlines() or [""]:
            if not self._columns or line.startswith(" "):
                lines.append(line)
            else:
                lines += textwrap.wrap(line, width, break_long_words=False) or [""]
        return lines

    def end(self, count: int, failed: Sequence[str]) -> None:
        """Print the last line: how many of ``count`` sites can be used."""
        if failed:
            click.echo(f"{count - len(failed)} of {count} sites can be used; "
                       f"not: {', '.join(failed)}")  # fmt: skip
        else:
            click.echo("the site can be used" if count == 1 else f"all {count} sites can be used")
