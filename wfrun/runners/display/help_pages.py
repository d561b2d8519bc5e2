"""The pages of the documentation that are installed with wfrun, as shown on terminals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from rich.markdown import Markdown

from wfrun.engine.errors import InvalidError
from wfrun.runners.display.console import make_console

PAGES = Path(__file__).parents[2] / "docs"
"""Folder of the pages: a link to ``docs`` in the repository, and a copy of it in an installed
package."""
MAX_COLUMNS = 100
"""Maximum width of a page, in columns. Longer lines are hard to read."""
_SECTION = re.compile(r"^## (.*)$")
_ENTRY = re.compile(r"^ *- \[([^\]]+)\]\(([a-z-]+)\.md\)(.*)$")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)#]*?)(?:\.md)?(?:#[^)]*)?\)")
"""A Markdown link inside the documentation, not to a URL."""


class Topic(NamedTuple):
    """Name and summary of a page."""

    name: str
    summary: str


def sections() -> dict[str, list[Topic]]:
    """All pages by section, in the order of the index."""
    found: dict[str, list[Topic]] = {}
    section = ""
    for line in _text("index").splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
        elif entry := _ENTRY.match(line):
            summary = f"{entry[1]}{entry[3]}".replace("`", "")
            found.setdefault(section, []).append(Topic(entry[2], summary))
    return found


def names() -> Iterator[str]:
    """The names of all pages."""
    for topics in sections().values():
        for topic in topics:
            yield topic.name


def page(name: str) -> str:
    """The Markdown of a page. Raises InvalidError for an unknown name."""
    known = list(names())
    if name not in known:
        near = get_close_matches(name, known, n=2)
        raise InvalidError(
            f"there is no page {name!r}",
            hint=f"Did you mean {' or '.join(near)}?" if near else "`wfrun help` lists all pages",
        )
    return _text(name)


def drawn(text: str) -> str:
    """Render Markdown with styles for a terminal. A link to another page is shown with the `wfrun
    help` command of that page."""
    console = make_console()
    width = min(console.width, MAX_COLUMNS)
    known = set(names())

    def shown(link: re.Match[str]) -> str:
        return f"{link[1]} (`wfrun help {link[2]}`)" if link[2] in known else link[1]

    text = _LINK.sub(shown, text)
    with console.capture() as capture:
        console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False), width=width)
    return capture.get()


def _text(name: str) -> str:
    try:
        return (PAGES / f"{name}.md").read_text("utf-8")
    except OSError as error:
        raise InvalidError(
            f"the pages are not installed: {error}",
            hint="`wfrun COMMAND --help` describes each command",
        ) from error
