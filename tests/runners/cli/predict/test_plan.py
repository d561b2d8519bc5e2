"""`wfrun plan`: a run that is simulated on the present state of the sites."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from tests.runners.harness import Done, Job, User, assert_refused, wait_until
from wfrun.engine.fitting.information import Information
from wfrun.engine.model import Catalog, Resources, SiteSpec
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.round_robin import RoundRobin
from wfrun.engine.settings import Settings
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.runners.forecast.plan_alternatives import candidates
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.simulated.queues import SimulatedJob

SITES = """\
sites:
  near: {slots: 2}
  far: {slots: 2, speed: 2}
links:
  - {between: [near, far], bandwidth: 100 MB/s, latency: 10 ms}
"""
EMULATED = ("--emulate", "--time-scale", "0.1")


@pytest.fixture
def user(user: User) -> User:
    """With a workflow and a catalog."""
    write_dax(generate("montage", 25, 1), user.folder / "montage.dax")
    user.catalog(SITES)
    return user


def files_in(folder: Path) -> list[Path]:
    """Without those of the harness."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def planned(done: Done) -> dict[str, Any]:
    assert done.status == 0, done.text
    document: dict[str, Any] = json.loads(done.out)
    return document


class Idle(BasePlacement):
    """Places nothing."""

    name = "idle"
    summary = "nothing"
    information = Information()

    def place(self, task: int) -> int | None:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "predict"])
def test_a_run_that_would_not_finish_has_a_reason_and_no_end(user: User, command: str) -> None:
    words = (command, "montage.dax", "--sites", "sites.yaml", "--policy", "idle", *EMULATED[:1])
    with patch.dict(PLACEMENT, {"idle": Idle}):
        shown, kept = user.ask(*words), user.ask(*words, "--json")
    assert (shown.status, kept.status) == (1, 1)
    head, reason, *_ = shown.out.splitlines()
    assert head.startswith("25 of 25 tasks would not end with idle")
    assert reason.startswith("25 of 25 tasks are not done: policy 'idle' places none")
    end = json.loads(kept.out)["run" if command == "plan" else "end"]
    assert end["makespan_s"] is None
    assert end["failure"].startswith(reason)
    if command == "plan":
        assert "best: --policy" in shown.out
        assert "sooner" not in shown.out


def test_a_plan_starts_nothing_and_says_where_its_numbers_come_from(user: User) -> None:
    before = files_in(user.folder)
    done = user.ask("plan", "montage.dax", "--sites", "sites.yaml", *EMULATED)
    assert done.status == 0, done.text
    for part in (
        "tasks end after", "near", "far", "critical path", " documented", "from the catalog",
        "assumed to be none at near, far", "best: ",
    ):  # fmt: skip
        assert part in done.out
    assert "load:" not in done.out  # emulated tasks sleep
    assert files_in(user.folder) == before


def test_sizes_are_documented_measured_or_assumed(user: User) -> None:
    (user.folder / "read").write_text("12345")
    jobs = [
        Job("a", "cp read made", inputs=("read",), outputs=("made",)),
        Job("b", "cat made", inputs=("made",)),
    ]
    options = ("--runtime", "10", "--no-history", "--compare", "0")
    plan = planned(user.ask("plan", user.write(jobs), *options, "--json"))
    assert plan["sources"]["sizes"] == {"documented": 0, "measured": 1, "assumed": 1}
    assert plan["run"]["copied_bytes"] == 5
    emulated = ("--sites", "sites.yaml", *EMULATED, "--compare", "0")
    plan = planned(user.ask("plan", "montage.dax", *emulated, "--json"))
    files = len(generate("montage", 25, 1).files)
    assert plan["sources"]["sizes"] == {"documented": files, "measured": 0, "assumed": 0}
    (user.folder / "list.txt").write_text("true\n")
    one = user.ask("plan", "list.txt", *options).out
    assert one.startswith("1 task ends after 10.0 s")
    assert "sizes:" not in one  # there is no file
    bag = ("plan", "list.txt", *options, "--output", "made-{index}", "--json")
    (user.folder / "list.txt").write_text("touch made\ntouch made\n")
    plan = planned(user.ask(*bag))
    assert plan["sources"]["sizes"] == {"documented": 0, "measured": 0, "assumed": 2}


def test_alternatives_that_use_most_information_come_first() -> None:
    """There may be time for few of them. Without jobs of others heft-p is heft."""
    platform = Platform(Catalog((SiteSpec("near", 2),)))
    policies = [each.policy for each in candidates(Settings(), platform)]
    assert policies[0] == "heft"
    assert policies.index("heft-p") > policies.index("cluster-min")
    busy = Platform(platform.catalog, background={"near": [SimulatedJob(0.0, 9.0, 1, 9.0)]})
    policies = [each.policy for each in candidates(Settings(), busy)]
    assert policies[:2] == ["heft", "heft-p"]


