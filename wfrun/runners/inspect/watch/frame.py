"""The lines around a view of ``wfrun watch``: the names of the views, and keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from wfrun.runners.inspect.watch.listing import Listing, Query

_KEYS = (
    ("q", "leave"), ("1-8 ←→", "view"), ("?", "keys"), ("↑↓", "scroll"), ("/", "find"),
    ("s", "sort"), ("r", "reverse"),
)  # fmt: skip
_OVERVIEW_KEYS = 3
"""Number of keys shown in the overview: the first ones of `_KEYS`."""
_ALL_KEYS = (
    ("1 to 8, ← →", "the views; Tab is the next one"),
    ("↑ ↓, Page, Home, End", "mark another row, or scroll"),
    ("s, S", "sort by the next column, or by the previous one"),
    ("r", "reverse the order"),
    ("/", "show only rows with a text; Esc shows all again"),
    ("p", "pause the marked site, or free it"),
    ("+", "raise the priority of the marked task or workflow"),
    ("x", "cancel the marked task"),
    ("y, n", "confirm what p, + or x ask for, or drop it"),
    ("?", "show these keys, or leave them; so does Esc"),
    ("q, Ctrl-C", "leave; the run goes on"),
)
"""All keys and what they do."""


def tabs(names: Sequence[str], chosen: int, width: int) -> Text:
    """The views with their keys; the chosen one is reversed. Names are cut if all of them do not
    fit."""
    room = width
    if sum(len(name) + 2 for name in names) > width:
        room = max(1, width // len(names) - 2)
    line = Text(no_wrap=True, end="")
    for number, name in enumerate(names):
        style = "bold reverse" if number == chosen else ""
        line.append(str(number + 1), style=style or "cyan")
        line.append(name[:room], style=style).append(" ")
    return line


def help_lines(width: int) -> list[Text]:
    """All keys, a line each. If the lines are too narrow, the explanation of a key is on the next
    line."""
    longest = max(len(key) for key, _ in _ALL_KEYS)
    lines = []
    for key, word in _ALL_KEYS:
        line = Text(key, style="cyan", no_wrap=True, end="")
        if longest + 2 + len(word) > width:
            lines.append(line)
            line = Text("  ", no_wrap=True, end="")
        else:
            line.append(" " * (longest + 2 - len(key)))
        line.append(word, style="default")
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return lines


def keys(width: int, *, is_overview: bool, note: Text, own: Sequence[tuple[str, str]] = ()) -> Text:
    """The line of keys: as many keys as fit on the left, first the keys ``own`` of the marked row,
    and ``note`` on the right."""
    line = Text(no_wrap=True, end="")
    for key, word in _KEYS[:_OVERVIEW_KEYS] if is_overview else (*own, *_KEYS):
        if line.cell_len + len(key) + len(word) + 3 + note.cell_len > width:
            break
        line.append(f"{key} ", style="cyan").append(f"{word}  ", style="dim")
    line.append(" " * max(0, width - line.cell_len - note.cell_len))
    return line.append_text(note)


def extent(listing: Listing, query: Query, first: int, height: int) -> Text:
    """A note with the searched text, the numbers of the visible rows, and the number of all
    rows."""
    note = Text()
    if query.text:
        note.append(f"find {query.text!r}  ", style="yellow")
    shown, total = len(listing.rows), listing.total
    if shown > height:
        note.append(f"{first + 1}-{min(shown, first + height)} of ")
    note.append(str(total))
    if total > shown and query.text == "":
        note.append(f", the first {shown}", style="dim")
    return note
