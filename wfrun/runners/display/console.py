"""The console for tables, styles and live displays. It escapes all text that it prints."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Span, Text

from wfrun.engine.explain.visible import name_line, visible

PIPE_COLUMNS = 200
"""Width of tables that are not printed on a terminal, in columns."""


_INDENT = "  "
MAX_CHARACTERS = 5000
"""Maximum number of characters of a message in a display."""


class EscapingConsole(Console):
    """A console that escapes the control characters in texts and segments. The terminal interprets
    only styles and cursor movements of Rich, which never come from a text."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render with escapes. Texts are escaped before they are wrapped, so that columns fit.
        Segments are escaped as well, because some renderables make them without a text."""
        if isinstance(renderable, Text):
            renderable = _visible_text(renderable)
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape a string before it is measured or rendered."""
        return super().render_str(visible(text), **options)


def _visible_text(text: Text) -> Text:
    plain = text.plain
    shown = visible(plain)
    if shown == plain:
        return text
    ends = [0, *accumulate(len(visible(character)) for character in plain)]
    copy = text.blank_copy(shown)
    last = len(plain)
    copy.spans = [
        Span(ends[min(s.start, last)], ends[min(s.end, last)], s.style) for s in text.spans
    ]
    return copy


def name_cell(name: str) -> Text:
    """A cell with a name, for a column that is cut if the table is too wide. Columns that must stay
    whole have ``no_wrap``."""
    return Text(name_line(name), no_wrap=True, overflow="ellipsis")


class Hanging:
    """A text whose lines are indented, except the first. A line end or wrap in the text can
    therefore not imitate a line of wfrun itself. The text is cut after `MAX_CHARACTERS`, because
    live displays wrap it several times a second."""

    def __init__(self, text: Text) -> None:
        self._text = text
        if len(text) > MAX_CHARACTERS:
            self._text = Text.assemble(text[:MAX_CHARACTERS], "…")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, options.max_width - len(_INDENT))
        text = _visible_text(self._text)
        lines = text.split() if options.no_wrap else text.wrap(console, width)
        for number, line in enumerate(lines):
            yield Text.assemble(_INDENT, line) if number else line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = max(line.cell_len for line in _visible_text(self._text).split())
        return Measurement(1, max(1, min(options.max_width, longest + len(_INDENT))))


def make_console(*, stderr: bool = False) -> EscapingConsole:
    """Make the console for tables. If the output is a pipe or a file, the console is wider than the
    80 columns that Rich assumes, and texts are not wrapped: programs read these lines, and users
    copy commands and paths from them."""
    stream = sys.stderr if stderr else sys.stdout
    # The command's streams escape styles too; the console writes to the stream below.
    file = getattr(stream, "unescaped", stream)
    console = EscapingConsole(file=file, stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width, console.soft_wrap = PIPE_COLUMNS, True
    return console


@contextlib.contextmanager
def stderr_above(console: Console) -> Iterator[None]:
    """During the block, print text written to ``sys.stderr`` above the live display of ``console``.

    Rich's own redirection would interpret escape sequences in the text.
    """
    above = _Above(console)
    with contextlib.redirect_stderr(above):
        yield
    if above.partial:
        console.print(above.partial)


class _Above(io.TextIOBase):
    """Prints complete lines on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.partial = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, self.partial = (self.partial + text).split("\n")
        for line in lines:
            self._console.print(Text(line))
        return len(text)
