"""The stage *resolve* of a bag: its estimate in seconds."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from wfrun.engine.model import Bag, Column, Progression
from wfrun.engine.tasks.bag import ESTIMATE_S, INDEX
from wfrun.engine.tasks.templates import parse_template
from wfrun.parsers.bags.columns import MAX_LISTED, column_like, distinct, last_of
from wfrun.parsers.bags.draft import Refuse
from wfrun.parsers.syntax.limits import MAX_SECONDS, cut
from wfrun.parsers.syntax.units import parse_duration


def in_seconds(bag: Bag, columns: Mapping[str, Column], refuse: Refuse) -> Bag:
    """Turn the estimate into a template that gives plain seconds.

    If the values of its parameter are not plain seconds, a column of seconds is added beside the
    parameter. Raises InvalidError for an estimate that is not a time, is below 0 or above
    `MAX_SECONDS`, or names several parameters.
    """
    if bag.estimate is None:
        return bag
    template = bag.estimate
    parts = parse_template(template)
    named = [part for part in parts if part.name is not None]
    if len(named) > 1:
        raise refuse(
            f"the estimate {cut(template)} names more than one parameter",
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
        ends = (column.start, last_of(column))
        if min(ends) < 0:
            raise refuse(f"an estimate, {name}, is below 0", template)
        if max(ends) > MAX_SECONDS * 10**column.decimals:
            raise refuse(f"an estimate, {name}, is more than {MAX_SECONDS:,.0f} s", template)
        return bag
    if plain and _are_numbers(column):
        return bag

    if isinstance(column, Progression) and len(column) > MAX_LISTED:
        raise refuse(
            f"the estimate {cut(template)} has more than {MAX_LISTED:,} values",
            template,
            "Name the parameter alone, which then states seconds.",
        )

    def seconds(value: str) -> str:
        written = "".join(p.literal + (p.formatted(value) if p.name else "") for p in parts)
        return repr(_seconds(written, template, refuse))

    return _with_seconds(bag, name, column_like(column, seconds))


def _are_numbers(column: Column) -> bool:
    """Whether all values are plain numbers of seconds within the limit."""
    try:
        return all(0 <= float(value) <= MAX_SECONDS for value in distinct(column))  # NaN is not
    except ValueError:
        return False


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
        raise refuse(f"the estimate {text!r} is below 0", template)
    if seconds > MAX_SECONDS:
        raise refuse(f"the estimate {cut(text)} is more than {MAX_SECONDS:,.0f} s", template)
    return seconds
