"""What the readers of bags return: a bag as it is written, and where its parts stand."""

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
        """``what``: the template or the name of the parameter that is wrong, as it is written."""


class BagDraft(msgspec.Struct, frozen=True):
    """A bag before its checks: its estimate may have a unit, its templates may be wrong."""

    bag: Bag
    refuse: Refuse
    lines: Mapping[str, int] = {}
    """The lines of its keys; under the empty key its first line. Empty: from a program."""


BagsReader = Callable[[Path, LineTemplate], list[BagDraft]]
"""Reads the bags of the document at a path, in its order."""
