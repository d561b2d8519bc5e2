"""Values in documents of bags. The converters raise ValueError with the end of a sentence."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from wfrun.parsers.sections import in_words

_LARGEST_PRIORITY = 2**31 - 1
_RAW_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\])+""", re.DOTALL)
_OF_SHELLS = re.compile(r"(\d*|&)[<>].*|\|[|&]?|&&?|(.*[^\\])?;", re.DOTALL)
"""Words, with their quotes, that mean something to a shell and nothing to a program."""
_KEYS = {
    ">": "name a file for what it prints with 'stdout', ",
    "<": "name a file for it to read with 'stdin', ",
}


def to_text(value: Any) -> str:
    """Convert a scalar to text; refuse what YAML took for true, false or nothing."""
    if isinstance(value, bool) or value is None:
        raise ValueError(
            f"text or a number is needed, not {in_words(value)}; put words such as yes, no, on, "
            "off and null in quotes"
        )
    if isinstance(value, (dict, list)):
        raise ValueError(f"text or a number is needed, not {in_words(value)}")
    text = str(value)
    if "\0" in text:
        raise ValueError("a NUL character can't be passed on to a program")
    return text


def to_name(value: Any) -> str:
    """Convert to a name that can be printed."""
    text = to_text(value)
    if not text.strip() or any(not letter.isprintable() for letter in text):
        raise ValueError(f"{text!r} is no name")
    return text


def to_priority(value: Any) -> int:
    """Convert to a whole number of 32 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST_PRIORITY:
        raise ValueError(f"a whole number is needed, not {in_words(value)}")
    return value


def to_delimiter(value: Any) -> str:
    """Convert to the character that separates the cells of a table."""
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n\0':
        raise ValueError(f"one character is needed, not {in_words(value)}")
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

    Refuses a command without words, an open quote, and what only a shell understands, such as
    ``>``; ``streams`` say what to do instead.
    """
    words = tuple(shlex.split(command))
    if not words:
        raise ValueError("it is empty")
    for word in _RAW_WORD.findall(command):
        if _OF_SHELLS.fullmatch(word):
            instead = next((text for sign, text in streams.items() if sign in word), "")
            raise ValueError(
                f"{word!r} is for a shell, and none runs the command; {instead}write sh -c '…', "
                "or quote it if the program is to get it"
            )
    return words


def is_elsewhere(place: str) -> bool:
    """Whether it is a URL, and not of a file of this machine."""
    return "://" in place and not place.startswith(("file:///", "file://localhost/"))


def escaped(text: str) -> str:
    """The template that gives just this text."""
    return text.replace("{", "{{").replace("}", "}}")
