"""Parts of a YAML document: mappings whose keys are checked, and values with their units.

The converters raise ValueError with the end of a message, such as "it must be a number,
not nothing"; `Section.take` adds key and line.
"""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from wfrun.engine.errors import InvalidError
from wfrun.parsers.syntax.limits import MAX_BYTES, MAX_COUNT, MAX_SECONDS
from wfrun.parsers.syntax.units import parse_bandwidth, parse_duration, parse_size
from wfrun.parsers.syntax.yaml_document import YamlDocument

T = TypeVar("T")
N = TypeVar("N", int, float)


class Section:
    """A mapping of the document whose keys are checked."""

    def __init__(
        self, document: YamlDocument, path: tuple[str | int, ...], title: str, known: Iterable[str]
    ) -> None:
        self.document = document
        self.path = path
        self.title = title
        value = document.value
        for step in path:
            value = value[step]
        if not isinstance(value, dict):
            raise self.error(f"{title} must be a mapping, not {in_words(value)}")
        self.values: dict[Any, Any] = value
        known = tuple(known)
        for key in value:
            if key not in known:
                message = f"{title} has no key {str(key)!r}"
                raise document.error(message, *path, key, hint=nearest(str(key), known, "Keys"))

    def has(self, key: str) -> bool:
        return key in self.values

    def inner(self, key: str, title: str, known: Iterable[str]) -> Section:
        """The mapping at ``key`` as a section; a section without keys if ``key`` is absent."""
        if self.has(key):
            return Section(self.document, (*self.path, key), title, known)
        empty = copy.copy(self)
        empty.title, empty.values = title, {}
        return empty

    def error(self, message: str, *path: str | int, hint: str | None = None) -> InvalidError:
        return self.document.error(message, *self.path, *path, hint=hint)

    def take(self, key: str, convert: Callable[[Any], T], default: T) -> T:
        """Convert the value of ``key``, or return ``default`` if it is absent. A ValueError of
        ``convert`` becomes an InvalidError with key and line."""
        if key not in self.values:
            return default
        try:
            return convert(self.values[key])
        except ValueError as error:
            raise self.error(f"{key} of {self.title}: {error}", key) from error


def at_most(most: N, value: N) -> N:
    """Return the value. Raises ValueError if it is above ``most``, or is not a number."""
    if not value <= most:
        raise ValueError(f"it must be at most {most:,}")
    return value


def to_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"it must be a number, not {in_words(value)}")
    if not math.isfinite(value):
        raise ValueError(f"it must be a finite number, not {value}")
    return value


def to_positive(value: Any) -> float:
    if to_number(value) <= 0:
        raise ValueError(f"it must be above 0, not {value}")
    return float(value)


def to_whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"it must be a whole number, not {in_words(value)}")
    return value


def to_count(value: Any) -> int:
    if to_whole(value) <= 0:
        raise ValueError(f"it must be above 0, not {value}")
    return at_most(MAX_COUNT, int(value))


def to_count_or_zero(value: Any) -> int:
    if to_whole(value) < 0:
        raise ValueError(f"it must be at least 0, not {value}")
    return at_most(MAX_COUNT, int(value))


def to_size(value: Any) -> int:
    size_bytes = parse_size(value)
    if size_bytes <= 0:
        raise ValueError(f"it must be above 0, not {value}")
    return at_most(MAX_BYTES, size_bytes)


def to_duration(value: Any) -> float:
    duration_s = parse_duration(value)
    if duration_s <= 0:
        raise ValueError(f"it must be above 0, not {value}")
    return at_most(MAX_SECONDS, duration_s)


def to_bandwidth(value: Any) -> float | None:
    bandwidth = parse_bandwidth(value)
    if bandwidth <= 0:
        raise ValueError(f"it must be above 0, not {value}")
    return bandwidth


def to_latency(value: Any) -> float:
    latency_s = parse_duration(value)
    if latency_s < 0:
        raise ValueError(f"it must be at least 0, not {value}")
    return at_most(MAX_SECONDS, latency_s)


def to_truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"it must be true or false, not {in_words(value)}")
    return value


def in_words(value: Any) -> str:
    """The value as text for messages: the kind of a mapping, list or empty value, otherwise the
    value itself."""
    if isinstance(value, bool):
        return str(value).lower()
    for kind, words in ((dict, "a mapping"), (list, "a list"), (type(None), "nothing")):
        if isinstance(value, kind):
            return words
    return repr(value)


def nearest(word: str, known: Iterable[str], title: str) -> str:
    """The hint for an unknown word: all known words, after the most similar one if there is any."""
    known = list(known)
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}{title}: {', '.join(known)}."
