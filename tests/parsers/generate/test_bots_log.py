"""Bags are found in logs, and workloads of bags are the same after they were a log."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.places import CORPUS
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.parsers.generate.bots import generate_workload
from wfrun.parsers.generate.bots_log import bags_of_log, log_of, replay
from wfrun.parsers.logs import read_swf, write_gwf, write_swf

LOGS = CORPUS / "swf"
SITES = [SiteSpec("vu", 100), SiteSpec("tud", 50, 1.5), SiteSpec("uva", 80, 1.2)]


@pytest.fixture(scope="module")
def workload() -> BotWorkload:
    return generate_workload(SITES, tasks=2_000, inaccuracy=30, seed=4)


# Workloads as logs


def test_a_workload_is_the_same_after_it_was_written_as_gwf(
    workload: BotWorkload, tmp_path: Path
) -> None:
    path = tmp_path / "bags.gwf"
    write_gwf(log_of(workload, grid=True), path)
    read = bags_of_log(path)
    assert read == replace(workload, source=str(path), remarks=())


def test_a_workload_is_the_same_but_for_names_after_it_was_written_as_swf(
    workload: BotWorkload, tmp_path: Path
) -> None:
    path = tmp_path / "bags.swf"
    write_swf(log_of(workload, grid=False), path)
    read = bags_of_log(path)
    users: dict[str, str] = {}
    for before, after in zip(workload.bags, read.bags, strict=True):
        assert users.setdefault(before.user, after.user) == after.user
        assert after == replace(before, user=after.user, application=after.application)
    assert len(set(users.values())) == len(users)
    assert read == replace(workload, source=str(path), remarks=(), bags=read.bags)


def test_each_task_is_a_sequential_job(workload: BotWorkload, tmp_path: Path) -> None:
    """What other programs read: group and executable tell bag and application."""
    path = tmp_path / "bags.swf"
    write_swf(log_of(workload, grid=False), path)
    log = read_swf(path)
    assert not log.dropped
    assert len(log.jobs) == 2_000
    assert {(job.size, job.status) for job in log.jobs} == {(1, 1)}
    assert Counter(job.group for job in log.jobs) == {
        number: len(bag) for number, bag in enumerate(workload.bags, 1)
    }
    assert len({job.application for job in log.jobs}) == len(
        {bag.application for bag in workload.bags}
    )


def test_a_log_whose_mark_lost_its_numbers_is_refused(
    workload: BotWorkload, tmp_path: Path
) -> None:
    path = tmp_path / "bags.gwf"
    write_gwf(log_of(workload, grid=True), path)
    path.write_text(path.read_text().replace("Capacity: ", "Capacity: about "))
    with pytest.raises(InvalidError, match="no number Capacity") as error:
        bags_of_log(path)
    assert "BagsOfTasks" in (error.value.hint or "")


# Bags of other people's logs


def swf(path: Path, *jobs: tuple[object, ...]) -> Path:
    """Of (submission, run time, processors, user, application)."""
    rows = [
        f"{number} {submit} 0 {runtime} {size} -1 -1 {size} 900 -1 1 {user} 1 {application} "
        "-1 -1 -1 -1\n"
        for number, (submit, runtime, size, user, application) in enumerate(jobs, 1)
    ]
    path.write_text("; MaxProcs: 10\n" + "".join(rows))
    return path


def test_consecutive_jobs_of_a_user_and_application_are_a_bag(tmp_path: Path) -> None:
    log = swf(
        tmp_path / "small.swf",
        (0, 10, 1, 1, 1),
        (60, 11, 1, 2, 1),
        (120, 12, 1, 1, 1),  # 120 s after the user's last
        (130, 13, 1, 1, 2),
        (240, 14, 1, 1, 1),
        (361, 15, 1, 1, 1),  # 121 s after
    )
    found = bags_of_log(log)
    told = [(bag.arrival_s, bag.user, list(bag.runtime_s)) for bag in found.bags]
    assert told == [
        (0, "1", [10, 12, 14]),
        (60, "2", [11]),
        (130, "1", [13]),
        (361, "1", [15]),
    ]
    delays = [None if bag.delay_s is None else list(bag.delay_s) for bag in found.bags]
    assert delays == [[0, 120, 240], None, None, None]
    assert {bag.application for bag in found.bags} == {"1.1", "1.2", "2.1"}
    assert found.clusters == ("small",)
    assert found.capacity == 10
    assert found.span_s == 361
    assert [bag.estimate_s for bag in found.bags] == [bag.runtime_s for bag in found.bags]
    assert len(bags_of_log(log, gap_s=121).bags) == 3


def test_what_is_no_task_is_left_out_and_counted(tmp_path: Path) -> None:
    log = swf(
        tmp_path / "small.swf",
        (0, 0.2, 1, 1, 1),
        (1, -1, 1, 1, 1),
        (2, 50, 4, 1, 1),
        (3, 50, 4, 1, 1),
        (4, 7, 1, -1, 1),
        (5, 8, 1, -1, 1),
    )
    found = bags_of_log(log)
    assert [list(bag.runtime_s) for bag in found.bags] == [[1.0], [7], [8]]
    assert [bag.user for bag in found.bags] == ["1", "unknown", "unknown"]
    assert found.remarks == (
        "1 of 6 jobs dropped: run time zero, negative or unknown",
        "2 of 6 jobs dropped: parallel, not a task of a bag",
    )


def test_a_log_without_tasks_is_refused(tmp_path: Path) -> None:
    log = swf(tmp_path / "wide.swf", (0, 10, 4, 1, 1))
    with pytest.raises(InvalidError, match="none of the 1 jobs") as error:
        bags_of_log(log)
    assert "parallel" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("zone", "hour"),
    [
        ((), 22),
        (("TimeZone: 3600",), 23),
        (("TimeZone: -3600",), 21),
        (("TimeZone: 3600", "TimeZoneString: America/New_York"), 17),
        (("TimeZone: 3600", "TimeZoneString: Nowhere"), 22),
        (("TimeZone: 90000",), 22),  # More than a day is no offset.
    ],
)
def test_the_time_of_day_is_that_of_the_zone(
    zone: tuple[str, ...], hour: int, tmp_path: Path
) -> None:
    log = swf(tmp_path / "small.swf", (0, 10, 1, 1, 1))
    header = "".join(f"; {field}\n" for field in ("UnixStartTime: 820447200", *zone))
    log.write_text(header + log.read_text())
    assert bags_of_log(log).midnight_s == hour * 3600


def test_bags_that_a_grid_log_names_are_taken(tmp_path: Path) -> None:
    columns = "-1 -1 -1 1 -1 -1 1"  # from AverageCPUTimeUsed to Status
    rest = "-1 " * 9
    lines = [
        f"{number} {submit} 0 5 1 {columns.split(' ', 2)[0]} -1 1 -1 -1 1 ann g app -1 -1 "
        f"{site} -1 BoT {bag} {rest}\n"
        for number, submit, site, bag in [
            (1, 0, "vu", "b7"),
            (2, 5, "vu", "b8"),
            (3, 9000, "vu", "b7"),
            (4, 9001, "tud", "b7"),
        ]
    ]
    path = tmp_path / "das.gwf"
    path.write_text("".join(lines))
    found = bags_of_log(path)
    assert [(bag.arrival_s, len(bag), bag.cluster) for bag in found.bags] == [
        (0, 2, 0),
        (5, 1, 0),
        (9001, 1, 1),
    ]
    assert found.clusters == ("vu", "tud")
    assert found.bags[0].application == "ann.app"


# Replay


def daily(tmp_path: Path) -> BotWorkload:
    """A bag of two tasks at noon, for 40 days."""
    jobs = [(86400 * day + 43200 + k, 600, 1, day % 4, 1) for day in range(40) for k in (0, 1)]
    return bags_of_log(swf(tmp_path / "daily.swf", *jobs))


def test_a_log_becomes_a_stream_for_each_cluster(tmp_path: Path) -> None:
    log = daily(tmp_path)
    replayed = replay(log, SITES, seed=1)
    assert replayed.clusters == ("vu", "tud", "uva")
    arrivals = [bag.arrival_s for bag in replayed.bags]
    assert arrivals == sorted(arrivals)
    of_cluster = Counter(bag.cluster for bag in replayed.bags)
    assert set(of_cluster) == {0, 1, 2}
    assert min(of_cluster.values()) >= 12
    assert max(arrivals) < 15 * 86400
    for bag in replayed.bags:
        assert bag.user.startswith(f"{replayed.clusters[bag.cluster]}.")
        assert bag.arrival_s % 86400 == pytest.approx(43200, abs=1)  # still noon
    assert replay(log, SITES, seed=1) == replayed
    assert replay(log, SITES, seed=2) != replayed


def test_replay_takes_so_many_tasks_at_a_load(tmp_path: Path) -> None:
    replayed = replay(daily(tmp_path), SITES, load=0.4, tasks=31)
    assert replayed.tasks == 32  # whole bags
    assert replayed.load == pytest.approx(0.4)
    assert replayed.capacity == pytest.approx(100 + 75 + 96)


def test_clusters_that_are_those_of_the_log_keep_their_bags(workload: BotWorkload) -> None:
    replayed = replay(workload, SITES[::-1])
    assert [replayed.clusters[bag.cluster] for bag in replayed.bags] == [
        workload.clusters[bag.cluster] for bag in workload.bags
    ]
    assert replayed.load == pytest.approx(workload.load, rel=1e-3)


def test_replay_of_bags_at_once_keeps_their_load() -> None:
    workload = generate_workload(SITES, tasks=300, arrival="at-once")
    assert replay(workload, SITES).load == pytest.approx(0.6)


def test_replay_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="no bag is left"):
        replay(daily(tmp_path), SITES, tasks=0)


# Published logs
@pytest.mark.corpus
def test_the_bags_of_a_grid_site() -> None:
    """LPC-EGEE: bags of sequential jobs. Numbers counted with awk from the log: jobs with a run
    time above 0 are 214,322 of 54 users."""
    found = bags_of_log(LOGS / "LPC-EGEE-2004-1.2-cln.swf.gz")
    assert found.tasks == 214_322
    assert len({bag.user for bag in found.bags}) == 54
    assert 4 < found.tasks / len(found.bags) < 5
    assert max(map(len, found.bags)) > 500
    replayed = replay(found, SITES, load=0.25, tasks=20_000)
    assert replayed.load == pytest.approx(0.25)
    assert 20_000 <= replayed.tasks < 20_700


@pytest.mark.corpus
def test_a_log_of_parallel_jobs_alone_has_no_bags() -> None:
    with pytest.raises(InvalidError, match="is sequential"):
        bags_of_log(LOGS / "SDSC-DS-2004-2.1-cln.swf.gz")
