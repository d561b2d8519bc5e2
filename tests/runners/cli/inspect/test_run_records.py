"""``--json`` of the commands that show runs."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.runners.harness import User


def printed(user: User, *words: str) -> Any:
    done = user.wfrun(*words)
    assert done.status == 0, done.text
    return json.loads(done.out)


def test_the_state_of_a_run(user: User) -> None:
    (user.folder / "t.csv").write_text("n\n0\n3\n")
    name = os.fsdecode(b"run-\xff\x1b")
    words = ("t.csv", "--command", "sh -c 'exit {n}'", "--run-dir", f"wfrun-runs/{name}")
    assert user.wfrun(*words, "--retries", "1").status == 1
    status = printed(user, "status", "--json")
    assert (status["name"], status["state"], status["policy"]) == (name, "failed", "file-aware")
    tasks = {"total": 2, "done": 1, "failed": 1, "blocked": 0, "waiting_to_retry": 0,
             "not_needed": 0}  # fmt: skip
    assert status["tasks"] == status["workflows"][0]["tasks"] == tasks
    assert status["attempts"] == {"staging": 0, "queued": 0, "running": 0, "failed": 2}
    (site,) = status["sites"]
    assert (site["tasks_done"], site["attempts"]) == (1, status["attempts"])
    assert [(f["task"], f["cause"], f["final"]) for f in status["failures"]] == [
        ("sh-1", "exit", False), ("sh-1", "exit", True),
    ]  # fmt: skip
    (listed,) = printed(user, "list", "--json")
    assert listed == {key: status[key] for key in listed}


def test_runs_that_cannot_be_read(user: User) -> None:
    assert printed(user, "list", "--json") == []
    run = user.folder / "wfrun-runs" / "bad-1"
    run.mkdir(parents=True)
    (run / "events.sqlite").write_bytes(b"no database")
    (listed,) = printed(user, "list", "--json")
    assert (listed["name"], listed["state"], listed["tasks"]) == ("bad-1", "unreadable", None)
    assert listed["reason"]
