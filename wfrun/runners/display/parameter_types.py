"""Types of parameters. A parameter is a number if all its values are written as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wfrun.engine.model import Bag, Column, Progression
from wfrun.parsers.bags.columns import columns_by_name, distinct

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
"""Whole numbers of 64 bits. Leading zeros are part of a name, such as ``007``."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)?(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)


def parameter_types(bags: Iterable[Bag]) -> dict[str, type]:
    """The type of each parameter of the bags: int, float or str. Empty values are ignored."""
    columns: dict[str, list[Column]] = {}
    for bag in bags:
        for name, column in columns_by_name(bag.axes).items():
            columns.setdefault(name, []).append(column)
    return {name: _type_of(each) for name, each in columns.items()}


def _type_of(columns: Iterable[Column]) -> type:
    kinds = {kind for column in columns for kind in _kinds(column)}
    if not kinds or str in kinds:
        return str
    return float if float in kinds else int


def _kinds(column: Column) -> set[type]:
    """The types of the values of a column. A value that is no number makes the whole column
    text."""
    if isinstance(column, Progression):
        return {float if column.decimals else int}
    kinds: set[type] = set()
    for value in distinct(column):
        if _WHOLE.fullmatch(value):
            kinds.add(int)
        elif value and not (_NUMBER.fullmatch(value) and value[-1] in "0123456789"):
            return {str}
        elif value:
            kinds.add(float)
    return kinds
