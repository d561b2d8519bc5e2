"""Copies of files between sites: one file a transfer method, and the registry of methods.

A new method is a class with the methods of ``TransferMethod`` in a file of its own, and one line
in ``METHODS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wfrun.engine.model import LinkSpec
from wfrun.sites.transfers.gridftp import GridFtp
from wfrun.sites.transfers.local_copy import LocalCopy
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.stream import Stream

METHODS: dict[str, Callable[[Sequence[LinkSpec]], TransferMethod]] = {
    "copy": LocalCopy,
    "gridftp": lambda links: GridFtp(),
    "stream": lambda links: Stream(),
}
"""Constructors by name, given the links of the catalog. In order of preference: a file goes by the
first method that can carry it; ``stream`` carries between any two sites."""
