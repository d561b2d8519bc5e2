"""The console escapes text wherever it comes from, and keeps its own styles."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from wfrun.runners.display.console import (
    EscapingConsole,
    Hanging,
    make_console,
    name_cell,
    stderr_above,
)

HOSTILE = "a\x1b[35m\x1b]8;;http://x\x1b\\b\x1b[2J\u202e[bold]c[/bold]:smile:"
SHOWN = "a\\x1b[35m\\x1b]8;;http://x\\x1b\\b\\x1b[2J\\u202e[bold]c[/bold]:smile:"


class Raw:
    """A renderable that makes segments without a text."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(HOSTILE)
        yield Segment.line()


def on_terminal(width: int = 200) -> EscapingConsole:
    return EscapingConsole(
        file=io.StringIO(), force_terminal=True, color_system="standard", width=width,
        highlight=False, markup=False, emoji=False,
    )  # fmt: skip


def drawn(console: EscapingConsole) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_way_of_printing() -> None:
    console = on_terminal()
    table = Table(box=None)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    table.caption = HOSTILE
    console.print(HOSTILE, Text(HOSTILE), Raw(), table, Group(HOSTILE, Hanging(Text(HOSTILE))))
    text = drawn(console)
    assert text.count(SHOWN) == 8
    assert "\x1b]" not in text
    assert "\x1b[35m" not in text
    assert "\u202e" not in text


def test_styles_keep_their_place() -> None:
    console = on_terminal()
    console.print(Text.assemble(("\x1b\x1b", "red"), ("ok", "bold")))
    assert drawn(console) == "\x1b[31m\\x1b\\x1b\x1b[0m\x1b[1mok\x1b[0m\n"


def test_columns_fit_what_is_shown() -> None:
    """An escape is wider than the character it stands for."""
    console = on_terminal(40)
    table = Table(box=None, pad_edge=False, header_style="none")
    table.add_column("id")
    table.add_column("state", no_wrap=True)
    table.add_row(name_cell("\x1b" * 100), "failed")
    console.print(table)
    assert all(len(line) <= 40 for line in drawn(console).splitlines())
    assert "failed" in drawn(console)


def test_no_wrapped_line_begins_at_the_margin() -> None:
    console = on_terminal(20)
    console.print(Hanging(Text("task a is paused: x\ndone: 9/9 " + "done: 9/9 " * 9)))
    first, *rest = drawn(console).splitlines()
    assert first.rstrip() == "task a is paused:"
    assert len(rest) > 5
    assert all(line.startswith("  ") for line in rest)


def test_a_huge_message_is_cut() -> None:
    """A live display wraps it several times a second, in the loop that drives the run."""
    console = on_terminal(80)
    console.print(Hanging(Text("reason: \n" + "x\n y" * 1_000_000)))
    assert len(drawn(console)) < 200_000
    assert drawn(console).rstrip().endswith("…")


def test_messages_above_a_live_display(monkeypatch: pytest.MonkeyPatch) -> None:
    console = on_terminal()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    live = Live("tasks", console=console, auto_refresh=False, redirect_stderr=False)
    with live, stderr_above(console):
        print(HOSTILE, file=sys.stderr)
        print("no line end", end="", file=sys.stderr)
    assert SHOWN in drawn(console)
    assert "no line end\n" in drawn(console)
    assert "\x1b]" not in drawn(console)


def test_a_hanging_text_in_a_part_that_fits_is_one_line_without_padding() -> None:
    console = on_terminal(60)
    console.print(
        Padding(Hanging(Text("alpha: needs 1 core, 0 of 4 free")), (0, 0, 0, 2), expand=False)
    )
    assert drawn(console).rstrip() == "  alpha: needs 1 core, 0 of 4 free"
    assert len(drawn(console)) < 40
    console = on_terminal(20)
    console.print(
        Padding(Hanging(Text("alpha: needs 1 core, 0 of 4 free")), (0, 0, 0, 2), expand=False)
    )
    assert [line.rstrip() for line in drawn(console).splitlines()] == [
        "  alpha: needs 1", "    core, 0 of 4", "    free"
    ]  # fmt: skip


def test_lines_are_not_wrapped_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and paths in them are copied, and programs read them."""
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    console = make_console()
    path = "/a/long/path" * 50
    table = Table(box=None)
    table.add_column("fits")
    table.add_row("cell")
    console.print(f"run {path}", Group(Hanging(Text(f"first {path}\nto do: see {path}")), table))
    assert stream.getvalue().splitlines() == [
        f"run {path}", f"first {path}", f"  to do: see {path}", " fits ", " cell ",
    ]  # fmt: skip
