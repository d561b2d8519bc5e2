"""``wfrun watch`` on a terminal: its heading, the views, and the marked row of a view. The display
reads the log of the run, and sends the engine only requests that the user confirms. The run goes on
when the display ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar, overload

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.counts import retries_text, task_counts
from wfrun.runners.display.durations import duration, task_rate
from wfrun.runners.display.eta import eta_text
from wfrun.runners.inspect.live.live import WIDE
from wfrun.runners.inspect.tables.report import outcome_text
from wfrun.runners.inspect.watch.asking import KEYS, Asking, RowSubject, request_of
from wfrun.runners.inspect.watch.bars import FAILED, USED, BarPart, bar
from wfrun.runners.inspect.watch.frame import extent, help_lines, keys, tabs
from wfrun.runners.inspect.watch.lines import TextLines
from wfrun.runners.inspect.watch.listing import (
    Layout,
    Listing,
    ListingRow,
    Query,
    arranged,
    fitted,
    wrapped,
)
from wfrun.runners.inspect.watch.observation import RunObservation, RunObserver
from wfrun.runners.inspect.watch.overview import overview
from wfrun.runners.inspect.watch.views import LISTINGS, NAMES
from wfrun.runners.run.directory.simulated import SIMULATED_ID

REFRESH_S = 1.0
"""Interval between two looks at the log, in seconds."""
SENDING_S = 0.2
"""Interval between checks whether the engine has taken a request, in seconds."""
MAX_SHARE = 0.08
"""Maximum share of a core that looks take. Looks are less frequent in runs where they cost more."""


class _Rows(Sequence[Text]):
    """The rows of a listing as lines, made when they are drawn."""

    def __init__(self, listing: Listing, layout: Layout) -> None:
        self._listing = listing
        self._layout = layout

    def __len__(self) -> int:
        return len(self._listing.rows)

    @overload
    def __getitem__(self, number: int) -> Text: ...

    @overload
    def __getitem__(self, number: slice) -> list[Text]: ...

    def __getitem__(self, number: int | slice) -> Text | list[Text]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        return self._layout.line(self._listing, self._listing.rows[number].cells)


class WatchApp(App[Exception]):
    """The display, as an application of Textual. Its result is the error that ended it, or None."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen, Lines, #find { background: ansi_default; color: ansi_default; }
    #heading { height: 2; }
    #tabs, #titles, #keys, #find { height: 1; }
    #find { border: none; padding: 0; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
        Binding("ctrl+z", "suspend_process", priority=True),
        *(Binding(str(number), f"view({number - 1})") for number in range(1, len(NAMES) + 1)),
        Binding("tab,right,l", "turn(1)"),
        Binding("shift+tab,left,h", "turn(-1)"),
        Binding("slash", "find"),
        Binding("question_mark", "keys"),
        Binding("p", "request('p')"),
        Binding("plus", "request('+')"),
        Binding("x", "request('x')"),
        Binding("y", "answer(True)"),
        Binding("n", "answer(False)"),
        Binding("escape", "find_nothing", priority=True),
        Binding("s", "sort(1)"),
        Binding("S", "sort(-1)"),
        Binding("r", "reverse"),
        Binding("down,j", "move(1)"),
        Binding("up,k", "move(-1)"),
        Binding("pagedown,space", "page(1)"),
        Binding("pageup", "page(-1)"),
        Binding("home,g", "move(-1000000)"),
        Binding("end,G", "move(1000000)"),
    ]

    def __init__(self, observer: RunObserver) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self.title = "wfrun watch"
        self._observer = observer
        self._observed = observer.look()
        self._view = 0
        self._queries = [Query() for _ in NAMES]
        self._cursors = [Cursor() for _ in NAMES]
        self._rows: Sequence[ListingRow] = ()
        """The rows of the view that is shown."""
        self._asking = Asking(observer.run)
        self._shows_keys = False

    def compose(self) -> ComposeResult:
        for name in ("heading", "tabs", "titles", "body", "keys"):
            yield TextLines(name)
        yield Input(id="find", placeholder="show rows with this text; Enter keeps, Esc shows all")

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.exit)
        self.set_timer(REFRESH_S, self._tick)

    def on_resize(self) -> None:
        self.call_after_refresh(self._redraw)

    def refresh_look(self) -> None:
        """Read the log and draw what is new."""
        with self._ending():
            self._observed = self._observer.look()
        self._redraw()

    def _tick(self) -> None:
        begun_s = time.process_time()
        self.refresh_look()
        cost_s = time.process_time() - begun_s
        self.set_timer(max(REFRESH_S, cost_s / MAX_SHARE), self._tick)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Context manager: an error in the block ends the display, whose caller reports the
        error."""
        try:
            yield
        except Exception as error:
            self.exit(error)

    def _lines(self, name: str) -> TextLines:
        return self.query_one(f"#{name}", TextLines)

    def _redraw(self) -> None:
        with self._ending():
            width = self.size.width
            self._lines("heading").show(heading(self._observed, width))
            self._lines("tabs").show([tabs(NAMES, self._view, width)])
            if self._shows_keys:
                self._draw_keys(width)
            elif self._view:
                self._draw_listing(width)
            else:
                self._draw_overview(width)

    def _draw_keys(self, width: int) -> None:
        self._lines("titles").show(())
        body = self._lines("body")
        body.show(help_lines(body.scrollable_content_region.width))
        self._lines("keys").show([keys(width, is_overview=True, note=Text())])

    def _draw_overview(self, width: int) -> None:
        body = self._lines("body")
        body.draw(overview(self._observed, body.size.width, body.size.height))
        self._lines("titles").show(())
        self._lines("keys").show([keys(width, is_overview=True, note=Text())])

    def _draw_listing(self, width: int) -> None:
        view, query, body = LISTINGS[self._view - 1], self._queries[self._view], self._lines("body")
        listing = arranged(view.listing(self._observed), query)
        if view.wraps:
            listing = wrapped(listing, body.scrollable_content_region.width)
        self._rows, cursor = listing.rows, self._cursors[self._view]
        marked = cursor.find(self._rows)
        layout = fitted(listing, query, body.scrollable_content_region.width)
        self._lines("titles").show([layout.head(listing, query)] if listing.rows else ())
        if listing.rows:
            body.show(_Rows(listing, layout), at_end=view.shows_end, marked=marked)
        else:
            empty = f"nothing here has the text {query.text!r}" if query.text else listing.empty
            body.show([Text(empty, style="dim")])
        note = extent(listing, query, body.scroll_offset.y, body.size.height)
        own = KEYS[cursor.subject.kind] if cursor.subject is not None else ()
        line = self._asking.line or keys(width, is_overview=False, note=note, own=own)
        self._lines("keys").show([line])

    def action_view(self, number: int) -> None:
        """Show another view, from its first row, or from its last row if the view follows its
        end."""
        self._view, self._rows, self._shows_keys = number, (), False
        self._asking.clear()
        body = self._lines("body")
        body.show(())
        body.scroll_home(animate=False)
        self._redraw()
        if number and LISTINGS[number - 1].shows_end:
            self.action_move(1_000_000)

    def action_keys(self) -> None:
        """Show all keys in place of the view, or the view again."""
        self._shows_keys = not self._shows_keys
        self._lines("body").scroll_home(animate=False)
        self._redraw()

    def action_turn(self, step: int) -> None:
        """Show the next or the previous view."""
        self.action_view((self._view + step) % len(NAMES))

    def action_move(self, rows: int) -> None:
        """Scroll by some rows; in a view with a marked row, move the mark."""
        body, cursor = self._lines("body"), self._cursors[self._view]
        self._asking.clear()
        if cursor.subject is None:
            top = body.scroll_offset.y + rows
        else:
            row, height = cursor.move(self._rows, rows), max(1, body.size.height)
            top = min(row, max(row - height + 1, body.scroll_offset.y))
        body.scroll_to(y=top, animate=False, immediate=True)
        self._redraw()

    def action_page(self, pages: int) -> None:
        """Scroll by the height of the view."""
        self.action_move(pages * max(1, self._lines("body").size.height - 1))

    def action_sort(self, step: int) -> None:
        """Sort by the next or the previous column. The view's own order comes after the last
        column."""
        if not self._view:
            return
        query = self._queries[self._view]
        columns = len(LISTINGS[self._view - 1].listing(self._observed).columns)
        number = -1 if query.column is None else query.column
        number = (number + 1 + step) % (columns + 1) - 1
        self._arrange(query._replace(column=None if number < 0 else number))

    def action_reverse(self) -> None:
        """Show the rows in the opposite order."""
        query = self._queries[self._view]
        self._arrange(query._replace(is_reversed=not query.is_reversed))

    def _arrange(self, query: Query) -> None:
        self._queries[self._view] = query
        self._redraw()

    def action_request(self, key: str) -> None:
        """Ask the user to confirm a request about the marked row."""
        subject = self._cursors[self._view].subject
        request = request_of(key, subject, self._observed.state) if subject else None
        if request is not None:
            self._asking.ask(request, self._observed.state)
            self._redraw()

    def action_answer(self, agrees: bool) -> None:
        """Send the request that waits for an answer, or drop it."""
        if self._asking.awaits_answer:
            self._asking.answer(agrees=agrees)
            if self._asking.is_sending:
                self.set_timer(SENDING_S, self._look_at_request)
            self._redraw()

    def _look_at_request(self) -> None:
        self._asking.look()
        if self._asking.is_sending:
            self.set_timer(SENDING_S, self._look_at_request)
        else:
            self.refresh_look()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action is enabled. While a request waits for an answer, only answering and
        leaving are. While the list of keys is shown, rows cannot be searched or sorted, and no
        request can be made."""
        if self._asking.awaits_answer:
            return action in ("answer", "find_nothing", "quit")
        return not self._shows_keys or action not in ("find", "request", "sort", "reverse")

    def action_find(self) -> None:
        """Ask for a text that rows have to contain."""
        if self._view:
            entry = self.query_one("#find", Input)
            entry.value = self._queries[self._view].text
            self._show_entry(True)

    def action_find_nothing(self) -> None:
        """Show all rows again, drop a request that waits for an answer, and leave the list of
        keys."""
        self._shows_keys = False
        self.action_answer(False)
        self._show_entry(False)
        self._arrange(self._queries[self._view]._replace(text=""))

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.query_one("#find").display:
            self._arrange(self._queries[self._view]._replace(text=event.value))

    def on_input_submitted(self) -> None:
        self._show_entry(False)

    def _show_entry(self, is_shown: bool) -> None:
        """Show the line for a text in place of the keys, or show the keys again."""
        entry = self.query_one("#find", Input)
        entry.display = is_shown
        self._lines("keys").display = not is_shown
        self.set_focus(entry if is_shown else None)


