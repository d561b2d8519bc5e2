"""Sizes of files as text."""

from __future__ import annotations

_UNITS = ("kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def size_text(size_bytes: float) -> str:
    """Return a size as text with a suitable unit, such as ``1.5 GB``."""
    if size_bytes < _STEP:
        return f"{size_bytes:.0f} B"
    power = 0
    while round(size_bytes, 1) >= _STEP and power < len(_UNITS):
        size_bytes /= _STEP
        power += 1
    return f"{size_bytes:.1f}".removesuffix(".0") + f" {_UNITS[power - 1]}"
