"""``wfrun tasks`` and ``wfrun failures``, of runs that are running and that have ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

import wfrun
from tests.runners.harness import Job, User, lines_of, make_workflow, wait_until
from wfrun.engine.exchange import Cause
from wfrun.runners.cli.inspect import tasks_command
from wfrun.runners.inspect.failures.failure_report import advice
from wfrun.runners.inspect.tables import task_list


def listed(user: User, *words: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(user.ask("tasks", *words, "--json").out)["tasks"]
    return found


def states(tasks: list[dict[str, Any]]) -> dict[str, str]:
    return {task["task"]: task["state"] for task in tasks}


def test_a_run_is_listed_while_it_runs_and_after_its_end(user: User) -> None:
    run, go = user.folder / "run", user.folder / "go"
    wait = f"echo x >> {go}.1; while ! [ -e {go} ]; do sleep 0.1; done"
    jobs = [
        Job("bad", "echo 'no survey s1' >&2; exit 3"),
        Job("held", "true", parents=["bad"]),
        Job("long", wait),
        Job("next", "true", parents=["long"]),
    ]
    engine = user.start(user.write(jobs), "--run-dir", run, "--retries", "0")
    assert wait_until(lambda: len(lines_of(Path(f"{go}.1"))) == 1)
    assert wait_until(lambda: states(listed(user, run, "--failed")) == {"bad": "failed"})
    assert wait_until(lambda: states(listed(user, run)) == {"long": "running", "next": "waiting"})
    (long,) = listed(user, run, "--state", "running")
    assert (long["site"], long["attempts"], long["type"]) == ("local", 1, "sh")
    assert long["time_s"] >= 0
    assert states(listed(user, run, "--state", "blocked")) == {"held": "blocked"}
    assert listed(user, run, "--type", "other*") == []
    assert len(listed(user, run, "--type", "s*", "--site", "local")) == 1
    (group,) = json.loads(user.ask("failures", run, "--json").out)
    assert (group["cause"], group["tasks"], group["sites"]) == ("exit 3", 1, {"local": 1})
    assert "wfrun resume" not in group["advice"]  # the engine still drives it
    assert json.loads(user.ask("stats", run, "--json").out)[0]["state"] == "running"
    go.touch()
    assert engine.done().status == 1
    assert listed(user, run) == []
    assert states(listed(user, run, "--state", "done")) == {"long": "done", "next": "done"}
    (bad,) = listed(user, run, "--failed")
    assert bad["host"] is not None
    shown = user.ask("tasks", run, "--state", "done", "--limit", "1").out
    assert "and 1 more task" in shown
    shown = user.ask("failures", run).out
    assert "1 task × exit 3: no survey s1, first: task bad" in shown
    assert "sites: local 1" in shown
    assert "wfrun logs" in shown
    assert "wfrun resume" in shown


def test_a_site_that_the_run_does_not_have(user: User) -> None:
    run = user.folder / "run"
    wfrun.run(make_workflow([Job("a", "true")]), run_dir=run)
    refused = user.ask("tasks", run, "--site", "locla")
    assert refused.status == 2
    assert "its sites: local" in refused.err
    assert "no attempt has failed" in user.ask("failures", run).out


@pytest.mark.slow
def test_what_a_task_prints_is_shown_as_text(user: User) -> None:
    run = user.folder / "run"
    job = Job("a", r"printf 'bad \033[31m\302\233[bold]' >&2; exit 1")
    wfrun.run(make_workflow([job]), run_dir=run, retries=0)
    for words in ([], ["--json"]):
        out = user.ask("failures", run, *words).out
        assert "[bold]" in out
        assert "\x1b" not in out
        assert "\x9b" not in out


def test_the_states_of_the_option_are_those_of_tasks() -> None:
    assert tasks_command.STATES == task_list.STATES


def test_every_cause_has_an_advice() -> None:
    without = {
        cause for cause in get_args(Cause)
        if advice(cause, logs="logs", resume="resume", retried=False) is None
    }  # fmt: skip
    assert without == {"done", "cancelled", "reclaimed"}
