"""The idle processors of a site that owners may scavenge (thesis section 4.1.2)."""

from __future__ import annotations

from math import inf

import msgspec

_DAY_S = 86_400.0


class ScavengeRules(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on scavenging at a site, as its administrators set them."""

    idle_share: float = 0.0
    """Minimum share of the site's processors that other jobs must leave free. Below this share
    nothing is scavenged."""
    hours: tuple[float, float] = (0.0, _DAY_S)
    """Begin and end of the hours in which scavenging is allowed, in seconds after midnight at the
    site; the end may be on the next day."""
    queue_empty: bool = False
    """Whether no job of others may wait in the queue."""
    most: int | None = None
    """Maximum number of scavenged processors; None: no limit."""
    queue: str | None = None
    """Queue or partition for the launchers; None: the queue of the site."""
    utc_offset_s: float = 0.0
    """Local time of the site minus UTC, in seconds."""


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """Use of the processors of a site by others than scavenging owners."""

    processors: int
    """All processors of the site."""
    held: int
    """Processors that other jobs hold."""
    waited_for: int = 0
    """Processors requested by other jobs that wait in the queue."""


def scavengeable(rules: ScavengeRules, use: Occupancy, time_of_day_s: float) -> int:
    """Return the number of processors that owners may hold now: the processors that no other job
    holds or waits for, within the limits of the rules. ``time_of_day_s``: seconds after midnight at
    the site, of any day."""
    left = use.processors - use.held
    if rules.queue_empty and use.waited_for:
        return 0
    if left < rules.idle_share * use.processors or not is_within(rules.hours, time_of_day_s):
        return 0
    left = max(0, left - use.waited_for)
    return left if rules.most is None else min(left, rules.most)


def is_within(hours: tuple[float, float], at_s: float) -> bool:
    """Whether a time of day is within some hours; both in seconds after midnight."""
    begin_s, end_s = hours
    at_s %= _DAY_S
    if begin_s <= end_s:
        return begin_s <= at_s < end_s
    return at_s >= begin_s or at_s < end_s


def next_change_s(rules: ScavengeRules, time_of_day_s: float) -> float:
    """Time until the hours next begin or end, in seconds; infinite if the hours are the whole day.
    ``time_of_day_s``: as for `scavengeable`."""
    if rules.hours == (0.0, _DAY_S):
        return inf
    return min((at_s - time_of_day_s) % _DAY_S or _DAY_S for at_s in rules.hours)