class Cursor:
    """The marked row of a view."""

    def __init__(self) -> None:
        self._row = 0
        self._is_moved = False
        """Whether the user has chosen a row. Until then the first row is marked."""
        self.subject: RowSubject | None = None
        """What the marked row is about; None: the view has no marked row."""

    def find(self, rows: Sequence[ListingRow]) -> int | None:
        """Find the marked row again among these rows. Returns its number; None: no row is
        marked."""
        if not rows or rows[0].subject is None:
            self.subject = None
            return None
        if not self._is_moved:
            self._row = 0
        elif self._row >= len(rows) or rows[self._row].subject != self.subject:
            found = (n for n, row in enumerate(rows) if row.subject == self.subject)
            self._row = next(found, min(self._row, len(rows) - 1))
        self.subject = rows[self._row].subject
        return self._row

    def move(self, rows: Sequence[ListingRow], step: int) -> int:
        """Mark another row. Returns its number."""
        self._is_moved = True
        self._row = max(0, min(len(rows) - 1, self._row + step))
        if rows:
            self.subject = rows[self._row].subject
        return self._row


MIN_NAME = 8
"""Minimum width of the name of a run."""
MIN_BAR = 8
"""Minimum width of the bar."""
_STYLES = {"running": "bold green", "done": "bold green", "failed": "bold red"}


