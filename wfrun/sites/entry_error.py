"""The error for a catalog entry that asks for something its site does not have."""

from __future__ import annotations

from wfrun.engine.errors import InfeasibleError


class EntryError(InfeasibleError):
    """A site does not have what its catalog entry asks for, such as a directory or a queue. ``key``
    is the catalog key at fault, by which the message names its line."""

    def __init__(self, message: str, *, key: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key
