"""``wfrun export`` of a run that goes on, and of one whose engine was killed."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any

from tests.runners.harness import Job, User, lines_of, wait_until


def exported(user: User, form: str, output: str) -> str:
    """The messages of an export of the run."""
    done = user.ask("export", "run", "--format", form, "-o", output)
    assert done.status == 0, done.text
    return done.err


def workflow(user: User) -> dict[str, Any]:
    exported(user, "wfformat", "run.json")
    document: dict[str, Any] = json.loads((user.folder / "run.json").read_text())
    return document


def crate(user: User) -> dict[str, dict[str, Any]]:
    exported(user, "ro-crate", "crate")
    document = json.loads((user.folder / "crate/ro-crate-metadata.json").read_text())
    return {entity["@id"]: entity for entity in document["@graph"]}


def rows(user: User) -> list[dict[str, str]]:
    exported(user, "trace", "run.csv")
    with open(user.folder / "run.csv", newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_a_running_and_a_killed_run(user: User) -> None:
    go = user.folder / "go"
    script = f"echo x >> {go}.1; while ! [ -e {go} ]; do sleep 0.1; done"
    jobs = [Job("a", "true"), Job("b", script, parents=["a"])]
    engine = user.start(user.write(jobs), "--run-dir", "run")
    assert wait_until(lambda: len(lines_of(Path(f"{go}.1"))) == 1)
    assert wait_until(lambda: rows(user)[-1]["state"] == "running")
    first, second = rows(user)
    assert (first["task_id"], first["state"]) == ("a", "done")
    assert second["started_s"]
    assert second["ended_s"] == second["run_time_s"] == second["exit_code"] == ""
    assert "left out: 1" in exported(user, "trace", "run.swf")
    document = workflow(user)
    assert [task["id"] for task in document["workflow"]["execution"]["tasks"]] == ["a"]
    assert "run run: running, 1 of 2" in document["description"]
    found = crate(user)
    assert found["#run"]["actionStatus"].endswith("/ActiveActionStatus")
    assert "endTime" not in found["#run"]
    assert sum(name.startswith("#attempt-") for name in found) == 1
    engine.signal(signal.SIGKILL)
    assert wait_until(lambda: engine.ended)
    document = workflow(user)
    assert [task["id"] for task in document["workflow"]["execution"]["tasks"]] == ["a"]
    assert "run run: interrupted, 1 of 2" in document["description"]
    found = crate(user)
    assert found["#run"]["actionStatus"].endswith("/FailedActionStatus")
    assert found["#run"]["error"] == "interrupted: 1 of 2 tasks are not done, 0 failed"
    assert [row["state"] for row in rows(user)] == ["done", "running"]