def test_a_plan_of_one_task_after_another_takes_their_sum(user: User) -> None:
    (user.folder / "chain.dax").write_text(
        '<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="chain">'
        '<job id="a" name="one" runtime="4"/><job id="b" name="two" runtime="6"/>'
        '<child ref="b"><parent ref="a"/></child></adag>'
    )
    options = ("--emulate", "--policy", "heft", "--compare", "0", "--json")
    plan = planned(user.ask("plan", "chain.dax", "--sites", "sites.yaml", *options))
    assert plan["run"]["makespan_s"] == pytest.approx(5.0)
    assert [task["task"] for task in plan["run"]["critical_path"]] == ["a", "b"]
    near, far = plan["run"]["sites"]
    assert (near["tasks"], far["tasks"]) == (0, 2)
    assert (plan["run"]["copied_bytes"], plan["run"]["collected_bytes"]) == (0, 0)
    assert far["core_hours"] == pytest.approx(5.0 / 3600)
    assert plan["comparison"]["alternatives"] == []  # there was no time for any


def test_a_faster_policy_is_named(user: User) -> None:
    options = ("--emulate", "--policy", "single-cluster", "--compare", "60", "--json")
    plan = planned(user.ask("plan", "montage.dax", "--sites", "sites.yaml", *options))
    arriving = [each["bytes_from_here"] + each["bytes_from_sites"] for each in plan["run"]["sites"]]
    assert plan["run"]["copied_bytes"] == sum(arriving) > 0
    best = plan["comparison"]["alternatives"][0]
    assert best["makespan_s"] < plan["run"]["makespan_s"]
    assert best["policy"] != "single-cluster"


