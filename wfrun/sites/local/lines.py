"""Splits a stream of bytes into lines of bounded length."""

from __future__ import annotations

MAX_LINE_BYTES = 1 << 26
"""Maximum length of a line in bytes. The longest valid lines are answers about
``direct_launcher.QUESTION_KEYS`` attempts, each with a message."""
_SHOWN_BYTES = 200


class StreamLines:
    """Splits a stream into lines, in time proportional to its length.

    A line of more than ``max_bytes`` is truncated to its beginning, which its receiver finds
    invalid; the rest of the line is dropped on arrival.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream. Returns the completed lines, without newlines."""
        first, found, rest = data.partition(b"\n")
        lines = []
        if not self._dropping:
            self._pieces.append(first)
            self._bytes += len(first)
            if self._bytes > self._max_bytes:
                lines.append(b"".join(self._pieces)[:_SHOWN_BYTES] + "…".encode())
                self._pieces.clear()
                self._dropping = True
        if not found:
            return lines
        if not self._dropping:
            lines.append(b"".join(self._pieces))
        *whole, last = rest.split(b"\n")
        self._pieces, self._bytes, self._dropping = [last], len(last), False
        return lines + whole