def heading(look: RunObservation, width: int) -> list[Text]:
    """Name and state, progress, rate and times on the first line; the numbers of tasks on the
    second."""
    state = look.state
    settled = state.done + state.failed + state.blocked + state.unneeded
    is_over = state.ended is not None or not look.is_driven
    word = outcome_text(state, driven=not is_over)
    right = Text(f"{settled}/{state.tasks}")
    if not is_over:
        right.append(f"  {task_rate(look.tasks_per_s)}", style="cyan")
    right.append(f"  {duration(max(0.0, look.now_s - state.started_s))}")
    if not is_over and look.left is not None:
        left = eta_text(look.left, has_interval=width >= WIDE)
        right.append(f"  {left}", style="cyan")
    name = Text(name_line(look.title), style="bold")
    status = Text("  ").append(word, style=_STYLES.get(word, "bold yellow"))
    if state.run_id == SIMULATED_ID:
        status.append(" (simulated)", style="dim")
    room = width - right.cell_len - status.cell_len - 2
    name.truncate(max(MIN_NAME, room), overflow="ellipsis")
    first = Text.assemble(name, status)
    columns = width - first.cell_len - right.cell_len - 4
    if columns >= MIN_BAR:
        parts = [BarPart(state.done, *USED), BarPart(state.failed + state.blocked, *FAILED)]
        progress = bar(columns, state.tasks, parts)
        first = Text.assemble(first, "  ", progress, "  ", right)
    else:
        first = Text.assemble(first, " " * max(2, columns + 2), right)
    second = Text(task_counts(state, is_over=is_over) + retries_text(state), style="dim")
    for line in (first, second):
        line.truncate(width, overflow="ellipsis")
    return [first, second]
