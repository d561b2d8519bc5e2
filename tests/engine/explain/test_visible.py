"""Foreign text as a terminal may show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import MAX_LINES, message_block, name_line, visible

any_text = st.text(st.characters(codec=None, exclude_categories=()))
"""Surrogates too."""


@given(any_text)
def test_nothing_that_a_terminal_interprets_is_left(text: str) -> None:
    shown = visible(text)
    assert all(c.isprintable() or c in "\n\t\u00a0\u202f\u3000" for c in shown)
    assert visible(shown) == shown
    shown.encode()  # no surrogates
    assert all(c.isprintable() or c in "\u00a0\u202f\u3000" for c in name_line(text))


@given(any_text.filter(str.isprintable))
def test_other_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;eA==\x07", "\\x1b]52;c;eA==\\x07"),
        ("a\rb\x9b1mc\x7f", "a\\rb\\x9b1mc\\x7f"),
        ("gpj\u202eexe.\u2066\u200b\ufeff", "gpj\\u202eexe.\\u2066\\u200b\\ufeff"),
        ("\udcff \ud800 \U000e0041", "\\udcff \\ud800 \\U000e0041"),
        ("né 日本 עברית\tx\ny", "né 日本 עברית\tx\ny"),
    ],
)
def test_examples(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_names_are_one_short_line() -> None:
    assert name_line("a\nb\tc") == "a\\nb\\tc"
    assert name_line("x" * 200) == "x" * 200
    assert name_line("x" * 1_000_000) == "x" * 200 + "…"
    assert len(name_line("\x1b" * 1_000_000)) < 1000


def test_lines_of_an_error_cannot_pass_for_other_messages() -> None:
    error = InvalidError("task a\nwfrun: all is well\x1b[2J", source="d", hint="Mend it.")
    assert str(error) == "d: task a\n  wfrun: all is well\\x1b[2J\n  Mend it."


def test_a_huge_message_is_cut() -> None:
    shown = message_block("line\n" * 1_000_000)
    assert shown.count("\n") == MAX_LINES
    assert "more lines" in shown
    assert len(message_block("x" * 10_000_000)) < 20_000
