"""The layout of a live display: sections that share the lines of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

Lines = list[list[Segment]]


class DisplaySection(NamedTuple):
    """A part of the display that can be cut at its end."""

    body: RenderableType
    minimum: int
    """Minimum number of lines shown of the section, unless the section is shorter or the terminal
    has no room."""
    noun: str = "lines"
    """Noun for the lines of the section, used in the line that says how many are cut. Empty: there
    is no such line."""
    beyond: int = 0
    """Number of lines that ``body`` leaves out because no terminal has room for them."""
    rank: int = 1
    """Sections of a lower rank get their minimum first."""


class SharedLines:
    """Draws sections in their order, in at most as many lines as the terminal has. Each section
    gets its minimum. The other lines are distributed among the sections one by one, in turn. The
    last line of a section that is cut says how many lines are left out."""

    def __init__(self, sections: Sequence[DisplaySection]) -> None:
        self._sections = sections

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = console.size.height - 1  # the line of the cursor
        options = options.update(height=None)
        drawn = [console.render_lines(s.body, options, pad=False) for s in self._sections]
        sections = self._sections
        order = sorted(range(len(sections)), key=lambda index: sections[index].rank)
        minima = [sections[index].minimum for index in order]
        shares = share(height, minima, [len(drawn[index]) for index in order])
        counts = dict(zip(order, shares, strict=True))
        for index, (section, lines) in enumerate(zip(sections, drawn, strict=True)):
            count = counts[index]
            for line in _cut(console, options, section, lines, count):
                yield from line
                yield Segment.line()


def share(lines: int, minima: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Distribute ``lines`` among sections that have ``wanted`` lines: first the minima, in order,
    then the rest one by one, in turn. Returns the number of lines of each section."""
    shares = [0] * len(wanted)
    for index, (minimum, most) in enumerate(zip(minima, wanted, strict=True)):
        shares[index] = min(minimum, most, lines)
        lines -= shares[index]
    while lines:
        open_ = [index for index, most in enumerate(wanted) if shares[index] < most]
        if not open_:
            break
        for index in open_[:lines]:
            shares[index] += 1
        lines -= min(lines, len(open_))
    return shares


def _cut(
    console: Console, options: ConsoleOptions, section: DisplaySection, lines: Lines, count: int
) -> Iterator[list[Segment]]:
    if count >= len(lines):
        yield from lines
        return
    if count == 1 or not section.noun:
        yield from lines[:count]
    elif count:
        yield from lines[: count - 1]
        cut = len(lines) - count + 1 + section.beyond
        rest = Text(f"and {cut} more {section.noun}", style="dim")
        yield from console.render_lines(rest, options, pad=False)[:1]
