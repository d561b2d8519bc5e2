"""What is done with the jobs of logs: choosing, shifting, aligning, merging, scaling."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs import (
    JGC_RULES,
    RUNNABLE_RULES,
    GridFields,
    LoggedJob,
    LogHeader,
    WorkloadLog,
    align_to_monday,
    clip,
    drop_jobs,
    load_of,
    merge,
    scale_load,
    settle_overruns,
    shift,
)
from wfrun.parsers.logs.filters import Overrun

GOOD = LoggedJob(1, 0, 5, 60, 4, requested_s=120, status=1, user=3)
HOUR_S, DAY_S = 3600, 86400


def jobs_at(*submits: float) -> list[LoggedJob]:
    return [replace(GOOD, id=number, submit_s=s) for number, s in enumerate(submits, 1)]


def submits(jobs: object) -> list[float]:
    return [job.submit_s for job in jobs]  # type: ignore[attr-defined]


# Rules


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": 0}, "job number not positive"),
        ({"submit_s": -1.0}, "submitted at a negative time"),
        ({"runtime_s": 0.0}, "run time zero, negative or unknown"),
        ({"runtime_s": None}, "run time zero, negative or unknown"),
        ({"processors": 0, "requested_processors": 8}, "no allocated processors"),
        ({"requested_s": None}, "requested time zero, negative or unknown"),
        ({"user": None}, "user zero, negative or unknown"),
        ({"user": 0}, "user zero, negative or unknown"),
        ({"status": 0}, "failed"),
        ({"status": 4}, "failed after a partial execution"),
        ({"status": 5}, "cancelled"),
    ],
)
def test_the_rules_of_the_jgc_paper(changes: dict[str, float | None], reason: str) -> None:
    filtered = drop_jobs([GOOD, replace(GOOD, **changes), GOOD])
    assert filtered.jobs == (GOOD, GOOD)
    assert filtered.dropped == {reason: 1}
    assert reason in JGC_RULES


@pytest.mark.parametrize("changes", [{"status": 2}, {"status": 3}, {"status": None}, {"user": "u"}])
def test_what_these_rules_keep(changes: dict[str, object]) -> None:
    assert drop_jobs([replace(GOOD, **changes)]).dropped == {}


def test_a_job_counts_under_the_first_rule() -> None:
    bad = replace(GOOD, runtime_s=-5.0, status=5)
    assert drop_jobs([bad, bad]).dropped == {"run time zero, negative or unknown": 2}


def test_runnable_jobs() -> None:
    cancelled = replace(GOOD, status=5, user=None, requested_s=None)
    asked = replace(GOOD, processors=None, requested_processors=2)
    nothing = replace(GOOD, processors=0)
    filtered = drop_jobs([cancelled, asked, nothing], RUNNABLE_RULES)
    assert filtered.jobs == (cancelled, asked)
    assert filtered.dropped == {"number of processors zero or unknown": 1}


# Times


def test_clip_includes_the_start_alone() -> None:
    assert submits(clip(jobs_at(0, 10, 19.5, 20), 10, 20)) == [10, 19.5]
    with pytest.raises(InvalidError, match="from 5 s to 4 s"):
        clip([], 5, 4)


def test_shift() -> None:
    assert submits(shift(jobs_at(0, 10), -2.5)) == [-2.5, 7.5]
    with pytest.raises(InvalidError, match="cannot be shifted by inf"):
        shift([], float("inf"))


@pytest.mark.parametrize(
    ("how", "expected"),
    [("truncate", [(50, 50), (9, 50)]), ("extend", [(80, 80), (9, 50)]), ("drop", [(9, 50)])],
)
def test_run_times_over_the_request(how: Overrun, expected: list[tuple[float, float]]) -> None:
    over = replace(GOOD, runtime_s=80, requested_s=50)
    under = replace(over, runtime_s=9)
    unknown = replace(over, requested_s=None)
    settled = list(settle_overruns([over, under, unknown], how))
    assert settled[-1] == unknown
    assert [(job.runtime_s, job.requested_s) for job in settled[:-1]] == expected


# Time zones


def log_from(start: datetime, *submit_s: float, zone: str | None) -> WorkloadLog:
    lines = [f" UnixStartTime: {start.timestamp():.0f}"]
    if zone is not None:
        lines.append(f" TimeZoneString: {zone}")
    return WorkloadLog("x.swf", LogHeader(tuple(lines)), tuple(jobs_at(*submit_s)))


def test_the_first_monday_is_the_sites_own() -> None:
    # Sunday 22:00 in Stockholm; in London the day ends an hour later.
    start = datetime(2002, 3, 3, 22, tzinfo=ZoneInfo("Europe/Stockholm"))
    times = (0, 2 * HOUR_S - 1, 2 * HOUR_S, 3 * HOUR_S)
    here = align_to_monday(log_from(start, *times, zone="Europe/Stockholm"))
    assert submits(here) == [0, HOUR_S]
    assert submits(align_to_monday(log_from(start, *times, zone="Europe/London"))) == [0]


def test_a_log_that_starts_at_midnight_keeps_that_monday() -> None:
    start = datetime(2002, 3, 4, tzinfo=ZoneInfo("Europe/Stockholm"))
    assert submits(align_to_monday(log_from(start, 0, 7, zone="Europe/Stockholm"))) == [0, 7]
    late = align_to_monday(log_from(start, 1, 7 * DAY_S, zone="Europe/Stockholm"))
    assert submits(late) == [0]


def test_a_week_with_a_day_of_23_hours() -> None:
    start = datetime(2002, 3, 30, 12, tzinfo=ZoneInfo("Europe/Stockholm"))  # summer time tomorrow
    noon_to_monday_s = 12 * HOUR_S + 23 * HOUR_S
    log = log_from(start, 0, noon_to_monday_s, zone="Europe/Stockholm")
    assert submits(align_to_monday(log)) == [0]


def test_differences_between_time_zones_stay() -> None:
    """Midnight in San Diego is nine hours after that in Stockholm, in summer time too."""
    for month in (1, 7):
        start = datetime(2002, month, 2, tzinfo=ZoneInfo("America/Los_Angeles"))
        log = log_from(start, 0, 20 * DAY_S, zone="US/Pacific")
        (first,) = submits(align_to_monday(log))
        (later,) = submits(align_to_monday(log, reference="Europe/Stockholm"))
        assert later - first == 9 * HOUR_S
    with pytest.raises(InvalidError, match="comes 28800 s after"):
        align_to_monday(
            log_from(start, 0, 20 * DAY_S, zone="Asia/Tokyo"), reference="Europe/Stockholm"
        )


def test_where_the_header_is_silent() -> None:
    start = datetime(2002, 3, 3, 12, tzinfo=ZoneInfo("UTC"))
    silent = log_from(start, 0, 3 * DAY_S, zone=None)
    with pytest.raises(InvalidError, match=r"x.swf: its header does not say where.*\n.*Give zone"):
        align_to_monday(silent)
    assert submits(align_to_monday(silent, zone="UTC")) == [3 * DAY_S - 12 * HOUR_S]
    old = replace(silent, header=LogHeader((*silent.header.comments, " TimeZone: -3600")))
    assert submits(align_to_monday(old)) == [3 * DAY_S - 13 * HOUR_S]
    timeless = replace(silent, header=LogHeader())
    with pytest.raises(InvalidError, match="when it started"):
        align_to_monday(timeless, zone="UTC")
    given = align_to_monday(timeless, zone="UTC", unix_start_s=start.timestamp())
    assert submits(given) == [3 * DAY_S - 12 * HOUR_S]


def test_what_can_not_be_aligned() -> None:
    start = datetime(2002, 3, 5, tzinfo=ZoneInfo("UTC"))
    with pytest.raises(InvalidError, match="ends before the first Monday, 2002-03-11"):
        align_to_monday(log_from(start, 0, 5 * DAY_S, zone="UTC"))
    with pytest.raises(InvalidError, match="there is no time zone 'Mars/Olympus'"):
        align_to_monday(log_from(start, 0, zone="Mars/Olympus"))
    with pytest.raises(InvalidError, match="there is no time zone"):
        align_to_monday(log_from(start, 0, zone="../x"))
    assert align_to_monday(log_from(start, zone="UTC")) == ()


# Merging


def test_merge_orders_and_numbers() -> None:
    a = [replace(GOOD, id=5, submit_s=0, user=9), replace(GOOD, id=6, submit_s=7, user=8)]
    b = [replace(GOOD, id=5, submit_s=0, user=9), replace(GOOD, id=7, submit_s=3, user=9)]
    merged = merge({"b": b, "a": a})
    assert [(job.id, job.site, job.submit_s) for job in merged] == [
        (1, "b", 0),
        (2, "a", 0),
        (3, "b", 3),
        (4, "a", 7),
    ]
    assert [job.user for job in merged] == [1, 2, 1, 3]


def test_merge_keeps_who_follows_whom() -> None:
    first = replace(GOOD, id=4)
    after = replace(GOOD, id=9, submit_s=50, preceding=4, think_s=10)
    orphan = replace(GOOD, id=10, submit_s=60, preceding=3, think_s=10)
    merged = merge({"a": [replace(GOOD, id=1)], "b": [first, after, orphan]})
    assert [(job.preceding, job.think_s) for job in merged[2:]] == [(2, 10), (None, None)]


def test_merge_keeps_workflows_apart() -> None:
    def workflow(number: int) -> list[LoggedJob]:
        grid = GridFields(workflow=number)
        child = GridFields(workflow=number, parents=(0, 7))
        return [LoggedJob(0, 0, site="C1", grid=grid), LoggedJob(1, 0, grid=child)]

    merged = merge({"a": workflow(0) + workflow(1), "b": workflow(0)})
    grids = [job.grid for job in merged if job.grid is not None]
    assert [grid.workflow for grid in grids] == [1, 1, 2, 2, 3, 3]
    assert [grid.parents for grid in grids] == [(), (1,), (), (3,), (), (5,)]
    assert [job.site for job in merged[:2]] == ["a/C1", "a"]


@given(st.lists(st.lists(st.integers(0, 5).map(float), max_size=6).map(sorted), max_size=4))
def test_merge_loses_nothing(times: list[list[float]]) -> None:
    logs = {f"s{index}": jobs_at(*each) for index, each in enumerate(times)}
    merged = merge(logs)
    assert [job.id for job in merged] == list(range(1, len(merged) + 1))
    assert submits(merged) == sorted(s for each in times for s in each)
    for name, jobs in logs.items():
        assert submits(job for job in merged if job.site == name) == submits(jobs)


# Load


def test_load_by_hand() -> None:
    # 3 x 4 processors x 60 s within 100 s of 10 processors
    assert load_of(jobs_at(0, 30, 100), 10) == pytest.approx(0.72)
    unknown = replace(GOOD, submit_s=50, runtime_s=None)
    asked = replace(GOOD, submit_s=50, processors=None, requested_processors=5)
    assert load_of([*jobs_at(0, 30, 100), unknown, asked], 10) == pytest.approx(1.02)


@pytest.mark.parametrize(
    ("times", "processors", "message"),
    [
        ((), 4, "two times or more"),
        ((5, 5), 4, "two times or more"),
        ((0, 5), 0, "of 0 processors"),
    ],
)
def test_no_load(times: tuple[float, ...], processors: int, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        load_of(jobs_at(*times), processors)


@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=20, unique=True).map(sorted),
    st.floats(0.05, 3),
)
def test_scaling_reaches_the_target(times: list[int], target: float) -> None:
    jobs = jobs_at(*map(float, times))
    scaled = scale_load(jobs, target, 16)
    assert load_of(scaled, 16) == pytest.approx(target)
    assert scaled[0].submit_s == jobs[0].submit_s
    assert submits(scaled) == sorted(submits(scaled))
    same = [(job.id, job.size, job.runtime_s, job.requested_s) for job in jobs]
    assert [(job.id, job.size, job.runtime_s, job.requested_s) for job in scaled] == same


def test_scaling_think_times_and_waits() -> None:
    jobs = jobs_at(0, 30, 100)  # a load of 0.72 on 10 processors
    jobs[1] = replace(jobs[1], think_s=8)
    scaled = scale_load(jobs, 1.44, 10)
    assert submits(scaled) == [0, 15, 50]
    assert [(job.think_s, job.wait_s) for job in scaled] == [(None, None), (4, None), (None, None)]


def test_loads_that_can_not_be_reached() -> None:
    with pytest.raises(InvalidError, match="a load of 0 cannot be reached"):
        scale_load(jobs_at(0, 1), 0, 4)
    with pytest.raises(InvalidError, match="offer no load"):
        scale_load([LoggedJob(1, 0), LoggedJob(2, 9)], 0.5, 4)
