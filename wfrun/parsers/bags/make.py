"""Bags that a Python program describes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, Bag, BagFile, Column, Resources, Workflow
from wfrun.engine.tasks.templates import NAME
from wfrun.parsers.bags.build import build_bag
from wfrun.parsers.bags.columns import ColumnMaker, progression
from wfrun.parsers.bags.draft import BagDraft
from wfrun.parsers.bags.values import to_text, words_of
from wfrun.parsers.containers import to_container
from wfrun.parsers.record_types import FUNCTIONS, check_record, names_of

Scalar = str | int | float
Values = Iterable[Scalar] | Iterable[Sequence[Scalar]]
Files = Iterable[str] | Mapping[str, str]

MAX_POINTS = 10_000_000
"""Maximum number of values that are taken from an iterable; a ``range`` may have more."""
_CHUNK = 8192


def bag(
    name: str,
    command: str | Sequence[str],
    *,
    parameters: Mapping[str | tuple[str, ...], Values] | None = None,
    points: Iterable[Mapping[str, Any]] | None = None,
    inputs: Files = (),
    outputs: Files = (),
    stdin: str | None = None,
    stdout: str | None = None,
    stderr: str | None = None,
    env: Mapping[str, str] | None = None,
    estimate: str | float | None = None,
    resources: Resources = Resources(),  # noqa: B008
    container: str | Mapping[str, Any] | None = None,
    owner: str = "",
    application: str = "",
    priority: int = 0,
) -> Workflow:
    """Make a bag of tasks: all combinations of its parameters, the last varying fastest.

    ``command``, file names, ``env`` and ``estimate`` (seconds, or with a unit) are templates that
    may contain ``{parameter}``. A command given as one text is split as a shell does. The values of
    a parameter are an iterable. If a key has several names, its values are tuples whose elements
    vary together. ``points`` are mappings with the same keys, one for each combination. Values and
    points are read at once and kept as compact columns. ``inputs`` are names in the sandbox, or a
    mapping from names to paths; ``outputs`` are names in the sandbox, or a mapping to names in the
    run's outputs. The other arguments are those of docs/bags.md.

    Raises InvalidError for any fault that would be one in a document, and for iterables of more
    than `MAX_POINTS` values.
    """

    def refuse(message: str, what: str, hint: str | None = None) -> InvalidError:
        return InvalidError(message, source=name, hint=hint)

    if callable(command) or any(map(callable, command)):
        raise refuse("the command is, or has, a function", "", FUNCTIONS)
    try:
        words = words_of(command) if isinstance(command, str) else tuple(map(to_text, command))
        shown = None if estimate is None else to_text(estimate)
        if container is not None:
            resources = replace(resources, container=to_container(container))
    except ValueError as error:
        raise refuse(str(error), "") from None
    if not words or not words[0]:
        raise refuse("the command is empty", "")
    axes = [] if points is None else [_points(points, refuse)]
    axes += [_axis(key, values, refuse) for key, values in (parameters or {}).items()]
    read = [BagFile(*each) for each in names_of("inputs", inputs, name)]
    written = [BagFile(*each) for each in names_of("outputs", outputs, name)]
    for stream, files in ((stdin, read), (stdout, written), (stderr, written)):
        if stream is not None and all(file.name != stream for file in files):
            files.append(BagFile(stream))
    made = Bag(
        name=name,
        source=name,
        executable=words[0],
        arguments=words[1:],
        axes=tuple(axes),
        inputs=tuple(read),
        outputs=tuple(written),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=dict(env) if env else None,
        resources=resources,
        estimate=shown,
        owner=owner,
        application=application,
        priority=priority,
    )
    check_record(made, "the bag", name)
    return build_bag(BagDraft(made, refuse))


_Refuse = Callable[[str, str], InvalidError]


def _axis(key: str | tuple[str, ...], values: Values, refuse: _Refuse) -> Axis:
    names = (key,) if isinstance(key, str) else tuple(key)
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise refuse(f"{name!r} cannot be the name of a parameter", str(name))
    if isinstance(values, str):
        raise refuse(f"the values of {names[0]!r} are text; give a list of them", names[0])
    if isinstance(values, range) and isinstance(key, str):
        if not len(values):
            raise refuse(f"the parameter {key!r} has no values: the product is empty", key)
        column: Column = progression(values[0], None, values.step, len(values))
        return Axis(names, (column,))
    rows = ((value,) for value in values) if isinstance(key, str) else iter(values)
    return Axis(names, _columns(names, rows, refuse))  # type: ignore[arg-type]


def _points(points: Iterable[Mapping[str, Any]], refuse: _Refuse) -> Axis:
    rest = iter(points)
    first = next(rest, None)
    if first is None:
        raise refuse("there are no points: the product is empty", "")
    names = tuple(first)

    def rows() -> Iterator[tuple[Scalar, ...]]:
        yield tuple(first.values())
        for number, point in enumerate(rest, 1):
            if len(point) != len(names) or any(name not in point for name in names):
                raise refuse(
                    f"point {number} has the keys {', '.join(map(str, point))}, but the first one "
                    f"{', '.join(map(str, names))}",
                    "",
                )
            yield tuple([point[name] for name in names])

    return Axis(names, _columns(names, rows(), refuse))


def _columns(
    names: tuple[str, ...], rows: Iterator[Sequence[Scalar]], refuse: _Refuse
) -> tuple[Column, ...]:
    makers = [ColumnMaker() for _ in names]
    try:
        while chunk := list(islice(rows, _CHUNK)):
            texts = [[to_text(value) for value in column] for column in zip(*chunk, strict=True)]
            for maker, column in zip(makers, texts, strict=True):
                maker.add(column)
            if len(makers[0]) > MAX_POINTS:
                raise refuse(
                    f"{names[0]!r} has more than {MAX_POINTS:,} values, or no end", names[0]
                )
    except ValueError as error:
        raise refuse(f"a value of {', '.join(names)}: {error}", names[0]) from None
    return tuple(maker.column() for maker in makers)
