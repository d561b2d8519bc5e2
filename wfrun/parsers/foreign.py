"""Numbers in foreign text: answers of sites, batch systems and servers, and documents.

`int` raises ValueError for ``²``, although `str.isdigit` accepts it, and for more than 4,300
digits. Numbers above 64 bits fit neither the log nor a file. `tools/check_foreign_numbers.py`
checks that no other module converts such text.
"""

from __future__ import annotations

import re
from typing import TypeVar, overload

MAX_DIGITS = 18
"""Maximum number of digits of a number: all such numbers fit 64 bits."""
_WHOLE = re.compile(rf"-?[0-9]{{1,{MAX_DIGITS}}}")
_DECIMAL = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}(?:\.[0-9]{{1,{MAX_DIGITS}}})?")

T = TypeVar("T")


@overload
def number_of(text: str | bytes | None, *, signed: bool = False) -> int | None: ...
@overload
def number_of(text: str | bytes | None, otherwise: T, *, signed: bool = False) -> int | T: ...
def number_of(
    text: str | bytes | None, otherwise: T | None = None, *, signed: bool = False
) -> int | T | None:
    """The whole number that ``text`` states. Returns ``otherwise`` if the text is not a whole
    number, if it has more than MAX_DIGITS digits, or if the number is negative and ``signed`` is
    false."""
    if isinstance(text, bytes):
        text = text.decode("ascii", "replace")
    if text is None or not _WHOLE.fullmatch(text) or (text[0] == "-" and not signed):
        return otherwise
    return int(text)


def decimal_of(text: str | None) -> float | None:
    """The decimal number that ``text`` states, such as ``2`` or ``0.5``. None if the text is not a
    decimal number, or has more than MAX_DIGITS digits before or after the point."""
    return float(text) if text is not None and _DECIMAL.fullmatch(text) else None
