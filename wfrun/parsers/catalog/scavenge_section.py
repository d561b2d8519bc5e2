"""Catalog key `scavenge`: which idle processors of a site owners may use."""

from __future__ import annotations

import re
from typing import Any

from wfrun.engine.jobs.scavenging.idleness import ScavengeRules
from wfrun.parsers.catalog.access import word
from wfrun.parsers.syntax.sections import Section, in_words, to_count_or_zero, to_number, to_truth

KEYS = ("idle_share", "hours", "queue_empty", "most", "queue")
_HOURS = re.compile(r"([01]?\d|2[0-4]):([0-5]\d) ?- ?([01]?\d|2[0-4]):([0-5]\d)", re.ASCII)
_DAY_S = 86_400.0


def read_scavenging(site: Section, slots: int) -> ScavengeRules | None:
    """The rules of a site; None if its entry has none. Raises InvalidError for invalid rules."""
    if not site.has("scavenge"):
        return None
    section = site.inner("scavenge", f"'scavenge' of {site.title}", KEYS)
    section.title = f"the scavenging of {site.title}"
    usual = ScavengeRules()
    most = section.take("most", to_count_or_zero, None)
    if most is not None and most > slots:
        message = f"most of {section.title} is {most}, but {site.title} has {slots} slots"
        raise section.error(message, "most", hint="Lower 'most', or raise 'slots'.")
    return ScavengeRules(
        idle_share=section.take("idle_share", _to_share, usual.idle_share),
        hours=section.take("hours", _to_hours, usual.hours),
        queue_empty=section.take("queue_empty", to_truth, usual.queue_empty),
        most=most,
        queue=section.take("queue", word, None),
    )


def _to_share(value: Any) -> float:
    share = to_number(value)
    if not 0 <= share <= 1:
        raise ValueError(f"it must be from 0 to 1, not {value}")
    return share


def _to_hours(value: Any) -> tuple[float, float]:
    found = _HOURS.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        shown = value if isinstance(value, str) else in_words(value)
        raise ValueError(f"it must be two times of the day, such as 20:00-08:00, not {shown}")
    hour, minute, last_hour, last_minute = map(int, found.groups())
    begin_s, end_s = 3600.0 * hour + 60.0 * minute, 3600.0 * last_hour + 60.0 * last_minute
    if max(begin_s, end_s) > _DAY_S:
        raise ValueError(f"a day ends at 24:00, and {value} does not")
    if begin_s == end_s:
        raise ValueError("it begins and ends at the same time; remove 'hours' for the whole day")
    return begin_s, end_s
