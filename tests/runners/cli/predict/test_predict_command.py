"""`wfrun predict` as its user meets it."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.places import CORPUS
from tests.runners import histories
from tests.runners.harness import Done, User, assert_refused
from wfrun import read_workflow
from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.methods import METHODS
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax

HEADER = "; MaxProcs: 8\n; UnixStartTime: 0\n"


def swf_line(
    number: int, submit_s: int, runtime_s: int, user: int = 1, application: int = 3
) -> str:
    return (
        f"{number} {submit_s} 0 {runtime_s} 1 -1 -1 1 3600 -1 1 {user} 1 {application} 1 1 -1 -1\n"
    )


@pytest.fixture
def user(user: User) -> User:
    """With a log of two users: run times of one alternate, those of the other stay."""
    lines = (
        swf_line(i, 1000 * i, 100 if i % 2 or i % 4 else 300, user=i % 2, application=i % 3)
        for i in range(1, 41)
    )
    (user.folder / "log.swf").write_text(HEADER + "".join(lines))
    return user


def succeeded(done: Done) -> Done:
    assert done.status == 0, done.text
    return done


def accuracies(user: User, *words: str) -> list[dict[str, Any]]:
    document = json.loads(succeeded(user.ask("predict", *words, "--json")).out)
    found: list[dict[str, Any]] = document["accuracies"]
    return found


def test_every_method_by_every_class(user: User) -> None:
    found = accuracies(user, "--log", "log.swf")
    by_class = {(each["method"], each["classification"]): each for each in found}
    assert set(by_class) >= {(m, c) for m in METHODS for c in CLASSIFICATIONS}
    # User 0 has 100, 300, 100, 300 …: the mean of two is 200; user 1 has 100 only.
    last2 = by_class["last2", "user"]
    assert (last2["jobs"], last2["unknown"]) == (40, 2)
    shares = [1.0] * 19 + [1 / 3] + [1 / 2] * 9 + [2 / 3] * 9
    assert last2["accuracy"] == pytest.approx(sum(shares) / 38)
    assert last2["mean_error_s"] == pytest.approx((200 + 18 * 100) / 38)
    out = succeeded(user.ask("predict", "--log", "log.swf")).out
    assert "log.swf: 40 jobs" in out
    for word in ("accuracy", "mean error", "median error", "unknown", *METHODS, *CLASSIFICATIONS):
        assert word in out


def test_some_methods_and_classes_and_a_file(user: User) -> None:
    (user.folder / "log.swf.gz").write_bytes(gzip.compress((user.folder / "log.swf").read_bytes()))
    words = ("--method", "last,rm", "--class", "user", "--csv", "table.csv")
    found = accuracies(user, "--log", "log.swf.gz", *words)
    assert [each["method"] for each in found] == ["last", "rm"]
    with (user.folder / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["accuracy"]) for row in rows] == [each["accuracy"] for each in found]


def test_classes_that_a_log_cannot_serve_are_named(user: User) -> None:
    lines = (swf_line(i, i, 5, user=-1, application=-1) for i in range(1, 5))
    (user.folder / "bare.swf").write_text(HEADER + "".join(lines))
    done = succeeded(user.ask("predict", "--log", "bare.swf", "--json"))
    assert {each["classification"] for each in json.loads(done.out)["accuracies"]} == {
        "site",
        "chain",
        None,
    }
    assert (
        "no job states its user; left out: classes user, user-site and application, and" in done.err
    )
    assert "M7 and M8" in done.err
    assert "no job states its application; left out: class application" in done.err
    only = user.ask("predict", "--log", "bare.swf", "--class", "user")
    assert_refused(only, 2, ["bare.swf", "no job states its user", "--class"])


def test_sites_of_a_grid(user: User) -> None:
    """In a log of a grid jobs are at the site where they ran; without sites classes are left
    out."""
    names = "JobID,SubmitTime,WaitTime,RunTime,NProcs,ReqNProcs,UserID,LastRunSiteID\n"
    for name, site in (("grid.gwf", "s{}"), ("nowhere.gwf", "-1")):
        lines = (f"{i},{100 * i},0,{10 + i % 2},1,1,u1,{site.format(i % 2)}\n" for i in range(9))
        (user.folder / name).write_text(names + "".join(lines))
    found = accuracies(user, "--log", "grid.gwf", "--method", "last", "--class", "site,user")
    assert [each["accuracy"] for each in found] == [1.0, pytest.approx(10 / 11)]
    done = succeeded(user.ask("predict", "--log", "nowhere.gwf", "--method", "last", "--json"))
    assert {each["classification"] for each in json.loads(done.out)["accuracies"]} == {
        "user",
        "chain",
    }
    assert "no job states its site; left out: classes site, user-site and application" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", ["Give documents"]),
        ("--method last", ["--log"]),
        ("--log absent.swf", ["absent.swf", "does not exist"]),
        ("--log bad.swf", ["bad.swf:5: ", "4 columns", "--skip-bad-lines"]),
        ("--log empty.swf", ["empty.swf", "the log has no jobs"]),
        ("--log log.swf --method best", ["--method", "'best'", "last2"]),
        ("--log log.swf --class size", ["--class", "'size'", "user-site"]),
        ("--log log.swf --csv no/table.csv", ["no/table.csv"]),
        ("--log log.swf x.dax", ["has no arguments", "x.dax"]),
    ],
)
def test_bad_input_gets_one_message(user: User, words: str, told: list[str]) -> None:
    (user.folder / "bad.swf").write_text(
        HEADER + swf_line(1, 0, 5) + swf_line(2, 1, 5) + "3 4 5 6\n"
    )
    (user.folder / "empty.swf").write_text(HEADER)
    assert_refused(user.ask("predict", *words.split()), 2, told)


@pytest.mark.corpus
def test_a_published_log() -> None:
    """More specific classes are more accurate (thesis, section 7.2.3)."""
    from wfrun.parsers.logs import read_log
    from wfrun.runners.forecast.log_accuracy import accuracies, log_history
    from wfrun.runners.forecast.log_predictors import candidates

    (path,) = Path(CORPUS / "swf").glob("KTH-SP2-*.gz")
    jobs, _, _ = read_log(path)
    history = log_history(jobs, is_grid=False)
    assert history.missing == ["application"]
    found = accuracies(history, candidates(tuple(METHODS), ("site", "user"), history.missing))
    by = {(each.method, each.classification): each.accuracy or 0 for each in found}
    for method in METHODS:
        assert by[method, "user"] > by[method, "site"] + 0.15


SITES = """\
sites:
  near: {slots: 2}
  far: {slots: 2, speed: 2}
