"""Lines of plain and compressed logs, and numbers in them. Lines are bytes, which read faster."""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from wfrun.engine.errors import InvalidError

MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line. Without it, a megabyte of compressed data could expand to a line of a
gigabyte."""
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_MAX_DIGITS = 18
"""Maximum number of digits: larger numbers are neither counts nor times, and would overflow."""


def numbered_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, plain or compressed with gzip, with their numbers from 1.

    Raises InvalidError when it cannot be read, or its compressed data are damaged or truncated.
    """
    number = 0
    try:
        with _opened(path) as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES), b""), 1):
                if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                    raise InvalidError(
                        f"the line has more than {MAX_LINE_BYTES:,} bytes",
                        source=str(path),
                        line=number,
                        hint="Give a workload log: one line for each job.",
                    )
                yield number, line[3:] if number == 1 and line.startswith(_BOM) else line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        where = " after this line" if number else ""
        raise InvalidError(
            f"the compressed data are damaged or cut off{where}: {error}",
            source=str(path),
            line=number or None,
            hint="Fetch the file again.",
        ) from error
    except OSError as error:
        raise InvalidError(
            f"cannot be read: {error.strerror or error}",
            source=str(path),
            hint="Give a workload log, plain or compressed with gzip.",
        ) from error


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[io.BufferedReader]:
    with open(path, "rb") as raw:
        if raw.peek(2)[:2] != _GZIP:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unpacked:
            # GzipFile's own iteration is one Python call a line.
            yield io.BufferedReader(unpacked, 1 << 20)


def decoded(text: bytes) -> str:
    """Decode a comment. Old logs are in Latin-1 if they are not valid UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def shown(cell: bytes) -> str:
    """The beginning of a cell as printable text, for messages."""
    text = decoded(cell)
    return repr(text if len(text) <= 30 else text[:29] + "…")


def number_of(cell: bytes) -> float:
    """Convert a cell to a finite decimal number.

    Raises ValueError for anything else, such as ``nan``, ``inf`` and ``1_000``.
    """
    if _NUMBER.fullmatch(cell) is None or not math.isfinite(value := float(cell)):
        raise ValueError(f"{shown(cell)} is no number")
    if abs(value) >= 10.0**_MAX_DIGITS:
        raise ValueError(f"{shown(cell)} is out of range")
    return value + 0.0  # -0.0 becomes 0


class NumberCache(dict[bytes, int | None]):
    """Maps the text of whole numbers to their values, with None for -1, and caches them. Equal
    numbers are one object.

    Raises KeyError for text that is not a sequence of digits with an optional minus sign.
    """

    def __missing__(self, cell: bytes) -> int | None:
        value = self[cell] = None if cell == b"-1" else _whole(cell)
        return value


class Times(dict[bytes, float | None]):
    """Maps the text of decimal numbers to their values, with None for -1, and caches them. Raises
    KeyError for other text."""

    def __missing__(self, cell: bytes) -> float | None:
        if cell.isdigit() and len(cell) <= _MAX_DIGITS:
            value: float | None = float(cell)
        else:
            value = _decimal(cell)
        self[cell] = value = None if value == -1 else value
        return value


class FreshCounts(dict[bytes, int | None]):
    """Maps the text of whole numbers to their values without a cache, for columns whose numbers
    hardly ever repeat. -1 stays -1. Raises KeyError for other text."""

    def __missing__(self, cell: bytes) -> int:
        if cell.isdigit() and len(cell) <= _MAX_DIGITS:
            return int(cell)
        return _whole(cell)


class FreshTimes(dict[bytes, float | None]):
    """Maps the text of decimal numbers to their values without a cache, for columns whose numbers
    hardly ever repeat. -1 stays -1. Raises KeyError for other text."""

    def __missing__(self, cell: bytes) -> float:
        if cell.isdigit() and len(cell) <= _MAX_DIGITS:
            return float(cell)
        return _decimal(cell)


def _whole(cell: bytes) -> int:
    digits = cell[1:] if cell[:1] == b"-" else cell
    if not digits.isdigit() or len(digits) > _MAX_DIGITS:
        raise KeyError(cell)
    return int(cell)


def _decimal(cell: bytes) -> float:
    try:
        return number_of(cell)
    except ValueError as error:
        raise KeyError(cell) from error
