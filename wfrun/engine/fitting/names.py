"""Look-up of registered entries by the names that users type."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from wfrun.engine.errors import InvalidError

T = TypeVar("T")


def look_up(registry: Mapping[str, T], name: str, what: str) -> T:
    """The entry with this name. Raises InvalidError for an unknown name; its hint suggests the most
    similar name. ``what``: kind of the entry, for the message."""
    found = registry.get(name)
    if found is None:
        # Papers write names in capitals and with subscripts: MPL, LBal_S.
        near = get_close_matches(name.lower().replace("_", "-"), registry, n=1)
        raise InvalidError(
            f"there is no {what} {name!r}",
            hint=(f"did you mean {near[0]!r}? " if near else "")
            + "available: "
            + ", ".join(registry),
        )
    return found
