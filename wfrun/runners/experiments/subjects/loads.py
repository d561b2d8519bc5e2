"""The values of ``--load`` of ``wfrun simulate``."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from wfrun.engine.errors import InvalidError

STEP = Decimal("0.15")
"""Default step of a range ``from:to``."""
MOST = 100
"""Maximum number of values of a range."""
_HINT = "write 0.2,0.6 or 0.2:0.95 or 0.2:0.95:0.05"


def loads_of(text: str | None) -> tuple[float, ...] | None:
    """Read a list of loads with commas between them: numbers above 0, and ranges ``from:to`` or
    ``from:to:step`` that include both ends. None gives None. Raises InvalidError if the list is
    malformed."""
    if text is None:
        return None
    loads: list[float] = []
    for word in text.split(","):
        loads += _range(word.strip(), text)
    return tuple(dict.fromkeys(loads))


def _range(word: str, text: str) -> list[float]:
    try:
        first, *rest = (Decimal(number) for number in word.split(":"))
    except InvalidOperation:
        raise InvalidError(
            f"--load has {text!r}: {word!r} is neither a number nor a range of numbers",
            hint=_HINT,
        ) from None
    last = rest[0] if rest else first
    step = rest[1] if len(rest) == 2 else STEP
    if len(rest) > 2 or not all(n.is_finite() and n > 0 for n in (first, last, step)):
        raise InvalidError(
            f"--load has {text!r}: loads and steps are numbers above 0, as 0.6 for 60%",
            hint=_HINT,
        )
    if last < first or (last - first) / step >= MOST:
        raise InvalidError(
            f"--load has {text!r}: the range {word} has no or too many numbers",
            hint=f"a range goes up, in less than {MOST} steps",
        )
    return [float(first + n * step) for n in range(int((last - first) / step) + 1)]
