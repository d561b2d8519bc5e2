"""The key ``optional`` of a bag: how many of its tasks must be done, and until when the others are
run; see docs/optional.md."""

from __future__ import annotations

import re
from typing import Any

from wfrun.engine.model import OptionalTasks
from wfrun.parsers.syntax.sections import Section, to_count, to_count_or_zero, to_duration

_TIME_OF_DAY = re.compile(r"(\d{1,2}):([0-5]\d)", re.ASCII)
_MAX_MINUTES = 24 * 60


def read_optional(bag: Section) -> OptionalTasks:
    """Read which tasks of a bag are optional. Raises InvalidError with the line for a minimum above
    the maximum, and for a section with neither a maximum nor a deadline."""
    section = bag.inner("optional", f"'optional' of {bag.title}", ("min", "max", "deadline"))
    least: int = section.take("min", to_count_or_zero, 0)
    most: int | None = section.take("max", to_count, None)
    nothing: tuple[float | None, float | None] = None, None
    within_s, until_s = section.take("deadline", _to_deadline, nothing)
    if most is not None and least > most:
        raise section.error(
            f"{section.title} has min {least}, above its max {most}",
            "min",
            hint="'min' tasks must be done, and at most 'max' are run.",
        )
    if most is None and within_s is None and until_s is None:
        raise bag.error(
            f"{section.title} has neither 'deadline' nor 'max', so no task would be optional",
            "optional",
            hint="Add 'deadline: 08:00', or a time from the arrival of the bag, such as 2 h.",
        )
    return OptionalTasks(least, most, within_s, until_s)


def _to_deadline(value: Any) -> tuple[float | None, float | None]:
    """The time from the arrival, or the time of day in seconds. YAML 1.1 reads 18:30 without
    quotes as the number 18 * 60 + 30, so a bare number has no other meaning here."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 60 <= value < _MAX_MINUTES:
            raise ValueError(f"{value} has no unit; write 08:00, or a time such as {value} s")
        return None, value * 60.0
    match = _TIME_OF_DAY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return to_duration(value), None
    minutes = int(match[1]) * 60 + int(match[2])
    if minutes >= _MAX_MINUTES:
        raise ValueError(f"{value} is no time of day")
    return None, minutes * 60.0
