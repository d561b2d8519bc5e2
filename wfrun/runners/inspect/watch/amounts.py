"""Amounts of bytes for people."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(size_bytes: float) -> str:
    """``0 B``, ``999 B``, ``1.5 kB``, ``12 GB``: two digits or more, powers of 1000."""
    for unit in _UNITS:
        if size_bytes < 999.5 or unit == _UNITS[-1]:
            digits = 1 if size_bytes < 9.95 and unit != "B" else 0
            return f"{size_bytes:.{digits}f} {unit}"
        size_bytes /= 1000
    raise AssertionError
