"""What the readers of bags return: bags as their documents write them, and the lines of their
parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Bag
from wfrun.parsers.bags.line_template import LineTemplate


class Refuse(Protocol):
    """Makes the error for a part of a document."""

    def __call__(self, message: str, what: str, hint: str | None = None) -> InvalidError:
        """Make the error. ``what`` is the faulty template or the name of the faulty parameter,
        exactly as the document has it."""


class BagDraft(msgspec.Struct, frozen=True):
    """A bag before its checks: its estimate may have a unit, its templates may be wrong."""

    bag: Bag
    refuse: Refuse
    lines: Mapping[str, int] = {}
    """The line of each key; the empty key has the first line of the bag. The mapping is empty for a
    bag that a Python program describes."""


BagsReader = Callable[[Path, LineTemplate], list[BagDraft]]
"""Reads the bags of the document at a path, in the order of the document."""
