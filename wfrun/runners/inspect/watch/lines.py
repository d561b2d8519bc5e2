"""The widget of ``wfrun watch``: scrolling lines of text. Only lines that change are drawn
again."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from wfrun.runners.display.console import EscapingConsole


class TextLines(ScrollView):
    """Lines of text, drawn by a console that escapes control characters."""

    DEFAULT_CSS = """
    Lines {
        height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
        scrollbar-color: ansi_bright_black; scrollbar-background: ansi_default;
    }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._canvas = EscapingConsole(file=io.StringIO(), markup=False, highlight=False)
        self._lines: Sequence[Text] = ()
        self._marked: int | None = None
        self._drawn: dict[int, Strip] = {}
        """Lines as drawn, by number. Lines that were never visible are not drawn."""

    def show(
        self, lines: Sequence[Text], *, at_end: bool = False, marked: int | None = None
    ) -> None:
        """Show these lines, one of them marked. The scroll position stays. With ``at_end``, it
        follows the last line if that line was visible."""
        follows = at_end and self.scroll_offset.y >= self.max_scroll_y
        before, self._drawn = self._drawn, {}
        self._lines, self._marked = lines, marked
        size = Size(self.size.width, len(lines))
        if size != self.virtual_size:
            self.virtual_size = size
            before = {}
        if follows:
            self.scroll_end(animate=False)
        width, top = self.size.width, self.scroll_offset.y
        numbers = range(top, top + self.size.height)
        changed = [n for n in numbers if before.get(n) != self._strip(n)]
        if not before:
            self.refresh()
        elif changed:
            self.refresh(*(Region(0, n - top, width, 1) for n in changed))

    def draw(self, body: RenderableType) -> None:
        """Show a renderable that fits itself to the size of the widget."""
        width, height = max(1, self.size.width), max(2, self.size.height)
        self._canvas.size = width, height + 1
        options = self._canvas.options.update(width=width, height=None)
        drawn = self._canvas.render_lines(body, options, pad=False)[: self.size.height]
        self.show([Text.assemble(*((s.text, s.style or "") for s in line)) for line in drawn])

    def render_line(self, y: int) -> Strip:
        return self._strip(y + self.scroll_offset.y)

    def _strip(self, number: int) -> Strip:
        strip = self._drawn.get(number)
        if strip is None or strip.cell_length != self.size.width:
            strip = self._drawn[number] = self._draw_line(number)
        return strip

    def _draw_line(self, number: int) -> Strip:
        width = self.size.width
        if number >= len(self._lines) or width < 1:
            return Strip.blank(width)
        options = self._canvas.options.update(width=width, height=1, no_wrap=True)
        line = self._lines[number]
        if number == self._marked:
            line = line.copy()
            line.pad_right(max(0, width - line.cell_len))
            line.stylize("reverse")
        (segments, *_) = self._canvas.render_lines(line, options)
        return Strip(segments).adjust_cell_length(width)
