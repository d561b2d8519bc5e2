"""Columns of bags: compact sequences of values, and questions about the values."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate, chain, islice, pairwise

from wfrun.engine.model import Axis, Column, DictionaryColumn, PackedColumn, Progression
from wfrun.engine.tasks.bag import values_of

MAX_VALUES = 10**8
"""Maximum number of values of a column, and of tasks of a bag."""

MAX_LISTED = 10**6
"""Maximum number of values of a progression that are written out one by one."""

_CHUNK = 1024
_FEW = 1 << 16
"""Number of different values up to which `ColumnMaker` collects values in a dictionary even if more
than half of them are different. `ColumnMaker.column` decides the final form by the share."""
_UNUSUAL = re.compile(rb"[\0-\x1f/\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
"""A slash, or one of the characters of `wfrun.parsers.syntax.limits.CONTROL`, in UTF-8."""
_MAX_INTEGER = 2**63 - 1
_MAX_DIGITS = len(str(_MAX_INTEGER)) - 1


class ColumnMaker:
    """Packs values into a column: a `DictionaryColumn` if at most half of the values are different,
    else a `PackedColumn`."""

    def __init__(self) -> None:
        self._codes = array("I")
        self._index: dict[str, int] | None = {}
        """The code of each value; None once values are packed, because there are more than `_FEW`
        different values and more than half of all values are different."""
        self._text = bytearray()
        self._ends = array("Q")

    def __len__(self) -> int:
        return len(self._codes) if self._index is not None else len(self._ends)

    def add(self, values: Sequence[str]) -> None:
        """Add some values."""
        index = self._index
        if index is None:
            self._pack(values)
            return
        for value in dict.fromkeys(values):
            index.setdefault(value, len(index))
        self._codes.extend([index[value] for value in values])
        if len(index) > _FEW and 2 * len(index) > len(self._codes):
            self._give_up(index)

    def _give_up(self, index: dict[str, int]) -> None:
        values = list(index)
        for start in range(0, len(self._codes), _CHUNK):
            self._pack([values[code] for code in self._codes[start : start + _CHUNK]])
        self._index, self._codes = None, array("I")

    def _pack(self, values: Sequence[str]) -> None:
        joined = "".join(values)
        text = joined.encode()
        plain = len(text) == len(joined)
        lengths = map(len, values) if plain else (len(value.encode()) for value in values)
        ends = accumulate(lengths, initial=len(self._text))
        next(ends)
        self._ends.extend(ends)
        self._text += text

    def column(self) -> PackedColumn | DictionaryColumn:
        """The column of the values added so far."""
        index = self._index
        if index is not None and 2 * len(index) > len(self._codes):
            self._give_up(index)
            index = None
        if index is None:
            return PackedColumn(bytes(self._text), self._ends.tobytes())
        return DictionaryColumn(PackedColumn.of(list(index)), self._codes.tobytes())


def column_of(values: Iterable[str]) -> PackedColumn | DictionaryColumn:
    """Make a column of ``values``."""
    maker = ColumnMaker()
    rest = iter(values)
    while chunk := list(islice(rest, _CHUNK)):
        maker.add(chunk)
    return maker.column()


def progression(
    first: float | int, last: float | int | None, step: float | int, count: int | None = None
) -> Progression:
    """Make the column of the numbers from ``first`` to ``last``, or of ``count`` numbers from
    ``first``.

    ``last`` is included if it is a whole number of steps from ``first``. Raises ValueError for a
    progression that never ends, is too long, or has numbers that are too large.
    """
    start, by = _decimal(first), _decimal(step)
    if count is None:
        assert last is not None
        end = _decimal(last)
        if by == 0:
            raise ValueError("the step is 0: it never ends")
        if (end - start) * by < 0:
            raise ValueError(
                f"it never ends: steps of {step} from {first} lead away from {last}; "
                f"write 'step: {-step}', or exchange the two"
            )
        steps = (end - start) / by
        if steps >= MAX_VALUES:
            raise ValueError(f"it has more than {MAX_VALUES:,} values")
        count = int(steps) + 1
    if count > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")
    decimals = max(0, *(-int(number.as_tuple().exponent) for number in (start, by)))
    whole = [int(number.scaleb(decimals)) for number in (start, by, start + by * (count - 1))]
    if decimals > _MAX_DIGITS or max(map(abs, whole)) > _MAX_INTEGER:
        raise ValueError("its numbers are too large, or have too many decimals")
    return Progression(whole[0], whole[1], count, decimals)


def _decimal(number: float | int) -> Decimal:
    """Convert to decimal, as the number is written and without trailing zeros. Raises ValueError
    for a number that is not finite."""
    decimal = Decimal(repr(number))
    if not decimal.is_finite():
        raise ValueError(f"{number} is not finite: it never ends")
    if abs(decimal.adjusted()) > _MAX_DIGITS:
        raise ValueError(f"{number} is too large, or has too many decimals")
    return decimal.normalize()


def distinct(column: Column) -> Iterator[str]:
    """Yield the values of a column. A dictionary column yields each different value once."""
    plain = column.values if isinstance(column, DictionaryColumn) else column
    if isinstance(plain, PackedColumn) and plain.text.isascii():
        text, ends = plain.text.decode(), memoryview(plain.ends).cast("Q")
        return (text[first:end] for first, end in pairwise(chain((0,), ends)))
    return map(values_of(plain), range(len(plain)))


def column_like(column: Column, convert: Callable[[str], str]) -> PackedColumn | DictionaryColumn:
    """Make the column of ``convert(value)`` for each value."""
    if not isinstance(column, DictionaryColumn):
        return column_of(map(convert, distinct(column)))
    values = [convert(value) for value in distinct(column)]
    return column_of(values[code] for code in memoryview(column.codes).cast("I"))


def holds(column: Column, letters: str) -> bool:
    """Whether any value may contain a character of ``letters``."""
    if isinstance(column, Progression):
        signs = "-" if min(column.start, last_of(column)) < 0 else ""
        return not set("0123456789" + ("." if column.decimals else "") + signs).isdisjoint(letters)
    text = column.values.text if isinstance(column, DictionaryColumn) else column.text
    return any(letter.encode() in text for letter in letters)


def holds_unusual(column: Column) -> bool:
    """Whether any value contains a slash, a control character or a line end."""
    if isinstance(column, Progression):
        return False
    text = column.values.text if isinstance(column, DictionaryColumn) else column.text
    return _UNUSUAL.search(text) is not None


def has_empty(column: Column) -> bool:
    """Whether any value is empty."""
    if isinstance(column, Progression):
        return False
    ends = (column.values if isinstance(column, DictionaryColumn) else column).ends
    return any(first == end for first, end in pairwise(chain((0,), memoryview(ends).cast("Q"))))


def are_whole(column: Column) -> bool:
    """Whether all values are certainly whole numbers of digits alone that fit 64 bits."""
    if isinstance(column, Progression):
        return column.decimals == 0
    plain = column.values if isinstance(column, DictionaryColumn) else column
    if not plain.text.isdigit():
        return False
    ends = memoryview(plain.ends).cast("Q")
    return all(0 < end - first <= _MAX_DIGITS for first, end in pairwise(chain((0,), ends)))


def last_of(column: Progression) -> int:
    """The last number, in the units of ``start``."""
    return column.start + column.step * (column.count - 1)


def columns_by_name(axes: Iterable[Axis]) -> dict[str, Column]:
    """The columns of all axes, by parameter."""
    return {n: c for axis in axes for n, c in zip(axis.names, axis.columns, strict=True)}
