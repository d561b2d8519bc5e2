"""Converters for values in documents of bags, and the words of commands.

The converters raise ValueError with the end of a message; `Section.take` adds key and line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from wfrun.parsers.syntax.limits import MAX_PRIORITY
from wfrun.parsers.syntax.sections import in_words, to_whole

_QUOTED_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\])+""", re.DOTALL)
"""A word of a command with its quotes."""
_SHELL_SYNTAX = re.compile(r"(\d*|&)[<>].*|\|[|&]?|&&?|(.*[^\\])?;", re.DOTALL)
"""Words that have a meaning only for a shell, unless quoted: redirections, pipes, `&`, `;`."""
_KEYS = {
    ">": "name a file for what it prints with 'stdout', ",
    "<": "name a file for it to read with 'stdin', ",
}
"""Part of a hint, by redirection sign of a shell: the key of a bag that replaces the sign."""


def to_text(value: Any) -> str:
    """Convert a scalar to text. True, false and null are refused, because YAML reads words such as
    ``no`` as these."""
    if isinstance(value, bool) or value is None:
        raise ValueError(
            f"it must be text or a number, not {in_words(value)}; put words such as yes, no, on, "
            "off and null in quotes"
        )
    if isinstance(value, (dict, list)) or callable(value):
        raise ValueError(f"it must be text or a number, not {in_words(value)}")
    text = str(value)
    if "\0" in text:
        raise ValueError("a NUL character cannot be passed on to a program")
    return text


def to_name(value: Any) -> str:
    """Convert to a name that can be printed."""
    text = to_text(value)
    if not text.strip() or any(not letter.isprintable() for letter in text):
        raise ValueError(f"{text!r} is not a name: it is empty, or has control characters")
    return text


def to_priority(value: Any) -> int:
    """Convert to a priority: a whole number from -`MAX_PRIORITY` to `MAX_PRIORITY`."""
    priority = to_whole(value)
    if abs(priority) > MAX_PRIORITY:
        raise ValueError(f"it must be from -{MAX_PRIORITY} to {MAX_PRIORITY}, not {priority}")
    return priority


def to_delimiter(value: Any) -> str:
    """Convert to the character that separates the cells of a table."""
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n\0':
        raise ValueError(f"it must be one character, not {in_words(value)}")
    return value


def to_command(value: Any) -> tuple[str, ...]:
    """Convert text, or a list of words, to the words of a command."""
    if isinstance(value, list):
        words = tuple(to_text(word) for word in value)
        if not words or not words[0]:
            raise ValueError("it is empty")
        return words
    if not isinstance(value, str):
        raise ValueError(f"a command is text, or a list of words, not {in_words(value)}")
    return words_of(value)


def words_of(command: str, streams: Mapping[str, str] = _KEYS) -> tuple[str, ...]:
    """Split a command into words, as a shell does.

    ``streams`` has, for a redirection sign, the part of the hint that says what to write instead.
    Raises ValueError for a command without words, an open quote, and syntax that only a shell
    understands, such as ``>``.
    """
    words = tuple(shlex.split(command))
    if not words:
        raise ValueError("it is empty")
    for word in _QUOTED_WORD.findall(command):
        if _SHELL_SYNTAX.fullmatch(word):
            instead = next((text for sign, text in streams.items() if sign in word), "")
            raise ValueError(
                f"{word!r} is for a shell, and none runs the command; {instead}write sh -c '…', "
                "or quote it if the program is to get it"
            )
    return words


def is_elsewhere(place: str) -> bool:
    """Whether the place of a file is a URL of another machine, that is, any URL except one of a
    file on this machine."""
    return "://" in place and not place.startswith(("file:///", "file://localhost/"))


def escaped(text: str) -> str:
    """The template that expands to this text: the text with doubled braces."""
    return text.replace("{", "{{").replace("}", "}}")