@pytest.mark.slow
def test_a_policy_that_raises_is_left_out_of_the_comparison(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(RoundRobin):
        def place(self, *_: object) -> NoReturn:
            raise KeyError("no such site")

    class Unmade(RoundRobin):
        def __init__(self, *_: object) -> None:
            raise RuntimeError("not today")

    for policy in (Broken, Unmade):
        monkeypatch.setitem(PLACEMENT, policy.__name__.lower(), policy)
    options = ("montage.dax", "--sites", "sites.yaml", "--emulate", "--compare", "60")
    plan = planned(user.ask("plan", *options, "--json"))
    assert set(plan["comparison"]["broken"]) == {"broken", "unmade"}
    assert len(plan["comparison"]["alternatives"]) > 5
    out = user.ask("plan", *options).out
    assert "policy 'broken' raised KeyError: 'no such site'" in out
    assert "test_plan.py:" in out
    assert "policy 'unmade' raised RuntimeError: not today" in out
    refused = user.ask("plan", *options, "--policy", "broken")
    assert "policy 'broken' raised" in refused.err


def test_a_site_that_cannot_be_reached_has_no_part_in_the_plan(user: User) -> None:
    user.catalog(
        "sites:\n  near: {slots: 2}\n"
        "  gone: {kind: ssh, host: 127.0.0.1, port: 1, user: me, slots: 2}\n"
    )
    done = user.ask(
        "plan", "montage.dax", "--sites", "sites.yaml", "--emulate", "--at-sites", "--compare", "0"
    )
    assert done.status == 0, done.text
    assert "without gone: it is down: " in done.out
    user.catalog("sites:\n  gone: {kind: ssh, host: 127.0.0.1, port: 1, user: me, slots: 2}\n")
    done = user.ask("plan", "montage.dax", "--sites", "sites.yaml", "--emulate", "--at-sites")
    assert done.status == 3
    assert "no site can be reached; gone: " in done.err


def test_a_task_that_fits_only_a_site_that_is_down_is_an_error_that_says_so(user: User) -> None:
    user.catalog(
        "sites:\n  near: {slots: 1}\n"
        "  gone: {kind: ssh, host: 127.0.0.1, port: 1, user: me, slots: 8}\n"
    )
    document = user.write([Job("wide", "true", resources=Resources(cores=4))])
    options = ("--sites", "sites.yaml", "--emulate", "--at-sites", "--compare", "0")
    done = user.ask("plan", document, *options)
    assert_refused(done, 2, ["'wide' fits no site", "near: 1 core", "gone is down"])


def test_links_without_a_bandwidth_are_assumed_to_take_no_time(user: User) -> None:
    user.catalog("sites:\n  near: {slots: 2}\n  far: {slots: 2}\n")
    options = ("--sites", "sites.yaml", *EMULATED, "--compare", "0", "--json")
    plan = planned(user.ask("plan", "montage.dax", *options))
    assert plan["sources"]["links"] == {"catalog": 0, "measured": 0, "assumed": 6}


def test_run_times_are_documented_predicted_or_assumed(user: User, tmp_path: Path) -> None:
    (user.folder / "list.txt").write_text("true\nsleep 0\n")
    assert_refused(
        user.ask("plan", "list.txt", "--no-history"), 2, ["list.txt", "--runtime SECONDS"]
    )
    assumed = ("--no-history", "--runtime", "30", "--compare", "0", "--json")
    plan = planned(user.ask("plan", "list.txt", *assumed))
    assert plan["sources"]["runtimes"] == {"documented": 0, "predicted": 0, "assumed": 2}

    history = tmp_path / "history.sqlite"
    assert user.wfrun("run", "list.txt", "--history", history).status == 0
    with contextlib.closing(sqlite3.connect(history)) as db, db:
        for row, body in db.execute("SELECT rowid, observations FROM classes").fetchall():
            slower = [[ended_s, 50.0, *rest] for ended_s, _, *rest in json.loads(body)]
            changed = json.dumps(slower).encode()
            db.execute("UPDATE classes SET observations = ? WHERE rowid = ?", (changed, row))
    options = ("--history", history, "--runtime", "30", "--compare", "0", "--json")
    plan = planned(user.ask("plan", "list.txt", *options))
    assert plan["sources"]["runtimes"] == {"documented": 0, "predicted": 2, "assumed": 0}
    assert plan["run"]["makespan_s"] == pytest.approx(50.0, abs=5.0)


@pytest.mark.slow
def test_a_run_takes_as_long_as_its_plan_says(user: User) -> None:
    """The run comes first, so that the plan has the overheads of this machine as it is now."""
    sites = ("--sites", "sites.yaml", *EMULATED)
    assert user.wfrun("run", "montage.dax", *sites).status == 0
    (run,) = json.loads(user.wfrun("stats", "--json").out)
    plan = planned(user.ask("plan", "montage.dax", *sites, "--compare", "0", "--json"))
    assert plan["sources"]["measured_overheads"] == ["near", "far"]
    assert plan["run"]["makespan_s"] == pytest.approx(run["total"]["makespan_s"], rel=0.15)


@pytest.mark.slow
def test_the_rest_of_a_run_is_planned_from_where_its_files_are(user: User) -> None:
    """The task that is done is not in the plan; the two others read its output."""
    jobs = [
        Job("a", "echo a > made", outputs=("made",)),
        Job("b", "cat made; test -e {0}/go", inputs=("made",)),
        Job("c", "cat made; test -e {0}/go", inputs=("made",)),
    ]
    jobs = [job._replace(script=job.script.format(user.folder)) for job in jobs]
    user.catalog("sites:\n  near: {slots: 1}\n")
    document = user.write(jobs)
    options = ("--sites", "sites.yaml", "--retries", "0", "--no-history")
    assert user.wfrun("run", document, *options).status == 1
    before = files_in(user.folder / "wfrun-runs")
    plan = planned(user.ask("resume", "--plan", "last", "--json"))
    assert plan["run"]["tasks"] == 2
    assert plan["run"]["copied_bytes"] == 0
    assert [step["task"] for step in plan["run"]["critical_path"]] == ["c"]
    assert plan["sources"]["runtimes"] == {"documented": 0, "predicted": 2, "assumed": 0}
    assert files_in(user.folder / "wfrun-runs") == before
    assert "2 tasks end after" in user.ask("resume", "--plan", "last").out
    (user.folder / "go").touch()
    assert user.wfrun("resume").status == 0
    assert_refused(user.ask("resume", "--plan", "last"), 2, ["nothing to plan"])


@pytest.mark.slow
def test_the_rest_of_a_running_and_of_a_killed_run_is_planned(user: User) -> None:
    jobs = [
        Job("a", "echo a > made", outputs=("made",)),
        Job("b", "cat made; touch {0}/begun; until test -e {0}/go; do sleep 0.1; done",
            inputs=("made",)),
        Job("c", "true", parents=("b",)),
    ]  # fmt: skip
    jobs = [job._replace(script=job.script.format(user.folder)) for job in jobs]
    engine = user.start("run", user.write(jobs), "--no-history")
    assert wait_until((user.folder / "begun").exists), engine.told
    running = planned(user.ask("resume", "--plan", "last", "--json"))
    engine.kill()
    killed = planned(user.ask("resume", "--plan", "last", "--json"))
    for plan in (running, killed):
        assert [step["task"] for step in plan["run"]["critical_path"]] == ["b", "c"]
        assert plan["run"]["copied_bytes"] == 0
    (user.folder / "go").touch()
    assert user.wfrun("resume").status == 0
