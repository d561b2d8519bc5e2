"""Foreign text as a terminal may show it: without escape sequences and invisible characters.

Ids, file names, messages of hosts and the output of tasks come from people who are not the user.
On a terminal, control characters in them could set the clipboard or erase and forge lines, and
characters that change the direction of text could disguise a name.
"""

from __future__ import annotations

import shlex

MAX_NAME = 200
"""Maximum number of characters of a name in a message or a table."""
MAX_LINE = 10_000
"""Maximum number of characters of a line of a message."""
MAX_LINES = 200
"""Maximum number of lines of a message."""

_SHOWN = frozenset("\n\t\u00a0\u202f\u3000")
"""Spaces and line ends that are shown, although ``str.isprintable`` is false for them."""


_CACHED = 1 << 16
"""Upper bound on the character codes whose visible form is cached. The cached codes cover nearly
all text, and the bound limits the memory."""


class _Shown(dict[int, int | str]):
    """Table from the code of a character to its visible form, filled on demand."""

    def __missing__(self, code: int) -> int | str:
        character = chr(code)
        is_shown = character.isprintable() or character in _SHOWN
        shown = code if is_shown else repr(character)[1:-1]
        if code < _CACHED:
            self[code] = shown
        return shown


_TABLE = _Shown()


def visible(text: str) -> str:
    """Return the text with escapes such as ``\\x1b`` for control, format (zero width, direction),
    unassigned and private characters and surrogates. Line ends, tabs and all other text stay as
    they are."""
    return text if text.isprintable() else text.translate(_TABLE)


def name_line(text: str, limit: int = MAX_NAME) -> str:
    """A name, or other text of one line: visible, line ends as ``\\n``, and cut after ``limit``
    characters."""
    line = visible(text[:limit]).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(text) <= limit else f"{line}…"


def command_line(*words: object) -> str:
    """Return the words as a shell command for the user to copy, quoted so that a name cannot become
    another command."""
    return name_line(shlex.join(map(str, words)), MAX_LINE)


def message_block(text: str) -> str:
    """A message of several lines: visible, with a limited size. All lines but the first are
    indented, so that foreign text cannot forge a message of its own."""
    first, *rest = text[: MAX_LINES * MAX_LINE].split("\n")
    lines = [first, *(line if line[:1] in ("", " ") else f"  {line}" for line in rest)]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"  and {len(lines) - MAX_LINES} more lines"]
    return "\n".join(
        visible(line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…") for line in lines
    )
