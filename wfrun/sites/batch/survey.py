"""The commands that show what a batch system offers. Nothing here runs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from wfrun.sites.batch.offers import Offer

_ANY = re.compile("")


class Survey(NamedTuple):
    """Commands for the head node, by name, and the parser of their outputs."""

    probe: tuple[str, ...]
    """A cheap command that prints the version, and succeeds only if the system is installed."""
    needed: Mapping[str, tuple[str, ...]]
    """Commands that must succeed."""
    wanted: Mapping[str, tuple[str, ...]]
    """Commands that may fail: many sites lack them or forbid them to users."""
    read: Callable[[Mapping[str, str]], Offer]
    """Parses the outputs, by name; the output of a failed command is empty. Raises
    QueueUnknownError."""
    version: re.Pattern[str] = _ANY
    """Pattern that the output of ``probe`` must contain. Otherwise another batch system, with
    commands of the same names, has answered."""
