"""`wfrun predict --log FILE --waits` as its user meets it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.places import CORPUS
from tests.runners.harness import Done, User, assert_refused
from wfrun.engine.prediction.waits.predictor import WAIT_PREDICTORS
from wfrun.parsers.logs import GridFields, LoggedJob, LogHeader, WorkloadLog, write_gwf, write_swf

BOUNDS = ["bmbp", "chebyshev"]
LRMS = ("fcfs", "easy", "conservative")


def jobs(count: int = 400) -> list[LoggedJob]:
    """Bursts of jobs with waits of their own, on 8 processors."""
    random, now_s, found = Random(8), 0, []
    for number in range(1, count + 1):
        now_s += random.choice((0, 0, 900))
        runtime_s = random.choice((60, 120, 600))
        found.append(
            LoggedJob(
                number, now_s, random.choice((0, 30, 700)), runtime_s, random.choice((1, 2, 4)),
                requested_s=1000 if number % 2 else None, status=1, user=number % 3, application=1,
            )
        )  # fmt: skip
    return found


@pytest.fixture
def user(user: User) -> User:
    header = LogHeader((" MaxProcs: 8",))
    write_swf(WorkloadLog("log.swf", header, tuple(jobs())), user.folder / "log.swf")
    return user


def waits(done: Done) -> list[dict[str, Any]]:
    assert done.status == 0, done.text
    found: list[dict[str, Any]] = json.loads(done.out)["waits"]
    return found


def test_waits_of_the_log_are_bounded(user: User) -> None:
    words = ("predict", "--log", "log.swf", "--waits")
    rows = waits(user.ask(*words, "--json", "--csv", "table.csv"))
    assert [(row["predictor"], row["lrm"]) for row in rows] == [(name, None) for name in BOUNDS]
    for row in rows:
        measured = row["accuracy"]
        assert measured["jobs"] + measured["unknown"] == 360  # of 400, 10% are training data
        assert measured["under"] + measured["perfect"] + measured["over"] == pytest.approx(1)
        assert measured["perfect"] + measured["over"] > 0.9
    with (user.folder / "table.csv").open() as stream:
        table = list(csv.DictReader(stream))
    assert [float(row["under"]) for row in table] == [row["accuracy"]["under"] for row in rows]
    out = user.ask(*words).out
    for word in (*BOUNDS, "waits of the log", "in bursts", "outside", "accuracy*"):
        assert word in out


@pytest.mark.parametrize("lrm", LRMS)
def test_a_simulated_queue_has_points_and_bounds(user: User, lrm: str) -> None:
    words = ("predict", "--log", "log.swf", "--waits", "--lrm", lrm, "--load", "0.7")
    done = user.ask(*words, "--json")
    rows = {row["predictor"]: row for row in waits(done)}
    assert list(rows) == list(WAIT_PREDICTORS)
    assert {row["processors"] for row in rows.values()} == {8}
    assert "200 jobs without an estimate" in done.err
    points = rows["point"]["accuracy"], rows["point-corrected"]["accuracy"]
    for measured in points:
        assert measured["jobs"] == 360
        assert 0 < measured["waited"] < 1
        assert measured["accuracy"] > rows["chebyshev"]["accuracy"]["accuracy"]
    if lrm == "fcfs":
        assert rows["fcfs-estimates"]["accuracy"]["under"] == 0
        assert f"{lrm} simulated on 8 processors at a load of 0.7" in user.ask(*words).out


def test_run_times_may_be_predicted_by_other_methods(user: User) -> None:
    words = ("predict", "--log", "log.swf", "--waits", "--lrm", "fcfs", "--load", "0.7", "--json")
    rows = {row["predictor"]: row for row in waits(user.ask(*words, "--method", "rm,estimate"))}
    assert list(rows)[:4] == [
        "point:rm", "point:estimate", "point-corrected:rm", "point-corrected:estimate",
    ]  # fmt: skip
    accuracies = {name: row["accuracy"]["accuracy"] for name, row in rows.items()}
    # Run times are 60, 120 and 600 s, estimates 1,000 s: the mean is nearer.
    assert accuracies["point:rm"] > accuracies["point:estimate"]


def test_more_processors_wait_less(user: User) -> None:
    words = ("predict", "--log", "log.swf", "--waits", "--lrm", "fcfs", "--json", "--processors")
    few, many = waits(user.ask(*words, "4")), waits(user.ask(*words, "64"))
    assert few[0]["processors"] == 4
    assert many[0]["accuracy"]["waited"] < few[0]["accuracy"]["waited"]


def test_sites_of_a_grid_are_measured_apart(user: User) -> None:
    sites = ["large", "large", "medium"]
    logged = [
        msgspec.structs.replace(
            job, site="small" if job.id % 100 == 0 else sites[job.id % 3], grid=GridFields()
        )
        for job in jobs()
    ]
    write_gwf(WorkloadLog("log.gwf", LogHeader(), tuple(logged)), user.folder / "log.gwf")
    done = user.ask("predict", "--log", "log.gwf", "--waits", "--lrm", "easy", "--json")
    rows = waits(done)
    assert list(dict.fromkeys(row["site"] for row in rows)) == ["large", "medium"]
    assert all(4 <= row["processors"] <= 64 for row in rows)
    assert "1 of 3 sites left out" in done.err
    assert "processors unknown" in done.err


def test_wrong_options_are_refused(user: User) -> None:
    words = ("predict", "--waits")
    assert_refused(user.ask(*words), 2, ["--log FILE"])
    log = (*words, "--log", "log.swf")
    assert_refused(user.ask(*log, "--load", "0.5"), 2, ["--load", "--lrm"])
    assert_refused(user.ask(*log, "--processors", "5"), 2, ["--processors", "--lrm"])
    assert_refused(user.ask(*log, "--lrm", "sjf"), 2, ["sjf", "conservative"])
    assert_refused(user.ask(*log, "--lrm", "fcfs", "--load", "0"), 2, ["--load"])
    assert_refused(user.ask(*log, "--method", "last"), 2, ["--method", "--lrm"])
    assert_refused(user.ask(*log, "--class", "user"), 2, ["--class", "no effect"])
    assert_refused(user.ask(*log, "--lrm", "fcfs", "--method", "best"), 2, ["'best'", "auto"])
    assert_refused(user.ask("predict", "--log", "log.swf", "--lrm", "fcfs"), 2, ["--waits"])


def test_logs_that_cannot_serve_are_refused(user: User) -> None:
    def written(name: str, logged: list[LoggedJob]) -> str:
        write_swf(WorkloadLog(name, LogHeader(), tuple(logged)), user.folder / name)
        return name

    unknown = [msgspec.structs.replace(job, wait_s=None) for job in jobs()]
    done = user.ask("predict", "--waits", "--log", written("unknown.swf", unknown))
    assert_refused(done, 2, ["wfrun: unknown.swf: no job of the log has a wait", "--lrm"])
    done = user.ask("predict", "--waits", "--log", written("short.swf", jobs(50)))
    assert_refused(done, 2, ["short.swf", "50 jobs", "too few"])
    log = ("predict", "--waits", "--log", "log.swf", "--lrm", "fcfs", "--json", "--processors", "1")
    large = [msgspec.structs.replace(job, requested_processors=2) for job in jobs()]
    done = user.ask(*log, "--log", written("large.swf", large))
    assert_refused(done, 2, ["wfrun: large.swf: all 400 jobs are larger", "--processors"])
    done = user.ask(*log)
    assert {row["processors"] for row in waits(done)} == {1}
    assert "larger than 1 processors" in done.err


@pytest.mark.corpus
def test_bmbp_bounds_95_percent_of_the_waits_outside_bursts(user: User) -> None:
    for log in ("KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz"):
        path = CORPUS / "swf" / log
        rows = {
            row["predictor"]: row["accuracy"]
            for row in waits(user.ask("predict", "--log", str(path), "--waits", "--json"))
        }
        assert rows["bmbp"]["within_outside"] >= 0.95
        assert rows["chebyshev"]["within_outside"] >= 0.95
        assert rows["bmbp"]["accuracy"] > rows["chebyshev"]["accuracy"]
        assert rows["bmbp"]["over"] < rows["chebyshev"]["over"]


@pytest.mark.corpus
def test_points_of_a_real_log_are_nearer_than_bounds(user: User) -> None:
    path: Path = CORPUS / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"
    words = ("--waits", "--lrm", "fcfs", "--load", "0.5", "--json")
    rows = {
        row["predictor"]: row["accuracy"]
        for row in waits(user.ask("predict", "--log", str(path), *words))
    }
    assert rows["fcfs-estimates"]["under"] == 0
    assert rows["point"]["accuracy_waited"] > rows["fcfs-estimates"]["accuracy_waited"]
    assert rows["fcfs-estimates"]["accuracy_waited"] > rows["bmbp"]["accuracy_waited"]
