"""``wfrun jobs LOG --emulate --arrivals``: the jobs of a log are submitted at their times."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.runners.harness import User, assert_refused, wait_until

JOB = "{n} {at} 0 {run} 1 -1 -1 1 300 -1 1 {user} 1 1 1 1 -1 -1\n"


def log(user: User, *jobs: tuple[int, int, int], name: str = "log.swf") -> Path:
    """A log of jobs: submission and run time in seconds, and user of each."""
    path = user.folder / name
    lines = (JOB.format(n=n, at=at, run=run, user=u) for n, (at, run, u) in enumerate(jobs, 1))
    path.write_text("; Version: 2.2\n" + "".join(lines))
    return path


def events(user: User, kind: str) -> list[dict[str, object]]:
    lines = user.ask("events", "run", "--json").out.splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def test_each_job_comes_at_its_time(user: User) -> None:
    early = log(user, (0, 10, 1), (200, 10, 2))
    late = log(user, (0, 10, 3), (100, 10, 3), (400, 10, 3), name="other.swf")
    done = user.wfrun(
        "jobs", early, late, "--emulate", "--arrivals", "--time-scale", "0.01", "--run-dir", "run"
    )
    assert done.status == 0, done.text
    (begun,) = events(user, "run-started")
    added = events(user, "workflow-added")
    assert [event["name"] for event in added] == ["log-1", "other-1", "other-2", "log-2", "other-3"]
    for event, at_s in zip(added, (0, 0, 1, 2, 4), strict=True):
        late_s = float(str(event["at_s"])) - float(str(begun["at_s"])) - at_s
        assert 0 <= late_s < 30
    shares = json.loads(user.ask("shares", "run", "--json").out)
    assert {owner["owner"]: owner["done"] for owner in shares["owners"]} == {"1": 1, "2": 1, "3": 3}


@pytest.mark.slow
def test_jobs_that_were_due_while_no_engine_ran_come_with_the_next_one(user: User) -> None:
    found = log(user, (0, 1, 1), (100, 1, 1), (200, 1, 1), (2000, 1, 1))
    words = ("jobs", found, "--emulate", "--arrivals", "--time-scale", "0.01", "--run-dir", "run")
    engine = user.start(*words)
    assert wait_until(lambda: user.ask("status", "run").status == 0)
    assert wait_until(lambda: bool(events(user, "workflow-added")))
    engine.kill()
    time.sleep(2)
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    names = [str(event["name"]) for event in events(user, "workflow-added")]
    assert names == ["log-1", "log-2", "log-3", "log-4"]
    (begun,) = events(user, "run-started")
    last = float(str(events(user, "workflow-added")[-1]["at_s"]))
    assert last - float(str(begun["at_s"])) >= 20


@pytest.mark.slow
def test_a_run_with_jobs_to_come_can_be_cancelled_and_goes_on(user: User) -> None:
    found = log(user, (0, 1, 1), (3000, 1, 1))
    words = ("jobs", found, "--emulate", "--arrivals", "--time-scale", "0.01", "--run-dir", "run")
    engine = user.start(*words)
    assert wait_until(lambda: bool(user.ask("status", "run").status == 0))
    assert wait_until(lambda: bool(events(user, "attempt-ended")))
    assert user.ask("cancel", "run").status == 0
    assert engine.done().status == 130
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    assert len(events(user, "workflow-added")) == 2


def test_arrivals_need_a_log_that_is_emulated(user: User) -> None:
    found = log(user, (0, 1, 1))
    words = ["--arrivals has no effect without --emulate and a workload log"]
    assert_refused(user.ask("jobs", found, "--simulate", "--arrivals"), 2, words)
    yaml = user.folder / "jobs.yaml"
    yaml.write_text("jobs:\n  - {job: a, command: 'true', size: 1}\n")
    assert_refused(user.ask("jobs", yaml, "--emulate", "--arrivals"), 2, words)
