"""The error for an entry of the catalog that its site does not agree with."""

from __future__ import annotations

from wfrun.engine.errors import InfeasibleError


class EntryError(InfeasibleError):
    """A site does not have what its entry in the catalog asks for. ``key`` is the catalog key, so
    that the message can name its line."""

    def __init__(self, message: str, *, key: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key
