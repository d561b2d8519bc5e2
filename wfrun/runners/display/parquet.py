"""Output of results as a Parquet file, with pyarrow (the extra ``parquet``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from wfrun.engine.errors import InfeasibleError
from wfrun.parsers.atomic import drafted
from wfrun.runners.display.extras import install_command


def check_parquet(path: Path) -> None:
    """Raise the errors that `write_parquet` would raise. Call it before computing the rows."""
    _pyarrow()
    if not path.parent.is_dir():
        raise InfeasibleError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InfeasibleError(
            f"{path} cannot be written", hint="check its permissions, or name another --output"
        )


def write_parquet(rows: Sequence[msgspec.Struct], identity: Mapping[str, str], path: Path) -> None:
    """Write a table with the columns of the CSV file (see `Results`) and with types: an empty value
    is null, several numbers are a list. An existing file is replaced atomically. ``rows`` has at
    least one row, and all rows have the same type.

    Raises InfeasibleError without pyarrow, or if the file cannot be written.
    """
    pyarrow = _pyarrow()
    from pyarrow import parquet

    fields = [(name, pyarrow.string()) for name in identity]
    fields += [(f.name, _type_of(f.type, pyarrow)) for f in msgspec.structs.fields(rows[0])]
    records = [{**identity, **msgspec.structs.asdict(row)} for row in rows]
    for name in (f.name for f in msgspec.structs.fields(rows[0]) if _has_words(f.type)):
        for record in records:
            record[name] = None if record[name] is None else str(record[name])
    table = pyarrow.Table.from_pylist(records, schema=pyarrow.schema(fields))
    try:
        with drafted(path) as stream:
            parquet.write_table(table, stream)
    except OSError as error:
        raise InfeasibleError(f"{path} cannot be written: {error}") from error


def _type_of(kind: Any, pyarrow: Any) -> Any:
    if get_origin(kind) is tuple:
        return pyarrow.list_(pyarrow.float64())
    if get_origin(kind) is Literal or _has_words(kind):
        return pyarrow.string()
    plain = next((arg for arg in get_args(kind) if arg is not type(None)), kind)
    types = {
        str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(),
        bool: pyarrow.bool_(),
    }  # fmt: skip
    return types[plain]


def _has_words(kind: Any) -> bool:
    """Whether a column can have words as well as numbers."""
    return any(get_origin(arg) is Literal for arg in get_args(kind))


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise InfeasibleError(
            "Parquet needs pyarrow",
            hint=f"install it: {install_command('pyarrow')}; or name the file .csv",
        ) from error
    return pyarrow
