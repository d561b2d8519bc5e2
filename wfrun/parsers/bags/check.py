"""What all bags have to keep, whatever document they come from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches

from msgspec.structs import replace

from wfrun.engine.bag import ESTIMATE_S, INDEX, expand
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, Bag, Column, Progression, Workflow
from wfrun.engine.templates import Part, parse_template
from wfrun.parsers.bags.columns import (
    MOST_VALUES,
    are_whole,
    column_like,
    columns_by_name,
    distinct,
    last_of,
)
from wfrun.parsers.bags.names import check_names
from wfrun.parsers.bags.refuse import Refuse
from wfrun.parsers.units import parse_duration

_SHOWN = 12


def checked(bag: Bag, refuse: Refuse) -> Workflow:
    """The bag, expanded when its tasks are asked for. Its estimate becomes one in seconds.

    Raises InvalidError for templates that name parameters that there are not or give them a format
    that they have not, for too many tasks, for file names that leave the sandbox or that two
    outputs have, and for an estimate that is no time.
    """
    _check_parameters(bag.axes, refuse)
    if len(bag) > MOST_VALUES:
        raise refuse(
            f"the bag {bag.name!r} has {len(bag):,} tasks: the product of "
            + " and ".join(f"{len(axis):,}" for axis in bag.axes),
            bag.axes[0].names[0],
            f"At most {MOST_VALUES:,} are possible. Parameters that vary together stand in a "
            "zip or in the rows of a table.",
        )
    columns = columns_by_name(bag.axes)
    for template in dict.fromkeys(_templates(bag)):
        _check_template(template, columns, refuse)
    bag = _in_seconds(bag, columns, refuse)
    check_names(bag, refuse)
    return expand(bag)


def _check_parameters(axes: Iterable[Axis], refuse: Refuse) -> None:
    seen: set[str] = set()
    for axis in axes:
        for name, column in zip(axis.names, axis.columns, strict=True):
            if name in seen:
                raise refuse(f"the parameter {name!r} is there twice", name, "Rename one of them.")
            if name in (INDEX, ESTIMATE_S):
                meaning = "number of the task, from 0" if name == INDEX else "estimate in seconds"
                raise refuse(
                    f"{name!r} can't be the name of a parameter",
                    name,
                    f"It is the {meaning}. Rename the parameter.",
                )
            if not len(column):
                raise refuse(
                    f"the parameter {name!r} has no values: the product is empty",
                    name,
                    "Give it at least one value, or leave it out.",
                )
            seen.add(name)


def _templates(bag: Bag) -> Iterable[str]:
    yield bag.executable
    yield from bag.arguments
    for file in (*bag.inputs, *bag.outputs):
        yield file.name
        if file.url is not None:
            yield file.url
    yield from (bag.env or {}).values()
    if bag.estimate is not None:
        yield bag.estimate


def _check_template(template: str, columns: dict[str, Column], refuse: Refuse) -> None:
    for part in parts_of(template, refuse):
        if part.name is None or part.name == INDEX:
            continue
        column = columns.get(part.name)
        if column is None:
            raise refuse(
                f"there is no parameter {part.name!r}, which {_shown(template)} names",
                template,
                _nearest(part.name, [*columns, INDEX]),
            )
        if part.spec:
            _check_format(part, column, template, refuse)


def parts_of(template: str, refuse: Refuse) -> tuple[Part, ...]:
    """As `parse_template`, with where the template stands."""
    try:
        return parse_template(template)
    except InvalidError as error:
        raise refuse(error.message, template, error.hint) from error


def _check_format(part: Part, column: Column, template: str, refuse: Refuse) -> None:
    values = distinct(column)
    if isinstance(column, Progression) or are_whole(column):
        values = iter([next(values)])  # what goes for one of them goes for all
    for value in values:
        try:
            part.formatted(value)
        except (ValueError, OverflowError):
            raise refuse(
                f"{value[:40]!r}, a value of the parameter {part.name!r}, can't be written with "
                f"the format {part.spec!r} in {_shown(template)}",
                template,
                "Formats d, x and o want whole numbers, e, f and g numbers; leave the format out "
                "to take values as they are.",
            ) from None


def _nearest(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, n=1)
    listed = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    return (f"Did you mean {near[0]!r}? " if near else "") + (
        f"Parameters there are: {listed}. Braces of the text itself are doubled: {{{{ and }}}}."
    )


def _shown(template: str) -> str:
    return repr(template if len(template) <= 80 else template[:77] + "...")


# The estimate


def _in_seconds(bag: Bag, columns: dict[str, Column], refuse: Refuse) -> Bag:
    """The estimate as a template that gives plain seconds. One of a parameter whose values have
    units gets a column of seconds beside it."""
    if bag.estimate is None:
        return bag
    template = bag.estimate
    parts = parts_of(template, refuse)
    named = [part for part in parts if part.name is not None]
    if len(named) > 1:
        raise refuse(
            f"the estimate {_shown(template)} names more than one parameter",
            template,
            "Give one time, or a parameter that holds it.",
        )
    if not named:
        text = "".join(part.literal for part in parts)
        return replace(bag, estimate=repr(_seconds(text, template, refuse)))
    name = named[0].name
    assert name is not None
    if name == INDEX:
        raise refuse("the number of a task is no estimate of its time", template)
    column = columns[name]
    plain = template == f"{{{name}}}"
    if plain and isinstance(column, Progression):
        if min(column.start, last_of(column)) < 0:
            raise refuse(f"an estimate, {name}, is below zero", template)
        return bag
    if plain and _are_numbers(column):
        return bag

    def seconds(value: str) -> str:
        written = "".join(p.literal + (p.formatted(value) if p.name else "") for p in parts)
        return repr(_seconds(written, template, refuse))

    return _with_seconds(bag, name, column_like(column, seconds))


def _are_numbers(column: Column) -> bool:
    """Whether all values are plain numbers of seconds."""
    try:
        numbers = [float(value) for value in distinct(column)]
    except ValueError:
        return False
    return min(numbers) >= 0 and math.isfinite(max(numbers))


def _with_seconds(bag: Bag, name: str, seconds: Column) -> Bag:
    axes = [
        replace(axis, names=(*axis.names, ESTIMATE_S), columns=(*axis.columns, seconds))
        if name in axis.names
        else axis
        for axis in bag.axes
    ]
    return replace(bag, axes=tuple(axes), estimate=f"{{{ESTIMATE_S}}}")


def _seconds(text: str, template: str, refuse: Refuse) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise refuse(f"the estimate is no time: {error}", template) from None
    if seconds < 0:
        raise refuse(f"the estimate {text!r} is below zero", template)
    return seconds
