"""``wfrun explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runners.harness import Job, User, lines_of, wait_until
from tests.runners.run.store.test_old_runs import restore

SITES = """
sites:
  alpha: {slots: 2}
  beta: {slots: 1}
"""


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def explained(user: User, run: Path, task: str, *words: str) -> str:
    """What the command prints, with spaces in place of line ends."""
    done = user.ask("explain", run, task, *words)
    assert done.status == 0, done.text
    assert all(len(line) <= 80 for line in done.out.splitlines() if str(run) not in line)
    return " ".join(done.out.split())


def document(user: User, run: Path, task: str, *words: str) -> dict[str, Any]:
    """The JSON document of a task."""
    done = user.ask("explain", run, task, "--json", *words)
    assert done.status == 0, done.text
    (found,) = json.loads(done.out)["tasks"]
    assert isinstance(found, dict)
    return found


def test_a_run_while_it_runs_after_it_was_killed_and_after_its_end(user: User) -> None:
    run, go, begun = user.folder / "run", user.folder / "go", user.folder / "begun"
    wait = f"echo x >> {begun}; while ! [ -e {go} ]; do sleep 0.1; done; echo > "
    jobs = [
        Job("first", wait + "f", [], ["f"]),
        Job("second", wait + "s", [], ["s"]),
        Job("third", "true"),
        Job("join", "cat f s > j", ["f", "s"], ["j"], ["j"]),
    ]
    words = "--sites", user.catalog(SITES), "--policy", "all-clusters", "--throttle", "2"
    engine = user.start(user.write(jobs), "--run-dir", run, *words)
    assert wait_until(lambda: len(lines_of(begun)) == 2)
    assert wait_until(lambda: "runs at alpha for" in explained(user, run, "first"))
    text = explained(user, run, "second")
    assert "why attempt 1 is at beta: policy all-clusters" in text
    assert 'decided by "load"; ranked by least "load"' in text
    text = explained(user, run, "join")
    assert "task join of jobs waits for predecessors" in text
    assert "task first runs at alpha for" in text
    text = explained(user, run, "third")
    assert "waits for a site throttle (2) reached: 2 tasks of jobs dispatched" in text
    assert "policy all-clusters would send it to alpha now" in text
    assert "nothing drives the run" not in text
    text = explained(user, run, "--site", "alpha")
    assert "site alpha: 1 of 2 cores used attempts: 1 running idle: throttle (2) reached" in text
    assert "next task: third of jobs policy all-clusters would send it to alpha now" in text
    text = explained(user, run, "--site", "beta")
    assert "site beta: 1 of 1 core used attempts: 1 running no core is idle" in text

    engine.kill()
    text = explained(user, run, "third")
    assert "nothing drives the run; to continue: wfrun resume" in text
    assert "throttle (2) reached" in text
    text = explained(user, run, "--site", "alpha")
    assert "nothing drives the run; to continue: wfrun resume" in text

    go.touch()
    assert user.wfrun("resume", run).status == 0
    site = user.ask("explain", run, "--site", "alpha", "--json")
    assert json.loads(site.out)["reason"] is None
    assert "the run has ended: done" in explained(user, run, "--site", "alpha")
    text = explained(user, run, "join")
    assert "task join of jobs is done" in text
    found = document(user, run, "join")
    assert found["reasons"] == []
    assert [(a["number"], a["outcome"]) for a in found["attempts"]] == [(1, "done")]
    decision = found["decision"]
    assert decision["is_repeated"]
    assert decision["columns"] == [{"name": "load", "unit": "", "prefers": "least"}]
    assert [row["site"] for row in decision["scores"]] == ["alpha", "beta"]
    assert decision["site"] == found["attempts"][0]["site"]


def test_a_failed_run(user: User) -> None:
    run = user.folder / "run"
    jobs = [
        Job("bad", "echo broken >&2; exit 3"),
        Job("next", "true", parents=["bad"]),
        Job("after", "true", parents=["next"]),
    ]
    words = "--sites", user.catalog(SITES), "--retries", "1", "--retry-delay", "0"
    assert user.wfrun(user.write(jobs), "--run-dir", run, *words).status == 1
    text = explained(user, run, "bad")
    assert "task bad of jobs has failed" in text
    assert "exit 3" in text
    assert "attempt 2: broken" in text
    assert "why attempt 2 is at beta" in text
    assert "alpha: the task has failed there" in text
    assert "beta is the only candidate" in text
    assert "why attempt 1 is at alpha" in explained(user, run, "bad", "--attempt", "1")
    text = explained(user, run, "after")
    assert "is blocked" in text
    assert "task bad before it has failed" in text
    assert document(user, run, "after")["decision"] is None
    failures = " ".join(user.ask("failures", run).out.split())
    assert "1 task (2 failed attempts) × exit 3: broken, first: task bad at beta" in failures


def test_names_that_are_wrong(user: User) -> None:
    run = user.folder / "run"
    assert user.wfrun(user.write([Job("fit-1", "true")]), "--run-dir", run).status == 0
    refused = user.ask("explain", run, "fit1")
    assert refused.status == 2
    assert "did you mean fit-1?" in refused.err
    refused = user.ask("explain", run, "fit-1", "--attempt", "2")
    assert refused.status == 2
    assert "has 1 attempt" in refused.err
    assert user.ask("explain", user.folder / "none", "fit-1").status == 2
    refused = user.ask("explain", run, "--site", "locale")
    assert refused.status == 2
    assert "its sites: local" in refused.err
    for words in ([], ["fit-1", "--site", "local"], ["--site", "local", "--attempt", "1"]):
        assert user.ask("explain", run, *words).status == 2


@pytest.mark.parametrize(
    ("kind", "site", "why"),
    [
        ("launchers-stopped", "alpha", "it has no cores now"),
        ("launchers", "alpha", "5 cores used"),
        ("observed-ect", "beta", "paused: it is tried with one attempt at a time after a failure"),
        ("observed-ect", "gamma", "paused: its scheduler does not answer"),
        ("observed-ect", "delta", "4 tasks in its queue, other users hold or want 4 cores"),
        ("observed-heft", "delta", "policy heft gave it no more: slower by 4.0"),
        ("managers", "beta", "next task: work-5 of q no site can take it now alpha: not a site of"),
    ],
)
def test_why_sites_of_recorded_runs_are_idle(user: User, kind: str, site: str, why: str) -> None:
    restore(user, kind)
    text = explained(user, user.folder / "run", "--site", site)
    assert why in text
    assert "gets no more" not in text


def test_a_log_without_events(user: User) -> None:
    """As after a power failure."""
    (run := user.folder / "half").mkdir()
    (run / "events.sqlite").touch()
    refused = user.ask("explain", run, "x")
    assert refused.status == 2
    assert "never started" in refused.err


def test_output_of_tasks_reaches_no_terminal_as_it_is(user: User) -> None:
    run = user.folder / "run"
    jobs = [Job("a", r"printf 'bad \033[31m\302\233' >&2; exit 1")]
    assert user.wfrun(user.write(jobs), "--run-dir", run, "--retries", "0").status == 1
    for words in ([], ["--json"]):
        out = user.ask("explain", run, "a", *words).out
        assert "bad" in out
        assert "\x1b" not in out
        assert "\x9b" not in out
