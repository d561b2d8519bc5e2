"""Results of simulated runs, and the file that keeps them: one row for each run."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar, get_origin

import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.parsers.atomic import drafted

CellT = TypeVar("CellT", bound=msgspec.Struct)
"""Type of a cell, which identifies a run: a frozen record of text, numbers and None, with keyword
arguments."""
RowT = TypeVar("RowT", bound=msgspec.Struct)
"""Type of a row, which has the measures of a run: a record that derives from CellT. Fields that
CellT lacks may also be tuples of numbers."""


class Results(Generic[CellT, RowT]):
    """Rows of an experiment in memory and, with a path, in a CSV file. Each row is written as soon
    as its cell is simulated, so that an interrupted experiment is continued, not repeated.

    ``identity`` has the values that all cells have in common. Each line of the file begins with
    columns for these values; a file with other values is refused. The file is locked until
    ``close``. If a crash has cut off the last line, this line is removed and ``torn`` is true. If a
    file of an older version lacks the last columns, they are added.

    Raises InvalidError for a file that is not a file of results, is damaged, belongs to another
    experiment or is in use; InfeasibleError if it cannot be read or written.
    """

    def __init__(
        self,
        path: Path | None,
        cell: type[CellT],
        row: type[RowT],
        identity: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.cell_type = cell
        self.row_type = row
        self._tuples = [f.name for f in msgspec.structs.fields(row) if get_origin(f.type) is tuple]
        self._identity = dict(identity or {})
        self._columns = [*self._identity, *row.__struct_fields__]
        self.rows: list[RowT] = []
        self.broken: list[PolicyError] = []
        """The errors of policies that raised, each different error once. Their cells have no
        rows."""
        self.torn = False
        self._stream: io.TextIOWrapper | None = None
        if path is not None:
            try:
                self._open(path)
            except InvalidError:
                self.close()
                raise

    def missing(self, cells: Iterable[CellT]) -> list[CellT]:
        """The cells that have no row, in the order of ``cells``."""
        have = set(map(self.cell_of, self.rows))
        return [cell for cell in cells if cell not in have]

    def of(self, cells: Iterable[CellT]) -> list[RowT]:
        """The rows of these cells, in the order of the cells. Cells without a row are skipped."""
        have = {self.cell_of(row): row for row in self.rows}
        return [have[cell] for cell in cells if cell in have]

    def add(self, row: RowT) -> None:
        """Add a row, and write it to the file. Raises InfeasibleError if it cannot be written."""
        # A whole number in a field of type float is written as it is after the file was read: 10.0.
        row = msgspec.convert(msgspec.to_builtins(row), self.row_type)
        self.rows.append(row)
        values = msgspec.structs.asdict(row)
        for name in self._tuples:
            values[name] = " ".join(map(repr, values[name]))
        self._write({**self._identity, **values})

    def leave_out(self, error: PolicyError) -> None:
        """Record the error of a cell whose policy raises. The cell stays missing."""
        if str(error) not in map(str, self.broken):
            self.broken.append(error)

    def arrange(self, cells: Iterable[CellT]) -> None:
        """Move the rows of these cells behind all other rows, in the order of the cells. The
        content of the file then does not depend on the number of processes that simulated."""
        wanted = dict.fromkeys(cells)
        others = [row for row in self.rows if self.cell_of(row) not in wanted]
        rows = [*others, *self.of(wanted)]
        if rows != self.rows:
            self.rows = [] if self.path is not None else rows
            if self.path is not None:
                self._replace(self.path, rows)

    def cell_of(self, row: RowT) -> CellT:
        """The cell that the row measures."""
        names = self.cell_type.__struct_fields__
        return self.cell_type(**{name: getattr(row, name) for name in names})

    def close(self) -> None:
        """Release the lock on the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise self._foreign("it is not a regular file")  # a device may be read without end
        try:
            self._stream = _locked(path)
            self._stream.seek(0)
            text = self._stream.read()
        except BlockingIOError as error:
            raise InvalidError(
                "another simulation writes to this file",
                source=str(path),
                hint="wait for it, or name another place with --output",
            ) from error
        except UnicodeDecodeError as error:
            raise self._foreign("it is not text") from error
        except OSError as error:
            raise self._unwritable(error) from error
        header = _header(self._columns)
        if not text.endswith("\n") and header.startswith(text):
            self.torn = text != ""
            self._truncate(0)
            self._write_header()
            return
        older = not text.startswith(header) and self._is_older(text)
        if not text.startswith(header) and not older:
            raise self._foreign("its first line does not have the columns of such a file")
        whole = text[: text.rindex("\n") + 1]
        self.torn = whole != text
        if self.torn:
            self._truncate(len(whole.encode()))
        rows = self._read(whole)
        if older:
            self._replace(path, rows)
        else:
            self.rows += rows

    def _is_older(self, text: str) -> bool:
        """Whether the header lacks only columns at the end, all of which are optional fields of
        rows."""
        known = text[: text.find("\n") + 1].rstrip("\n").split(",")
        fields = {field.name: field for field in msgspec.structs.fields(self.row_type)}
        added = self._columns[len(known) :]
        return known == self._columns[: len(known)] and all(
            name in fields and not fields[name].required for name in added
        )

    def _replace(self, path: Path, rows: Sequence[RowT]) -> None:
        """Replace the file by a new file with these rows. The new file is locked before it gets the
        name of the old one, so that no other simulation can begin to write to it."""
        old = self._stream
        try:
            with drafted(path) as stream:
                self._stream = _locked(os.dup(stream.fileno()))
                self._write_header()
                for row in rows:
                    self.add(row)
                os.fsync(self._stream.fileno())
        except OSError as error:
            raise self._unwritable(error) from error
        finally:
            if old is not None:
                old.close()

    def _truncate(self, size_bytes: int) -> None:
        assert self._stream is not None
        try:
            os.ftruncate(self._stream.fileno(), size_bytes)
        except OSError as error:
            raise self._unwritable(error) from error

    def _write_header(self) -> None:
        self._write(dict(zip(self._columns, self._columns, strict=True)))

    def _write(self, values: Mapping[str, object]) -> None:
        if self._stream is None:
            return
        line = io.StringIO()
        csv.DictWriter(line, self._columns, lineterminator="\n").writerow(values)
        try:
            # A single write at the end: a crash can cut off the last line and no other.
            data = line.getvalue().encode()
            if os.write(self._stream.fileno(), data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise self._unwritable(error) from error

    def _read(self, text: str) -> list[RowT]:
        """Read the rows of a file whose last line is complete. Raises InvalidError for a wrong
        identity and for a cell with two rows."""
        rows = []
        seen: dict[CellT, int] = {}
        for line, record in self._records(text):
            for name, expected in self._identity.items():
                found = record.pop(name)
                if found != expected:
                    raise self._of_another(name, found, expected, line)
            row = self._row(record, line)
            cell = self.cell_of(row)
            if cell in seen:
                raise self._damaged(f"the run on line {seen[cell]} is here again", line)
            seen[cell] = line
            rows.append(row)
        return rows

    def _records(self, text: str) -> Iterator[tuple[int, dict[str, str]]]:
        """The lines after the header: line number, and values by column."""
        reader = csv.reader(io.StringIO(text, newline=""))
        columns = next(reader)
        for values in reader:
            if len(values) != len(columns):
                message = f"the line has {len(values)} columns instead of {len(columns)}"
                raise self._damaged(message, reader.line_num)
            yield reader.line_num, dict(zip(columns, values, strict=True))

    def _row(self, record: Mapping[str, str], line: int) -> RowT:
        values: dict[str, object] = {name: value or None for name, value in record.items()}
        for name in self._tuples:
            values[name] = record.get(name, "").split()
        try:
            return msgspec.convert(values, self.row_type, strict=False)
        except msgspec.ValidationError as error:
            raise self._damaged(f"not a row of results: {error}", line) from error

    def _damaged(self, message: str, line: int) -> InvalidError:
        return InvalidError(
            message,
            source=str(self.path),
            line=line,
            hint="remove the line, and its run is simulated again; or name another place with "
            "--output",
        )

    def _of_another(self, name: str, found: str, expected: str, line: int) -> InvalidError:
        return InvalidError(
            f"the file holds results with another value of {name}: {found}; this experiment has "
            f"{expected}",
            source=str(self.path),
            line=line,
            hint="use a file of its own for each experiment: name another one with --output",
        )

    def _foreign(self, why: str) -> InvalidError:
        return InvalidError(
            f"not a file of results: {why}",
            source=str(self.path),
            hint="the file is unchanged; name another place with --output",
        )

    def _unwritable(self, error: OSError) -> InfeasibleError:
        return InfeasibleError(
            f"the results cannot be written: {error.strerror}",
            source=str(self.path),
            hint="check the folder, its permissions and its free space, or name another place "
            "with --output",
        )


def _locked(path: Path | int) -> io.TextIOWrapper:
    """Open the file for appending, under an exclusive lock. Raises BlockingIOError if another
    process has the lock, and other OSErrors."""
    if isinstance(path, int):
        fcntl.fcntl(path, fcntl.F_SETFL, os.O_APPEND)
    stream = open(path, "a+", newline="", encoding="utf-8")  # noqa: SIM115 - the caller's
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.close()
        raise
    return stream


def _header(columns: Sequence[str]) -> str:
    return ",".join(columns) + "\n"
