"""``wfrun help``: the pages at the terminal."""

from __future__ import annotations

import os
import re

import pytest

from tests.places import ROOT
from tests.runners.harness import User
from tests.runners.terminal import Terminal
from wfrun.runners.display.help_pages import names

PAGES = sorted(page.stem for page in (ROOT / "docs").glob("*.md") if page.stem != "index")


def test_every_page_is_a_topic_and_listed(user: User) -> None:
    assert sorted(names()) == PAGES
    listed = user.ask("help").out
    for page in PAGES:
        assert re.search(rf"^  {page} ", listed, re.MULTILINE), page


def test_a_pipe_gets_the_page_as_it_is_written(user: User) -> None:
    assert user.ask("help", "files").out == (ROOT / "docs/files.md").read_text()


def test_a_command_without_a_page_shows_its_help(user: User) -> None:
    done = user.ask("help", "cancel")
    assert done.out == user.ask("cancel", "--help").out.replace("wfrun wfrun", "wfrun")


def test_an_unknown_topic_names_the_nearest(user: User) -> None:
    done = user.ask("help", "notification")
    assert done.status == 2
    assert "Did you mean notifications?" in done.err


@pytest.mark.parametrize("columns", [60, 200])
def test_a_terminal_shows_it_drawn(
    user: User, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PAGER", "cat")
    terminal = Terminal(user, columns, "help", "notifications")
    assert terminal.done() == 0
    lines = terminal.text.splitlines()
    assert max(map(len, lines)) <= min(columns, 100)
    text = " ".join(" ".join(lines).split())
    assert "── finished all tasks" in text  # a table, with a line below its head
    assert "](" not in text
    assert "(#" not in text
    assert "(wfrun help security)" in text
