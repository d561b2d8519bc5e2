"""Alignment of logs in different time zones, so that all begin on a Monday at midnight.

Source: J. M. Ramírez-Alcaraz et al., Journal of Grid Computing 9, 2011, section 5.2: "we removed
all jobs until the first Monday at midnight", in local time, with the differences between the time
zones maintained.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs.workload_log import LoggedJob, WorkloadLog

_OLD_NAMES = {
    "US/Eastern": "America/New_York",
    "US/Central": "America/Chicago",
    "US/Mountain": "America/Denver",
    "US/Pacific": "America/Los_Angeles",
}
"""Current names of zones by the old names in log headers, which current systems may lack."""


def align_to_monday(
    log: WorkloadLog,
    *,
    reference: str | None = None,
    zone: str | None = None,
    unix_start_s: float | None = None,
) -> tuple[LoggedJob, ...]:
    """Align a log to the first Monday on which it is complete: the first whose midnight, in the
    local time of the log's site, is not before the first job's submission.

    Jobs submitted before that midnight are dropped. Without ``reference``, submission times become
    seconds since that midnight.

    With ``reference``, a name of the IANA time zone database, time 0 is that Monday's midnight in
    the time zone ``reference``, which must be that of the easternmost site of the grid. Midnight
    comes later at a site west of it, and all jobs of the log are moved later by this difference.
    The difference is taken in standard time, so that summer time in one log has no effect.

    ``zone`` and ``unix_start_s`` replace TimeZoneString and UnixStartTime of the header. If a
    header has only the older TimeZone, it is the offset for the whole year.

    Raises InvalidError if the log does not state its start or time zone, if it ends before that
    Monday, or if its site is east of the reference.
    """
    if not log.jobs:
        return ()
    start_s = log.header.unix_start_s if unix_start_s is None else unix_start_s
    if start_s is None:
        raise _unknown(log, "when it started (UnixStartTime)", "unix_start_s")
    local = _zone(log, zone)
    monday = _monday_from(start_s + log.jobs[0].submit_s, local)
    lag_s = 0.0
    if reference is not None:
        lag_s = _standard_s(_named(reference), monday) - _standard_s(local, monday)
    if lag_s < 0:
        raise InvalidError(
            f"midnight at {reference} comes {-lag_s:.0f} s after that of the log's site",
            source=log.source,
            hint="Take the time zone of the easternmost site as the reference.",
        )
    jobs = tuple(_from(log.jobs, monday.timestamp() - start_s, lag_s))
    if not jobs:
        raise InvalidError(
            f"ends before the first Monday, {monday:%Y-%m-%d}",
            source=log.source,
            hint="Take a longer log, or use it without alignment.",
        )
    return jobs


def _from(jobs: tuple[LoggedJob, ...], start_s: float, lag_s: float) -> Iterator[LoggedJob]:
    for job in jobs:
        if job.submit_s >= start_s:
            yield replace(job, submit_s=job.submit_s - start_s + lag_s)


def _monday_from(time_s: float, zone: tzinfo) -> datetime:
    """The first midnight of a Monday at or after this time."""
    at = datetime.fromtimestamp(time_s, zone)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    days = -at.weekday() % 7
    if days == 0 and at != midnight:
        days = 7
    return midnight + timedelta(
        days=days
    )  # Local days have 23 or 25 hours when summer time begins or ends.


def _standard_s(zone: tzinfo, at: datetime) -> float:
    """Seconds east of UTC in standard time."""
    there = at.astimezone(zone)
    offset = (there.utcoffset() or timedelta()) - (there.dst() or timedelta())
    return offset.total_seconds()


def _zone(log: WorkloadLog, zone: str | None) -> tzinfo:
    name = zone or log.header.zone
    if name is not None:
        return _named(name, log.source)
    if log.header.zone_offset_s is None:
        raise _unknown(log, "where it was (TimeZoneString)", "zone")
    return timezone(timedelta(seconds=log.header.zone_offset_s))


def _named(name: str, source: str | None = None) -> ZoneInfo:
    for candidate in filter(None, (name, _OLD_NAMES.get(name))):
        try:
            return ZoneInfo(candidate)
        except (OSError, ValueError, LookupError):
            continue
    raise InvalidError(
        f"there is no time zone {name!r} on this machine",
        source=source,
        hint="Give one like Europe/Stockholm, or install the time zones (package tzdata).",
    )


def _unknown(log: WorkloadLog, what: str, option: str) -> InvalidError:
    return InvalidError(
        f"its header does not say {what}", source=log.source, hint=f"Give {option}."
    )
