"""Components of parallel jobs over several sites: the values of the key ``components``.

The converter raises ValueError with the end of a message; `Section.take` adds key and line.
"""

from __future__ import annotations

from typing import Any

from wfrun.engine.jobs.components import Component, Components
from wfrun.engine.jobs.sized import shaped
from wfrun.parsers.bags.values import to_name
from wfrun.parsers.syntax.sections import in_words, nearest, to_count

MAX_COMPONENTS = 1000
"""Maximum number of components of a split, and maximum number of splits of a job."""

_PART_KEYS = ("site", "size")
_BOUND_KEYS = ("most", "least")


def to_components(value: Any, size: int | None, ppn: int | None) -> Components:
    """Convert a list of components, a list of splits (each a list of components), or ``{most,
    least}``. ``size`` is the number of processors that the job states; if None, it is the sum of
    the components. Raises ValueError."""
    if isinstance(value, dict):
        return _flexible(value, size, ppn)
    if not isinstance(value, list):
        raise ValueError(
            f"it must be a list of sizes or of {{site, size}}, or {{most, least}}, "
            f"not {in_words(value)}"
        )
    if not value:
        raise ValueError("the list is empty")
    listed = value if any(isinstance(each, list) for each in value) else [value]
    if len(listed) > MAX_COMPONENTS:
        raise ValueError(f"it lists {len(listed):,} splits, at most {MAX_COMPONENTS:,}")
    splits = tuple(_split(each, ppn) for each in listed)
    whose = "the size of the job is"
    for split in splits:
        total = sum(component.size for component in split)
        if size is not None and total != size:
            raise ValueError(f"{_shown(split)} are {total} processors in all; {whose} {size}")
        if size is None:
            size, whose = total, f"{_shown(split)} are"
    assert size is not None, "there is a split"
    return Components(size, splits, ppn=ppn)


def _split(value: Any, ppn: int | None) -> tuple[Component, ...]:
    """Convert one split, that is, one way to divide a job into components. Raises ValueError."""
    if not isinstance(value, list):
        raise ValueError(f"in a list of splits each is a list of components, not {in_words(value)}")
    if not value:
        raise ValueError("a split is empty")
    if len(value) > MAX_COMPONENTS:
        raise ValueError(f"a split has {len(value):,} components, at most {MAX_COMPONENTS:,}")
    split = tuple(_component(each, ppn) for each in value)
    if len({component.site is None for component in split}) > 1:
        raise ValueError("some components have a site and some have none; give it to all or none")
    return split


def _component(value: Any, ppn: int | None) -> Component:
    site = None
    if isinstance(value, dict):
        for key in value:
            if key not in _PART_KEYS:
                hint = nearest(str(key), _PART_KEYS, "Keys")
                raise ValueError(f"a component has no key {str(key)!r}. {hint}")
        for key in _PART_KEYS:
            if key not in value:
                raise ValueError(f"a component has no {key!r}")
        site, value = to_name(value["site"]), value["size"]
    try:
        size = to_count(value)
    except ValueError as error:
        raise ValueError(f"the size of a component: {error}") from None
    if shaped(size, ppn) is None:
        raise ValueError(
            f"a component of {size} processors cannot be spread over nodes with {ppn} each"
        )
    return Component(size, site)


def _flexible(value: dict[Any, Any], size: int | None, ppn: int | None) -> Components:
    for key in value:
        if key not in _BOUND_KEYS:
            raise ValueError(
                f"it has no key {str(key)!r}. {nearest(str(key), _BOUND_KEYS, 'Keys')}"
            )
    if size is None:
        raise ValueError("the job needs a 'size', which is divided into components")
    bounds: dict[str, int] = {}
    for key, bound in value.items():
        try:
            bounds[key] = to_count(bound)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    unit = ppn or 1
    if size % unit:
        raise ValueError(f"{size} processors cannot be divided over nodes with {ppn} each")
    least = -(-bounds.get("least", 1) // unit) * unit
    if least > size:
        raise ValueError(f"components of at least {least} processors; the job has {size} in all")
    return Components(size, most=bounds.get("most"), least=least, ppn=ppn)


def _shown(split: tuple[Component, ...]) -> str:
    """The sizes of the first components of a split, for messages."""
    sizes = [str(component.size) for component in split[:5]]
    return " + ".join([*sizes, "…"] if len(split) > 5 else sizes)