"""


def remember(user: User, *runtimes_s: float, site: str = "near") -> str:
    """A history in which a list of commands has run at a site."""
    user.catalog(SITES)
    (user.folder / "list.txt").write_text("sleep 1\n" * 12)
    workflow = read_workflow(user.folder / "list.txt")
    path = user.folder / "history.sqlite"
    histories.remember(path, runtimes_s, workflow.tasks[0].name, workflow.owner, site)
    return str(path)


def forecast(user: User, *words: str) -> dict[str, Any]:
    done = succeeded(user.ask("predict", "list.txt", "--sites", "sites.yaml", *words, "--json"))
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_run_times_from_earlier_tasks_at_each_site(user: User) -> None:
    history = remember(user, 9, 11)
    found = forecast(user, "--history", history)
    (kind,) = found["types"]
    near, far = kind["sites"]
    assert (near["runtime_s"], near["observations"], near["from_site"]) == (10, 2, True)
    assert (far["runtime_s"], far["observations"], far["from_site"]) == (5, 2, False)
    assert (near["source"], far["source"]) == ("predicted", "predicted")
    words = ("list.txt", "--sites", "sites.yaml", "--history", history)
    plan = json.loads(user.ask("plan", *words, "--compare", "0", "--json").out)
    assert found["end"]["makespan_s"] == plan["run"]["makespan_s"] > 0
    assert found["policy"] == plan["policy"]
    out = user.ask("predict", *words).out
    assert "12 tasks end after 30.0 s" in out
    for word in ("predicted: 2 here", "predicted: 2 elsewhere", "12 predicted from earlier tasks"):
        assert word in out


def test_many_earlier_tasks_give_intervals(user: User) -> None:
    history = remember(user, *(9 + n % 3 for n in range(30)))
    found = forecast(user, "--history", history)
    near, far = found["types"][0]["sites"]
    assert near["low_s"] <= 9 < near["runtime_s"] < 11 <= near["high_s"]
    assert far["high_s"] == pytest.approx(near["high_s"] / 2)
    end = found["end"]
    assert (end["samples"], end["varied"]) == (40, 12)
    assert 15 <= end["low_s"] < end["makespan_s"] <= end["high_s"] <= 33
    out = user.ask("predict", "list.txt", "--sites", "sites.yaml", "--history", history).out
    assert "predicted: 30 here" in out
    words = ("list.txt", "--sites", "sites.yaml", "--history", history, "--within", "0")
    assert "interval of the end: unknown: 0 simulations" in user.ask("predict", *words).out
    assert "90% of 40 simulations, in which run times of 12 tasks vary" in out


def test_unknown_run_times_are_said_and_can_be_assumed(user: User) -> None:
    remember(user, 9, 11)
    words = ("list.txt", "--sites", "sites.yaml", "--no-history")
    out = succeeded(user.ask("predict", *words)).out
    assert "12 tasks: end unknown" in out
    assert "--runtime SECONDS" in out
    found = forecast(user, "--no-history", "--runtime", "6")
    assert [site["source"] for site in found["types"][0]["sites"]] == ["assumed"] * 2
    assert found["end"]["makespan_s"] == pytest.approx(18, abs=1)
    assert found["end"]["low_s"] is None  # nothing is known of the error


def test_documented_run_times_differ_within_a_type(user: User) -> None:
    user.catalog(SITES)
    write_dax(generate("montage", 25, 1), user.folder / "montage.dax")
    words = ("montage.dax", "--sites", "sites.yaml", "--emulate", "--no-history")
    out = succeeded(user.ask("predict", *words)).out
    assert "25 tasks end after" in out
    assert "interval of the end: unknown" in out
    real = user.ask("predict", "montage.dax", "--sites", "sites.yaml", "--no-history")
    assert "input files are missing" in succeeded(real).err
    assert "25 tasks end after" in real.out
    found = json.loads(user.ask("predict", *words, "--json").out)
    kinds = {kind["type"]: kind for kind in found["types"]}
    near, far = kinds["mProjectPP"]["sites"]
    assert near["low_s"] < near["runtime_s"] < near["high_s"]
    assert far["runtime_s"] == pytest.approx(near["runtime_s"] / 2)
    assert sum(kind["tasks"] for kind in found["types"]) == 25


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("absent.dax", ["absent.dax"]),
        ("list.txt --method last", ["--method has no effect", "--log"]),
        ("list.txt --sites absent.yaml", ["absent.yaml"]),
        ("list.txt --policy best", ["best"]),
        ("list.txt --log log.swf", ["has no arguments"]),
        ("--log log.swf --sites sites.yaml", ["--sites has no effect", "prediction of a run"]),
    ],
)
def test_bad_input_with_documents(user: User, words: str, told: list[str]) -> None:
    remember(user, 9, 11)
    assert_refused(user.ask("predict", *words.split()), 2, told)


def test_methods_that_choose_their_own_history(user: User) -> None:
    found = {each["method"]: each for each in accuracies(user, "--log", "log.swf")
             if each["classification"] is None}  # fmt: skip
    assert list(found) == ["auto", "estimate", *(f"M{n}" for n in range(1, 13))]
    assert found["estimate"]["mean_error_s"] == pytest.approx(
        3600 - 150
    )  # 30 jobs of 100 s, 10 of 300 s
    assert found["M5"]["accuracy"] > found["estimate"]["accuracy"]
    (only,) = accuracies(user, "--log", "log.swf", "--method", "M5", "--window", "1")
    last = accuracies(user, "--log", "log.swf", "--method", "last", "--class", "user")
    # The first job of each of the two users gets its estimate of 3,600 s.
    assert 40 * only["mean_error_s"] == pytest.approx(38 * last[0]["mean_error_s"] + 2 * 3500)
    classes = {each["classification"] for each in accuracies(user, "--log", "log.swf",
               "--class", "chain")}  # fmt: skip
    assert classes == {"chain"}
