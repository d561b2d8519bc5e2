"""The size of a directory that is streamed as a tar archive. Source: POSIX.1-2017, XCU pax, "ustar
Interchange Format"; GNU tar 1.34 manual, "Extensions to the Archive Format" (sizes in base 256)."""

from __future__ import annotations

_BLOCK_BYTES = 512
_SIZE = slice(124, 136)
_FILES = frozenset(b"07\0")
"""Types of the entries that are regular files; NUL in archives older than POSIX."""


class TreeSize:
    """Sums up the sizes of the regular files of an archive from its stream."""

    def __init__(self) -> None:
        self.size_bytes = 0
        """Total of all files whose headers have been fed."""
        self._header = bytearray()
        self._skip_bytes = 0
        """Number of bytes until the next header."""

    def feed(self, data: bytes) -> None:
        """Take the next piece of the archive, of any length."""
        at = 0
        while at < len(data):
            if self._skip_bytes:
                step = min(self._skip_bytes, len(data) - at)
                self._skip_bytes -= step
            else:
                step = min(_BLOCK_BYTES - len(self._header), len(data) - at)
                self._header += data[at : at + step]
                if len(self._header) == _BLOCK_BYTES:
                    self._take(bytes(self._header))
                    self._header.clear()
            at += step

    def _take(self, header: bytes) -> None:
        size_bytes = _number(header[_SIZE])
        if header[156] in _FILES:
            self.size_bytes += size_bytes
        self._skip_bytes = -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    return int(digits, 8) if digits.isdigit() else 0
