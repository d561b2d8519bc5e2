"""Checks of the types in records that a Python program makes, since `msgspec` checks types only
when it reads documents.

Values are not checked here, but together with the values of documents, by the same rules.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from inspect import formatannotation
from pathlib import Path
from reprlib import repr as short
from typing import Any

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import File, Task, Workflow

FUNCTIONS = (
    "for calls of Python functions make a `wfrun.FunctionWorkflow(name, module)`, or a "
    "`wfrun.function_bag(name, module, function)`"
)
"""Hint of the error for a function given in place of a program."""
_BY_NUMBER = {"inputs", "outputs", "optional", "stdin", "stdout", "stderr"}
"""Fields of tasks that refer to files by number."""
_REFUSED = (TypeError, ValueError, OverflowError, RecursionError)
"""Exceptions of msgspec for values that it does not know, or that have another type."""


def check_document(document: object) -> Path | Workflow:
    """The document that a Python program gives: a path or a workflow. Raises InvalidError for
    another object, and for a workflow with a record in which a value has another type than
    declared."""
    if isinstance(document, (str, os.PathLike)):
        return Path(document)
    if not isinstance(document, Workflow):
        raise InvalidError(
            f"{short(document)} is neither the path of a document nor a wfrun.Workflow",
            hint=FUNCTIONS
            if callable(document)
            else "several documents are several arguments; tasks belong into a "
            "`wfrun.Workflow(name, source, tasks, files, parents)`",
        )
    source = document.source if isinstance(document.source, str) else ""
    if document.bag is not None:  # its tasks are made of it
        check_record(document.bag, "the bag", source)
        return document
    whole = msgspec.structs.replace(document, tasks=(), files=(), parents=list(document.parents))
    check_record(whole, "the workflow", source)
    _check_all(document.tasks, Task, "task", source)
    _check_all(document.files, File, "file", source)
    return document


def _check_all(records: Sequence[object], kind: type, what: str, source: str) -> None:
    for number, record in enumerate(records):
        if not isinstance(record, kind):
            raise InvalidError(
                f"{what} {number} is {short(record)}, and no wfrun.{kind.__name__}",
                source=source or None,
                hint=FUNCTIONS if callable(record) else None,
            )
        check_record(record, f"{what} {number}", source)


def check_record(record: Any, what: str, source: str) -> None:
    """Raise InvalidError for the first field of a record whose value does not have the declared
    type. A list is accepted where a tuple is declared."""
    if _is_exact(record):
        return
    for field in msgspec.structs.fields(record):
        value = getattr(record, field.name)
        found = _fault(value, field.type)
        if found is None:
            continue
        if _has_function(value):
            hint = FUNCTIONS
        elif isinstance(record, Task) and field.name in _BY_NUMBER:
            hint = "write the positions of the files in the `files` of the workflow, from 0"
        else:
            hint = f"write a value of type {formatannotation(field.type)}"
        name = getattr(record, "id", None) or getattr(record, "name", None)
        where = f"{what} {name!r}" if isinstance(name, str) else what
        raise InvalidError(
            f"{where}: {field.name} is {short(value)}{found}", source=source or None, hint=hint
        )


def names_of(key: str, names: object, source: str) -> list[tuple[str, str | None]]:
    """(name, place or None) of each file in ``names``. Raises InvalidError unless ``names`` is an
    iterable of names or paths, or a mapping from names to places."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidError(
            f"{key} is {short(names)}", source=source, hint="write a list of names of files"
        )
    try:
        if isinstance(names, Mapping):
            return [(os.fspath(name), os.fspath(place)) for name, place in names.items()]
        return [(os.fspath(name), None) for name in names]
    except TypeError as error:
        raise InvalidError(
            f"{key}: {error}", source=source, hint="write names of files as text"
        ) from None


def _is_exact(record: msgspec.Struct) -> bool:
    """Whether all values certainly have the declared types. This test is fast and passes most
    records; a record that fails it is checked field by field."""
    try:
        built = msgspec.to_builtins(record, builtin_types=(bytes,))
        return msgspec.convert(built, type(record), builtin_types=(bytes,)) == record
    except _REFUSED:
        return False


def _fault(value: object, declared: Any) -> str | None:
    """The end of a message about a value that does not have the declared type; None if it has that
    type."""
    try:
        built = msgspec.to_builtins(value, builtin_types=(bytes,))
        converted = msgspec.convert(built, declared, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        return f": {error}"
    except _REFUSED:
        return ""
    return _other_record(value, converted)


def _other_record(value: object, converted: object) -> str | None:
    """The end of a message if ``value``, or a value inside it, is not a record of the same class as
    its counterpart in ``converted``; otherwise None. ``converted`` is the result of converting
    ``value`` to its declared type."""
    if isinstance(converted, msgspec.Struct):
        wanted = type(converted)
        return None if isinstance(value, wanted) else f": expected a {wanted.__name__}"
    if isinstance(converted, dict) and isinstance(value, dict):
        value, converted = list(value.values()), list(converted.values())
    if isinstance(converted, (list, tuple)) and isinstance(value, (list, tuple)):
        pairs = zip(value, converted, strict=True)
        return next((found for pair in pairs if (found := _other_record(*pair))), None)
    return None


def _has_function(value: object) -> bool:
    return callable(value) or (isinstance(value, (list, tuple)) and any(map(callable, value)))
