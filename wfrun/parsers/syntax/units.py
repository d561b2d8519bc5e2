"""Sizes, bandwidths and durations as people write them.

Prefixes follow the IEC and SI standards (IEC 80000-13): ``kB MB GB TB PB`` are powers of 1000,
``KiB MiB GiB TiB PiB`` powers of 1024. A lone ``G`` is refused, because batch systems disagree
about its meaning. Bytes are ``B``, bits ``b``. The functions raise ValueError with a message that
states the valid forms.
"""

from __future__ import annotations

import math
import re

_DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES = {"": 1.0, **_DECIMAL, **_BINARY}
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z/]*)", re.ASCII)
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)", re.ASCII)


def parse_size(value: object) -> int:
    """Convert ``8 GiB``, ``1.5 MB`` or a bare number to bytes, rounded to whole bytes."""
    hint = "write a number of bytes, or one with kB, MB, GB, TB or KiB, MiB, GiB, TiB"
    number, unit = _quantity(value, hint)
    if unit and (not unit.endswith("B") or unit[:-1] not in _PREFIXES):
        raise ValueError(f"{value!r} is no size; {hint}")
    return round(_scaled(number, _PREFIXES[unit[:-1]], value, hint))


def parse_bandwidth(value: object) -> float:
    """Convert ``185 MB/s``, ``10 Gb/s`` (bits) or a bare number to bytes per second."""
    hint = "write a number of bytes per second, or one with MB/s, GB/s, MiB/s or (bits) Mb/s, Gb/s"
    number, unit = _quantity(value, hint)
    match = re.fullmatch(r"(\w*)([Bb])(?:it)?/s", unit)
    if unit and (match is None or match[1] not in _PREFIXES):
        raise ValueError(f"{value!r} is no bandwidth; {hint}")
    if match is None:
        return number
    return _scaled(number, _PREFIXES[match[1]] / (8 if match[2] == "b" else 1), value, hint)


def parse_duration(value: object) -> float:
    """Convert ``90 min``, ``2 h``, ``0.4 ms``, ``24:00:00``, ``1-12:00:00`` or a bare number to
    seconds.

    The clock forms are [days-]hours:minutes:seconds. ``1:30`` is refused, since it may mean an hour
    and a half or ninety seconds.
    """
    hint = "write seconds, a number with ms, s, min, h or d, HH:MM:SS or D-HH:MM:SS"
    clock = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    if clock is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    number, unit = _quantity(value, hint)
    if unit and unit not in _SECONDS:
        raise ValueError(f"{value!r} is no duration; {hint}")
    return _scaled(number, _SECONDS[unit or "s"], value, hint)


def _quantity(value: object, hint: str) -> tuple[float, str]:
    """Split into the number and the unit, which is empty for a bare number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _scaled(value, 1.0, value, hint), ""
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} cannot be understood; {hint}")
    return _scaled(float(match[1]), 1.0, value, hint), match[2]


def _scaled(number: float, factor: float, value: object, hint: str) -> float:
    try:
        scaled = number * factor
    except OverflowError:
        scaled = math.inf
    if not math.isfinite(scaled):
        raise ValueError(f"{value!r} is out of range; {hint}")
    return scaled
