"""Launchers of another boot, perhaps of another machine: they are waited for as long as their
heartbeat shows that they live, and no longer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sites.node.launchers.test_launcher import Talk
from wfrun.sites.node.tasks import processes
from wfrun.testing.probe import shell

ALPHA = {"host": "alpha", "boot": "b1", "machine": "1" * 32, "pid": 7, "start_s": 1.0}


@pytest.fixture
def talks() -> Iterator[list[Talk]]:
    made: list[Talk] = []
    yield made
    for talk in made:
        talk.close()


def leave(
    site: Path, owner: dict[str, Any], pid: int = 7, start_s: float = 1.0, key: str = "boot-1"
) -> Path:
    """The journal of a launcher that has started an attempt, and its claim."""
    for name in ("attempts", "exits"):
        (site / name).mkdir(parents=True)
    started = [key, pid, start_s, 1, 0, [], []]
    lines = [{"launcher": owner}, {"queued": [key]}, {"started": [started]}]
    journal = site / "exits" / "old.jsonl"
    journal.write_text("".join(json.dumps(m) + "\n" for m in lines))
    (site / "attempts" / f"{key}.out").touch()
    return journal


def state(talk: Talk, key: str = "boot-1") -> str:
    """The state of an attempt; the hosts that are waited for are kept in ``talk.started``."""
    talk.say({"find": [key], "id": 1})
    while "found" not in (answer := talk.receive()):
        talk.started.update(answer.get("elsewhere", ()))
    found = answer["found"][key]
    return str(found["outcome"]["cause"] if "outcome" in found else found["state"])


@pytest.mark.slow
def test_it_is_waited_for_while_its_heart_beats(tmp_path: Path, talks: list[Talk]) -> None:
    journal = leave(tmp_path, {**ALPHA, "beats": True})
    talks.append(talk := Talk(tmp_path, patience_s=5.0))
    end_s = time.monotonic() + 1.5
    while time.monotonic() < end_s:
        os.utime(journal)
        assert state(talk) == "active"
        time.sleep(0.05)
    assert "alpha" in talk.started
    assert talk.until_ended("boot-1")["cause"] == "lost"


@pytest.mark.parametrize("dead", [(), ("beta",), ("alpha",)])
def test_a_launcher_without_a_heartbeat(
    tmp_path: Path, talks: list[Talk], dead: tuple[str, ...]
) -> None:
    """Of wfrun 0.1: only the user can tell that it is dead."""
    leave(tmp_path, ALPHA)
    talks.append(talk := Talk(tmp_path, patience_s=0.2, dead_hosts=dead))
    time.sleep(1.0)
    assert state(talk) == ("lost" if "alpha" in dead else "active")


def test_a_journal_whose_first_line_was_lost_with_the_power(
    tmp_path: Path, talks: list[Talk]
) -> None:
    journal = leave(tmp_path, ALPHA)
    owner, rest = journal.read_bytes().split(b"\n", 1)
    journal.write_bytes(bytes(len(owner) + 1) + rest)
    talks.append(talk := Talk(tmp_path, patience_s=0.2))
    end_s = time.monotonic() + 100
    while state(talk) == "active":
        assert time.monotonic() < end_s, "nobody can write into it any more"
        time.sleep(0.05)
    assert state(talk) == "lost"


def test_a_machine_that_came_back_under_its_name(tmp_path: Path, talks: list[Talk]) -> None:
    leave(tmp_path, {**processes.identity(), "boot": "before", "beats": True})
    talks.append(talk := Talk(tmp_path))
    assert state(talk) == "lost"


def test_another_machine_of_the_same_name(tmp_path: Path, talks: list[Talk]) -> None:
    """As many laptops and containers are named `localhost`."""
    here = processes.identity()
    if not here["machine"]:
        pytest.skip("this machine has no machine-id")
    leave(tmp_path, {**ALPHA, "host": here["host"], "beats": True})
    talks.append(talk := Talk(tmp_path, patience_s=1000.0))
    assert state(talk) == "active"


def test_a_pid_of_another_boot_is_nobody(tmp_path: Path, talks: list[Talk]) -> None:
    """After a restart the same pid can start at the same second."""
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        start_s = processes.start_time(bystander.pid)
        assert start_s is not None
        owner = {**processes.identity(), "boot": "before"}
        leave(tmp_path, owner, bystander.pid, start_s)
        talks.append(talk := Talk(tmp_path))
        assert state(talk) == "lost"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_launcher_that_wakes_up_after_it_was_taken_for_dead(
    tmp_path: Path, talks: list[Talk]
) -> None:
    """As of a laptop that slept: its task has ended meanwhile, and its outputs are no longer
    wanted, since the task was started again elsewhere."""
    go = tmp_path / "go"
    script = f"echo old > out; until [ -e {go} ]; do sleep 0.01; done"
    talks.append(talk := Talk(tmp_path / "site", patience_s=0.4))
    attempts = [shell(key, script, outputs={"out": key}) for key in ("boot-1", "boot-2")]
    talk.run(*attempts)
    for key in ("boot-1", "boot-2"):
        talk.until_started(key)
    talk.process.send_signal(signal.SIGSTOP)
    lost = json.dumps({"ended": [["boot-1", {"cause": "lost"}]]})
    (tmp_path / "site" / "exits" / "other.jsonl").write_text(
        json.dumps({"launcher": {**ALPHA, "beats": True}}) + "\n" + lost + "\n"
    )
    go.touch()
    time.sleep(0.6)
    talk.process.send_signal(signal.SIGCONT)
    assert talk.until_ended("boot-1")["cause"] == "lost"
    assert talk.until_ended("boot-2")["cause"] == "done"
    assert [path.name for path in (tmp_path / "site" / "files").iterdir()] == ["boot-2"]
