"""Errors of four kinds with one base class. The kind tells callers how to react."""

from __future__ import annotations

from wfrun.engine.explain.visible import message_block


class WfrunError(Exception):
    """Base of all errors that are shown to users.

    ``message`` says what is wrong and where, ``hint`` what to do about it. ``str(error)`` is
    ``source:line: message``, followed by the hint on a line of its own. It is safe to print on a
    terminal: control characters are replaced, and the length is limited (`message_block`).
    """

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.source = source
        self.line = line
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        where = ""
        if self.source is not None:
            where = f"{self.source}:{self.line}: " if self.line is not None else f"{self.source}: "
        tail = f"\n  {self.hint}" if self.hint else ""
        return message_block(f"{where}{self.message}{tail}")


class TransientError(WfrunError):
    """The operation may succeed when it is retried."""


class InfeasibleError(WfrunError):
    """The operation is impossible at this site or with this request. Another site or another
    request may succeed."""


class NoSpaceError(InfeasibleError):
    """The destination's disk is full. A retry fails until somebody frees space."""


class InvalidError(WfrunError):
    """The user's input is wrong. Nothing was started."""


class LostError(WfrunError):
    """The outcome of the operation is unknown and must be determined before a retry."""
