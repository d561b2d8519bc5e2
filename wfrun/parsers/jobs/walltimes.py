"""Sizes of parallel jobs, and their walltimes by size: a number, a table, or Amdahl's law.

The converters raise ValueError with the end of a message; `Section.take` adds key and line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from wfrun.parsers.foreign import number_of
from wfrun.parsers.syntax.sections import in_words, nearest, to_count, to_duration, to_number

MAX_SIZES = 100_000
"""Maximum number of sizes of one job."""

_RANGE_KEYS = ("min", "max")
_AMDAHL_KEYS = ("serial_s", "parallel", "limit")


class Walltime(NamedTuple):
    """The walltime of a job by its size."""

    at: Callable[[int], float]
    """Gives the walltime in seconds for a number of processors."""
    sizes: tuple[int, ...] = ()
    """The sizes in a table, ascending; empty if any size is possible."""
    depends: bool = True
    """Whether the walltime depends on the size."""


def to_sizes(value: Any) -> tuple[int, ...]:
    """Convert a number of processors, a list of numbers, or ``{min, max}`` to sizes, ascending."""
    if isinstance(value, list):
        sizes = sorted({to_count(each) for each in value})
        if not sizes:
            raise ValueError("the list is empty")
        return tuple(sizes)
    if not isinstance(value, dict):
        return (to_count(value),)
    _check_keys(value, _RANGE_KEYS, needed=_RANGE_KEYS)
    smallest, largest = (_part(value, key, to_count) for key in _RANGE_KEYS)
    if smallest > largest:
        raise ValueError(f"the range from {smallest} to {largest} is empty")
    if largest - smallest >= MAX_SIZES:
        raise ValueError(f"the range has {largest - smallest + 1:,} sizes, at most {MAX_SIZES:,}")
    return tuple(range(smallest, largest + 1))


def to_walltime(value: Any) -> Walltime:
    """Convert a duration, a table of durations by size, or ``{serial_s, parallel, limit}``."""
    if not isinstance(value, dict):
        walltime_s = to_duration(value)
        return Walltime(lambda size: walltime_s, depends=False)
    if any(isinstance(key, str) and number_of(key) is None for key in value):
        return _amdahl(value)
    return _table(value)


def _table(value: dict[Any, Any]) -> Walltime:
    """A table of durations by size. Raises ValueError if more processors take longer."""
    if not value:
        raise ValueError("the table is empty")
    table: dict[int, float] = {}
    for key, entry in value.items():
        size = to_count(number_of(key) if isinstance(key, str) else key)
        if size in table:
            raise ValueError(f"the size {size} has two durations")
        try:
            table[size] = to_duration(entry)
        except ValueError as error:
            raise ValueError(f"with {_processors(size)} {error}") from None
    sizes = tuple(sorted(table))
    for smaller, larger in pairwise(sizes):
        if table[larger] > table[smaller]:
            raise ValueError(
                f"{table[larger]:g} s with {larger} processors is longer than {table[smaller]:g} s "
                f"with {smaller}: more processors must not take longer"
            )
    return Walltime(table.__getitem__, sizes)


def _processors(size: int) -> str:
    return f"{size} processor{'s' * (size != 1)}"


def _amdahl(value: dict[Any, Any]) -> Walltime:
    """Amdahl's law: the share ``parallel`` of the work is divided among the processors, at most
    ``limit`` of them (RR-7365, section 4.2)."""
    _check_keys(value, _AMDAHL_KEYS, needed=_AMDAHL_KEYS[:2])
    serial_s: float = _part(value, "serial_s", to_duration)
    parallel: float = _part(value, "parallel", _to_share)
    limit = _part(value, "limit", to_count) if "limit" in value else None

    def at(size: int) -> float:
        used = size if limit is None else min(size, limit)
        return serial_s * ((1 - parallel) + parallel / used)

    return Walltime(at)


def _to_share(value: Any) -> float:
    if not 0 <= to_number(value) <= 1:
        raise ValueError(f"it must be from 0 to 1, not {value}")
    return float(value)


def _check_keys(value: dict[Any, Any], known: Sequence[str], needed: Sequence[str]) -> None:
    for key in value:
        if key not in known:
            raise ValueError(f"it has no key {str(key)!r}. {nearest(str(key), known, 'Keys')}")
    for key in needed:
        if key not in value:
            raise ValueError(f"its key {key!r} is missing")


def _part(value: dict[Any, Any], key: str, convert: Callable[[Any], Any]) -> Any:
    try:
        return convert(value[key])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def shown_sizes(sizes: Sequence[int]) -> str:
    """Sizes for messages."""
    if not sizes:
        return "none"
    return in_words(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
