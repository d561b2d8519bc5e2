"""What to ask a batch system, once, to learn what it offers. Nothing here runs anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from wfrun.sites.batch.offers import Offer

ANY = re.compile("")


class Survey(NamedTuple):
    """Commands for the head node, and what their outputs mean."""

    probe: tuple[str, ...]
    """A cheap command that succeeds where this batch system is installed; prints its version."""
    needed: Mapping[str, tuple[str, ...]]
    """Commands without whose answers there is no offer."""
    wanted: Mapping[str, tuple[str, ...]]
    """Commands that many sites do not answer."""
    read: Callable[[Mapping[str, str]], Offer]
    """The offer from the outputs, by name; that of a command that failed is empty. Raises
    QueueUnknownError."""
    version: re.Pattern[str] = ANY
    """Found in the probe's output; where it is not, another system with the same commands has
    answered."""
