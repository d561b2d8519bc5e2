"""Lines of a stream, of bounded length."""

from __future__ import annotations

MAX_LINE_BYTES = 1 << 26
"""Maximum length of a line. The longest answer QUESTION_KEYS questions with a message each."""
_SHOWN_BYTES = 200


class StreamLines:
    """Splits a stream into lines, in time proportional to its length.

    Of a line that is too long only the beginning is returned, once, so that its receiver finds it
    invalid; the rest is dropped on arrival.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; returns the lines that they complete, without their ends."""
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
