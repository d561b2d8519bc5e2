"""Results of simulated runs, and the file that keeps them: one row for each run."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, get_origin

import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError


class Cell(msgspec.Struct, frozen=True):
    """One simulated run of a grid."""

    workflow: str | None
    """Of a grid that simulates each on its own: its label (`Grid.labels`); None: all together."""
    policy: str
    throttle: int | None
    load: float | None
    seed: int


class Row(Cell, frozen=True):
    """What came of a cell. The metrics are those of thesis section 6.2.4; means are over the
    tasks, or over the workflows for NSL."""

    makespan_s: float
    """From the submission to the end of the last workflow (the total makespan)."""
    nsl: float
    """Makespan of a workflow over its critical path on the reference processor; workflows whose
    tasks take no time have none."""
    qwt_s: float
    ftd_s: float
    transfers: int
    """Between sites (NFT)."""
    moved_bytes: int
    core_s: float
    """Cores times time that attempts ran: what the run costs."""
    failed: int
    """Tasks that failed for good, and those that were not run because of them."""
    makespans_s: tuple[float, ...] = ()
    """Of each workflow."""


class GroupKey(NamedTuple):
    """Of rows that differ by their seed alone."""

    workflow: str | None
    policy: str
    throttle: int | None
    load: float | None


def grouped(rows: Sequence[Row]) -> dict[GroupKey, list[Row]]:
    """Rows that differ by their seed alone, together."""
    groups: dict[GroupKey, list[Row]] = {}
    for row in rows:
        key = GroupKey(row.workflow, row.policy, row.throttle, row.load)
        groups.setdefault(key, []).append(row)
    return groups


def short_names(rows: Sequence[Row]) -> dict[str | None, str]:
    """For readers: the labels of the workflows without their digests, where that tells them apart;
    empty for what is of no single workflow. In the order of the rows."""
    labels = dict.fromkeys(row.workflow for row in rows)
    words = {label: (label or "").rpartition(" #")[0] for label in labels}
    count = Counter(words.values())
    return {label: word if count[word] == 1 else label or "" for label, word in words.items()}


CellT = TypeVar("CellT", bound=msgspec.Struct)
"""Says which run: a frozen record of text, numbers and None."""
RowT = TypeVar("RowT", bound=msgspec.Struct)
"""What came of it: a record that derives from CellT. Its further fields may be tuples of numbers
too."""


class Results(Generic[CellT, RowT]):
    """Rows in memory and, with a path, in a CSV file: one line each as soon as its cell is done,
    so that a grid that was interrupted goes on where it was.

    ``identity`` is what all cells have in common. It stands in every line, in columns of its own
    before those of the row, and a file with another one is refused. The file is held under a lock
    until ``close``. A last line that was cut off by a crash is taken away: ``torn`` is then true.

    Raises InvalidError for a file that is no such file, is damaged, is of another grid or in use;
    InfeasibleError where it can't be read or written.
    """

    def __init__(
        self,
        path: Path | None,
        cell: type[CellT],
        row: type[RowT],
        identity: Mapping[str, str] | None = None,
    ) -> None:
        self._path = path
        self._cell_type = cell
        self._row_type = row
        self._tuples = [f.name for f in msgspec.structs.fields(row) if get_origin(f.type) is tuple]
        self._identity = dict(identity or {})
        self._columns = [*self._identity, *row.__struct_fields__]
        self.rows: list[RowT] = []
        self.torn = False
        self._stream: io.TextIOWrapper | None = None
        if path is not None:
            try:
                self._open(path)
            except InvalidError:
                self.close()
                raise

    def missing(self, cells: Iterable[CellT]) -> list[CellT]:
        """Those that no row is of."""
        have = set(map(self._cell, self.rows))
        return [cell for cell in cells if cell not in have]

    def of(self, cells: Iterable[CellT]) -> list[RowT]:
        """The rows of these cells, in their order, whichever was done first."""
        have = {self._cell(row): row for row in self.rows}
        return [have[cell] for cell in cells if cell in have]

    def add(self, row: RowT) -> None:
        """Take a row in; it is in the file when this returns."""
        self.rows.append(row)
        values = msgspec.structs.asdict(row)
        for name in self._tuples:
            values[name] = " ".join(map(repr, values[name]))
        self._write({**self._identity, **values})

    def _cell(self, row: RowT) -> CellT:
        return self._cell_type(*(getattr(row, name) for name in self._cell_type.__struct_fields__))

    def close(self) -> None:
        """Let others have the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise self._foreign("it is no file")  # and a device might be read without end
        try:
            self._stream = path.open("a+", newline="", encoding="utf-8")
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._stream.seek(0)
            text = self._stream.read()
        except BlockingIOError as error:
            raise InvalidError(
                "another simulation writes to this file",
                source=str(path),
                hint="wait for it, or name another place with --output",
            ) from error
        except UnicodeDecodeError as error:
            raise self._foreign("it is no text") from error
        except OSError as error:
            raise self._unwritable(error) from error
        header = ",".join(self._columns) + "\n"
        if not text.endswith("\n") and header.startswith(text):
            self.torn = text != ""
            self._cut(0)
            self._write(dict(zip(self._columns, self._columns, strict=True)))
            return
        if not text.startswith(header):
            raise self._foreign("it does not begin with the columns of such a file")
        whole = text[: text.rindex("\n") + 1]
        if whole != text:
            self.torn = True
            self._cut(len(whole.encode()))
        self._read(whole)

    def _cut(self, size_bytes: int) -> None:
        assert self._stream is not None
        try:
            os.ftruncate(self._stream.fileno(), size_bytes)
        except OSError as error:
            raise self._unwritable(error) from error

    def _write(self, values: Mapping[str, object]) -> None:
        if self._stream is None:
            return
        line = io.StringIO()
        csv.DictWriter(line, self._columns, lineterminator="\n").writerow(values)
        try:
            # one write at the end of the file: a crash can tear the last line and no other
            data = line.getvalue().encode()
            if os.write(self._stream.fileno(), data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise self._unwritable(error) from error

    def _read(self, text: str) -> None:
        reader = csv.reader(io.StringIO(text, newline=""))
        next(reader)
        seen: dict[CellT, int] = {}
        for values in reader:
            line = reader.line_num
            if len(values) != len(self._columns):
                message = f"the line has {len(values)} columns instead of {len(self._columns)}"
                raise self._damaged(message, line)
            record = dict(zip(self._columns, values, strict=True))
            for name, expected in self._identity.items():
                if record.pop(name) != expected:
                    raise self._of_another(name, values[self._columns.index(name)], expected, line)
            row = self._row(record, line)
            cell = self._cell(row)
            if cell in seen:
                raise self._damaged(f"the run on line {seen[cell]} is here again", line)
            seen[cell] = line
            self.rows.append(row)

    def _row(self, record: Mapping[str, str], line: int) -> RowT:
        values: dict[str, object] = {name: value or None for name, value in record.items()}
        for name in self._tuples:
            values[name] = record[name].split()
        try:
            return msgspec.convert(values, self._row_type, strict=False)
        except msgspec.ValidationError as error:
            raise self._damaged(f"not a row of results: {error}", line) from error

    def _damaged(self, message: str, line: int) -> InvalidError:
        return InvalidError(
            message,
            source=str(self._path),
            line=line,
            hint="remove the line, and its run is simulated again; or name another place with "
            "--output",
        )

    def _of_another(self, name: str, found: str, expected: str, line: int) -> InvalidError:
        return InvalidError(
            f"the file holds results of other {name}: {found}; this is {expected}"
            if name in ("workflows", "sites")
            else f"the file holds results with another {name}: {found}; this is {expected}",
            source=str(self._path),
            line=line,
            hint="each grid wants a file of its own: name another one with --output",
        )

    def _foreign(self, why: str) -> InvalidError:
        return InvalidError(
            f"not a file of results: {why}",
            source=str(self._path),
            hint="nothing was changed in it; name another place with --output",
        )

    def _unwritable(self, error: OSError) -> InfeasibleError:
        return InfeasibleError(
            f"the results can't be written: {error.strerror}",
            source=str(self._path),
            hint="see to the folder, its permissions and the space there, or name another place "
            "with --output",
        )
