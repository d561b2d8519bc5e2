"""Text files of bags: lists of values, tables, lists of commands. They are read as streams."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NoReturn, TextIO

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, DictionaryColumn, PackedColumn
from wfrun.parsers.bags.columns import MAX_VALUES, ColumnMaker, column_of

_CHUNK = 512
"""Number of rows processed at a time: few enough to stay in the processor's cache."""
_DELIMITERS = ";\t|"
"""Delimiters of tables other than the comma."""
_LONGEST = 1 << 20
"""Maximum number of characters of one cell of a table."""


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, stripped, with their numbers from 1.

    Raises InvalidError for a file that cannot be read, is not UTF-8 text, or contains NUL.
    """
    with _errors(path), _opened(path, "\n") as stream:
        for number, line in enumerate(stream, 1):
            text = line.strip()
            if "\0" in text:
                _refuse_binary(path, number)
            if number > MAX_VALUES:
                raise InvalidError(f"has more than {MAX_VALUES:,} lines", source=str(path))
            if text:
                yield number, text


def read_values(path: Path) -> PackedColumn | DictionaryColumn:
    """Read one value from each line that is not empty."""
    return column_of(text for _, text in lines_of(path))


def read_table(path: Path, delimiter: str | None = None) -> Axis:
    """Read the columns of a CSV (RFC 4180) or TSV file, named by its first row.

    The default delimiter is the tab for names that end with .tsv or .tab, else the comma. Empty
    rows are ignored. Raises InvalidError, with the line, for a file that cannot be read, for a
    missing or repeated name in the header, and for a row whose number of cells differs from the
    header's.
    """
    if delimiter is None:
        delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
    csv.field_size_limit(_LONGEST)
    with _errors(path), _opened(path, "") as stream:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header, delimiter)
            makers = [ColumnMaker() for _ in header]
            while rows := list(islice(reader, _CHUNK)):
                if set(map(len, rows)) != {len(header)}:
                    rows = [row for row in rows if row]
                    if rows and set(map(len, rows)) != {len(header)}:
                        _refuse_ragged(path, delimiter, header)
                for maker, values in zip(makers, zip(*rows, strict=True), strict=False):
                    maker.add(values)
                if makers and len(makers[0]) > MAX_VALUES:
                    raise InvalidError(f"has more than {MAX_VALUES:,} rows", source=str(path))
        except csv.Error as error:
            line = max(1, reader.line_num)
            _refuse_nul(path)
            raise InvalidError(
                f"not a table: {error}",
                source=str(path),
                line=line,
                hint='A quote inside a quoted cell is written twice: "".',
            ) from error
    columns = tuple(maker.column() for maker in makers)
    for column in columns:
        if b"\0" in (column.values.text if isinstance(column, DictionaryColumn) else column.text):
            _refuse_nul(path)
    if not len(columns[0]):
        raise InvalidError(
            "the table has a header, but no rows: there are no tasks",
            source=str(path),
            line=1,
            hint="Add a row for each task.",
        )
    return Axis(tuple(header), columns)


def delimiter_hint(names: Iterable[str]) -> str | None:
    """A hint to give another delimiter, if exactly one of `_DELIMITERS` occurs in ``names``; else
    None."""
    marks = {mark for name in names for mark in _DELIMITERS if mark in name}
    if len(marks) != 1:
        return None
    mark = marks.pop().replace("\t", "\\t")
    return f"If columns are separated by {mark}, give --delimiter '{mark}' (YAML: delimiter)."


def _check_header(path: Path, header: list[str], delimiter: str) -> None:
    if not any(header):
        raise InvalidError(
            "the table is empty",
            source=str(path),
            line=1,
            hint="Its first row has the names of the parameters, the others their values.",
        )
    for n, name in enumerate(header):
        if not name:
            raise InvalidError(
                f"column {n + 1} of the header has no name",
                source=str(path),
                line=1,
                hint=f"Columns are separated by {delimiter!r}; name each of them.",
            )
        if name in header[:n]:
            raise InvalidError(
                f"the header has {name!r} twice, as columns {header.index(name) + 1} and {n + 1}",
                source=str(path),
                line=1,
                hint="Rename one of them.",
            )


def _refuse_ragged(path: Path, delimiter: str, header: Sequence[str]) -> NoReturn:
    """Raise InvalidError for the first row whose number of cells differs from the header's. The
    file is read again to find the row's line."""
    width = len(header)
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        line = 1
        for row in reader:
            if row and len(row) != width:
                raise InvalidError(
                    f"the row has {len(row)} cell{'' if len(row) == 1 else 's'}, but the header "
                    f"has {width}",
                    source=str(path),
                    line=line,
                    hint=delimiter_hint(header)
                    or f"Cells are separated by {delimiter!r}; one that holds it stands in "
                    "double quotes.",
                )
            line = reader.line_num + 1
    raise InvalidError("the rows are not equally long", source=str(path))


def _refuse_nul(path: Path) -> None:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if b"\0" in line:
                _refuse_binary(path, number)


def _refuse_binary(path: Path, line: int) -> NoReturn:
    raise InvalidError(
        "not text: it has a NUL byte in it",
        source=str(path),
        line=line,
        hint="Save it as plain text with the encoding UTF-8.",
    )


def _opened(path: Path, newline: str) -> TextIO:
    """Open a file as text. Pipes and devices are refused: a document may name one that never
    ends."""
    if path.exists() and not path.is_file():
        raise InvalidError("cannot be read: it is not a regular file", source=str(path))
    return path.open(encoding="utf-8-sig", newline=newline)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        line, byte = _bad_line(path)
        raise InvalidError(
            f"not UTF-8 text (byte 0x{byte:02x})",
            source=str(path),
            line=line,
            hint="Save the file with the encoding UTF-8.",
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidError(f"cannot be read: {reason}", source=str(path)) from error


def _bad_line(path: Path) -> tuple[int, int]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return number, line[error.start]
    return 1, 0
