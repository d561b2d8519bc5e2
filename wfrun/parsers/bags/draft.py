"""What the readers of bags return: a bag as it is written, and the places of its parts."""

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
        """``what`` is the wrong template, or the name of the wrong parameter, as it is written."""


class BagDraft(msgspec.Struct, frozen=True):
    """A bag before its checks: its estimate may have a unit, its templates may be wrong."""

    bag: Bag
    refuse: Refuse
    lines: Mapping[str, int] = {}
    """The line of each key, and under the empty key the first line of the bag. It is empty for a
    bag of a program."""


BagsReader = Callable[[Path, LineTemplate], list[BagDraft]]
"""Reads the bags of the document at a path, in its order."""
