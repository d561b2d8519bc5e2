"""The stage *check* of a bag: parameters, the number of tasks, and templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import prod

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, Bag, Column, Progression
from wfrun.engine.tasks.bag import ESTIMATE_S, INDEX
from wfrun.engine.tasks.templates import TemplatePart, parse_template
from wfrun.parsers.bags.columns import MAX_VALUES, are_whole, columns_by_name, distinct
from wfrun.parsers.bags.draft import Refuse
from wfrun.parsers.bags.names import MAX_TEXT_BYTES, longest
from wfrun.parsers.bags.text import delimiter_hint
from wfrun.parsers.syntax.limits import (
    MAX_PRIORITY,
    cut,
    label_fault,
    request_fault,
    variable_fault,
)

_SHOWN = 12
"""Maximum number of parameters that a message lists."""


def check_bag(bag: Bag, refuse: Refuse) -> None:
    """Raise InvalidError for names and requests of a bag that exceed the limits of
    `wfrun.parsers.syntax.limits`."""
    labels = {
        "the name of the bag": bag.name,
        "its owner": bag.owner,
        "its application": bag.application,
        "its program": bag.executable.rsplit("/", 1)[-1],
    }
    for what, text in labels.items():
        if fault := label_fault(text):
            raise refuse(f"{what}, {cut(text)}, {fault}", text, "Rename it.")
    if fault := request_fault(bag.resources):
        raise refuse(f"each task asks for {fault}", "", "Ask for what a task needs.")
    for name, template in (bag.env or {}).items():
        if fault := variable_fault(name, template):
            raise refuse(f"its environment has {fault}", template, "Rename the variable.")
    if abs(bag.priority) > MAX_PRIORITY:
        raise refuse(f"its priority is not from -{MAX_PRIORITY} to {MAX_PRIORITY}", "")


def check_templates(bag: Bag, refuse: Refuse) -> dict[str, Column]:
    """Check parameters and templates; return the columns of all parameters by name.

    Raises InvalidError for parameters that are repeated, reserved or empty, for too many tasks, and
    for templates that name unknown parameters or have a format that does not fit the values.
    """
    _check_parameters(bag.axes, refuse)
    count = prod(map(len, bag.axes))
    if count > MAX_VALUES:
        raise refuse(
            f"the bag {bag.name!r} has {count:,} tasks: the product of "
            + " and ".join(f"{len(axis):,}" for axis in bag.axes),
            bag.axes[0].names[0],
            f"At most {MAX_VALUES:,} are possible. Parameters that vary together stand in a "
            "zip or in the rows of a table.",
        )
    columns = columns_by_name(bag.axes)
    for template in dict.fromkeys(_templates(bag)):
        _check_template(template, columns, refuse)
    return columns


def _check_parameters(axes: Iterable[Axis], refuse: Refuse) -> None:
    seen: set[str] = set()
    for axis in axes:
        for name, column in zip(axis.names, axis.columns, strict=True):
            if name in seen:
                raise refuse(f"the parameter {name!r} is repeated", name, "Rename one of them.")
            if name in (INDEX, ESTIMATE_S):
                meaning = "number of the task, from 0" if name == INDEX else "estimate in seconds"
                raise refuse(
                    f"{name!r} cannot be the name of a parameter",
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


def _check_template(template: str, columns: Mapping[str, Column], refuse: Refuse) -> None:
    try:
        parts = parse_template(template)
    except InvalidError as error:
        raise refuse(error.message, template, error.hint) from error
    _check_parts(parts, columns, template, refuse)
    length = longest(parts, columns)
    if length > MAX_TEXT_BYTES:
        raise refuse(
            f"{cut(template)} may become {length:,} bytes long",
            template,
            f"A text has at most {MAX_TEXT_BYTES:,} bytes. Pass long values in files.",
        )


def _check_parts(
    parts: Iterable[TemplatePart], columns: Mapping[str, Column], template: str, refuse: Refuse
) -> None:
    for part in parts:
        if part.name is None or part.name == INDEX:
            continue
        column = columns.get(part.name)
        if column is None:
            raise refuse(
                f"there is no parameter {part.name!r}, which {cut(template)} names",
                template,
                _nearest(part.name, [*columns, INDEX]),
            )
        if part.spec:
            _check_format(part, column, template, refuse)


def _check_format(part: TemplatePart, column: Column, template: str, refuse: Refuse) -> None:
    values = distinct(column)
    if isinstance(column, Progression) or are_whole(column):
        values = iter([next(values)])  # a format that fits one whole number fits all
    for value in values:
        try:
            part.formatted(value)
        except (ValueError, OverflowError):
            raise refuse(
                f"{value[:40]!r}, a value of the parameter {part.name!r}, cannot be written with "
                f"the format {part.spec!r} in {cut(template)}",
                template,
                "Formats d, x and o want whole numbers, e, f and g numbers; leave the format out "
                "to take values as they are.",
            ) from None


def _nearest(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, n=1)
    listed = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    hint = f"Did you mean {near[0]!r}?" if near else delimiter_hint(known)
    return (f"{hint} " if hint else "") + (
        f"Parameters: {listed}. Braces of the text itself are doubled: {{{{ and }}}}."
    )
