"""The lengths that templates of a bag expand to: bounded before anything is expanded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import sub

from wfrun.engine.model import Column, DictionaryColumn, Progression
from wfrun.engine.tasks.bag import INDEX
from wfrun.engine.tasks.templates import TemplatePart
from wfrun.parsers.bags.columns import MAX_VALUES, holds, last_of

MAX_TEXT_BYTES = 1 << 20
"""Maximum length of an expanded template in bytes. Linux passes 128 KiB in one argument; a short
document could ask for terabytes."""
_EXPONENT_DIGITS = 310
"""Maximum number of digits of a number with an exponent: ``f`` writes 1e308 in full."""
_SMALL = 64
"""A text of this many bytes need not be searched for its longest value."""


def longest(parts: Sequence[TemplatePart], columns: Mapping[str, Column]) -> int:
    """An upper bound of the length in bytes of the texts that a template expands to."""
    total = 0
    for part in parts:
        total += len(part.literal.encode())
        if part.name is None:
            continue
        column = None if part.name == INDEX else columns[part.name]
        length = len(str(MAX_VALUES)) if column is None else _longest_value(column)
        total += _formatted(length, part.spec, column) if part.spec else length
    return total


def _formatted(length: int, spec: str, column: Column | None) -> int:
    """An upper bound of the length of formatted values of at most ``length`` bytes."""
    numbers = [int(number) for number in re.findall(r"\d+", spec)]
    if spec[-1] == "f" and column is not None and holds(column, "eE"):
        length += _EXPONENT_DIGITS
    # Octal numbers are longer than decimal ones; a character of the padding may take 4 bytes.
    return 2 * length + 16 + sum(numbers) * (1 if spec.isascii() else 4)


def _longest_value(column: Column) -> int:
    """The length of the longest value in bytes, or a bound of at most `_SMALL`."""
    if isinstance(column, Progression):
        return max(len(str(column.start)), len(str(last_of(column)))) + column.decimals + 2
    plain = column.values if isinstance(column, DictionaryColumn) else column
    if len(plain.text) <= _SMALL:
        return len(plain.text)
    ends = memoryview(plain.ends).cast("Q")
    return max(ends[0], max(map(sub, ends[1:], ends), default=0))
