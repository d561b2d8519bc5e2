"""Launchers inside batch jobs: what they take, start, refuse, return and record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.sites.node.launchers.batch_launcher_rig import Engine, has_ended, wait_for
from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.sites.node import FOLDER
from wfrun.testing.probe import request, shell


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path / "run")
    yield engine
    engine.close()


def expected(attempt: AttemptRequest, expected_s: float) -> AttemptRequest:
    return msgspec.structs.replace(attempt, expected_s=expected_s)


def test_outcomes_of_tasks(engine: Engine) -> None:
    engine.start(walltime_s=3600, memory_bytes=1 << 30)
    hello = engine.accept()
    assert {**hello, "pid": 0, "host": ""} == {
        "hello": 1, "launcher": "run-s.1", "pid": 0, "host": "", "slots": 2, "gpus": 0,
        "memory_bytes": 1 << 30, "left_s": hello["left_s"], "node": 0, "nodes": 1, "session": 1,
    }  # fmt: skip
    assert 3500 < hello["left_s"] < 3600
    sandbox = engine.directory / "attempts" / "batch-1"
    engine.run(
        shell("batch-1", "pwd; echo $WFRUN_ATTEMPT", stdout="said", outputs={"said": "said"}),
        request("batch-2", "no-such-program"),
        shell("batch-3", "exit 127"),
        shell("batch-4", "true", outputs={"unwritten": "unwritten"}),
        request("batch-5", "true", cores=3),
        shell("batch-6", "sleep 60", walltime_s=0.3),
    )
    ends = engine.until_ended("batch-1", "batch-2", "batch-3", "batch-4", "batch-5", "batch-6")
    assert [end["cause"] for end in ends] == [
        "done", "launch-failed", "exit", "output", "launch-failed", "walltime",
    ]  # fmt: skip
    assert ends[2]["exit_code"] == 127
    assert "asks for 3 cores of 2" in ends[4]["message"]
    assert (engine.directory / "files" / "said").read_text() == f"{sandbox}\nbatch-1\n"
    # Each end was in the journal before it was reported.
    recorded = engine.ends()
    assert recorded == engine.outcomes()


def test_the_slots_are_what_the_job_has(engine: Engine) -> None:
    """The batch system's GPUs, and cores of our own for each task."""
    script = "echo $CUDA_VISIBLE_DEVICES; taskset -cp $$ | sed 's/.*: //'; sleep 0.3"
    resources = Resources(cores=1, gpus=1)
    engine.start(cores=2, gpus=2, pin_cores=True, env={"CUDA_VISIBLE_DEVICES": "3,5"})
    # What the batch system gives to the job is what job.py asks for.
    engine.accept()
    keys = ["batch-1", "batch-2"]
    tasks = [shell(key, script, stdout="said", outputs={"said": key}) for key in keys]
    engine.run(*[msgspec.structs.replace(task, resources=resources) for task in tasks])
    engine.until_ended(*keys)
    said = [(engine.directory / "files" / key).read_text().split() for key in keys]
    assert sorted(gpu for gpu, _ in said) == ["3", "5"]
    if len(os.sched_getaffinity(0)) >= 2:
        cores = {core for _, core in said}
        assert len(cores) == 2
        assert all(core.isdigit() for core in cores)


def test_queued_attempts_can_be_returned(engine: Engine) -> None:
    engine.start(cores=1)
    engine.accept()
    keys = [f"batch-{number}" for number in range(5)]
    engine.run(*[shell(key, "sleep 60") for key in keys])
    engine.until_started("batch-0")
    engine.say({"return": ["batch-0", "batch-2", "no-such"]})
    engine.until(lambda: engine.all_of("returned"))
    assert engine.all_of("returned") == ["batch-2"]
    engine.say({"cancel": ["batch-0", "batch-1"], "queued_only": True})
    (end,) = engine.until_ended("batch-1")
    assert end["cause"] == "cancelled"
    assert engine.ask(*keys, "no-such") == {
        "batch-0": {"state": "active"},
        "batch-1": {"state": "ended", "outcome": end},
        "batch-2": {"state": "absent"},
        "batch-3": {"state": "active"},
        "batch-4": {"state": "active"},
        "no-such": {"state": "absent"},
    }
    engine.say({"cancel": ["batch-0"]})
    assert engine.until_ended("batch-0")[0]["cause"] == "cancelled"
    engine.until_started("batch-3")


def test_a_task_that_would_outlast_the_launcher_is_returned(engine: Engine) -> None:
    engine.start(cores=1, walltime_s=100)
    left_s = engine.accept()["left_s"]
    begun = time.monotonic()
    engine.run(
        shell("long", "true", walltime_s=99),
        expected(shell("short-after-all", "true", walltime_s=99), 1.0),
        expected(shell("too-long", "true"), left_s + 1),
        shell("unlimited", "true", walltime_s=7200),
    )
    engine.until_ended("short-after-all", "unlimited")
    assert engine.all_of("returned") == ["long", "too-long"]
    # An attempt for which the time becomes too short while it waits.
    left_s -= time.monotonic() - begun
    engine.run(shell("busy", "sleep 60"), expected(shell("late", "true"), left_s - 0.5))
    engine.until(lambda: "late" in engine.all_of("returned"))
    assert "busy" not in engine.outcomes()


def test_an_attempt_is_started_by_its_claimant_alone(engine: Engine) -> None:
    """Two launchers get the same attempts; each attempt runs once."""
    keys = [f"batch-{number}" for number in range(60)]
    log = engine.directory / "log"
    tasks = [shell(key, f"echo {key} >>{log}") for key in keys]
    engine.start("run-s.1")
    engine.accept()
    engine.start("run-s.2")
    engine.accept()
    engine.run(*tasks)
    engine.links[0].say({"run": tasks})
    done: dict[str, str] = {}
    contested: list[str] = []
    for link in engine.links:
        mine = 0
        while mine < len(keys):
            message = link.receive()
            done.update({key: end["cause"] for key, end in message.get("ended", ())})
            contested += message.get("contested", ())
            mine += len(message.get("ended", ())) + len(message.get("contested", ()))
    assert done == dict.fromkeys(keys, "done")
    assert len(contested) == len(keys)
    assert sorted(log.read_text().split()) == sorted(keys)
    dropped = [
        key
        for launcher in ("run-s.1", "run-s.2")
        for line in engine.journal(f"{launcher}.jsonl")
        for key in line.get("dropped", ())
    ]
    assert sorted(dropped) == sorted(contested)


def test_ends_are_reported_again_when_an_attempt_is_sent_again(engine: Engine) -> None:
    engine.start()
    engine.accept()
    engine.run(request("batch-1", "true"))
    (end,) = engine.until_ended("batch-1")
    engine.received.clear()
    engine.run(request("batch-1", "true"))
    assert engine.until_ended("batch-1") == [end]
    assert not engine.all_of("contested")


def test_a_revoked_attempt_commits_nothing(engine: Engine) -> None:
    engine.start()
    engine.accept()
    engine.run(shell("batch-1", "echo 1 >a; sleep 0.5", outputs={"a": "a"}))
    engine.until_started("batch-1")
    (engine.directory / "attempts" / "batch-1.revoked").touch()
    (end,) = engine.until_ended("batch-1")
    assert end["cause"] == "lost"
    assert not (engine.directory / "files" / "a").exists()


def test_stop_drains_it(engine: Engine) -> None:
    engine.start(cores=1)
    engine.accept()
    engine.run(shell("batch-1", "sleep 0.5"), request("batch-2", "true"))
    engine.until_started("batch-1")
    engine.say({"stop": True})
    engine.until(lambda: "ending" in engine.received[-1])
    engine.run(request("batch-3", "true"))
    (end,) = engine.until_ended("batch-1")
    assert end["cause"] == "done"
    assert engine.all_of("returned") == ["batch-2", "batch-3"]
    with pytest.raises(EOFError):
        engine.receive()
    assert engine.record()["cause"] == "done"


def test_a_warm_interpreter_does_not_keep_it(engine: Engine) -> None:
    store = engine.directory / "files"
    shutil.copy(FOLDER / "alone/python_function.py", store / "wfrun_function.py")
    (store / "model.py").write_text("def seven():\n    return 7\n")
    words = ("wfrun_function.py", "model.py", "seven", "{}", "result")
    names = {"wfrun_function.py": "wfrun_function.py", "model.py": "model.py"}
    engine.start(cores=1)
    pid = engine.accept()["pid"]
    engine.run(request("batch-1", sys.executable, *words, inputs=names, outputs={"result": "r-1"}))
    assert engine.until_ended("batch-1")[0]["cause"] == "done"
    assert (store / "r-1").read_text() == "7"
    children = [
        int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ]
    assert len(children) == 1
    engine.say({"stop": True})
    assert engine.record()["cause"] == "done"
    assert has_ended(children[0])


def test_invalid_messages_are_reported(engine: Engine) -> None:
    engine.start()
    engine.accept()
    messages: tuple[object, ...] = (
        [],
        {"no": 1},
        {"run": 5},
        {"find": None, "id": 1},
        {"run": [{"key": "k"}]},
    )
    for message in messages:
        engine.say(message)
        engine.until(lambda: "error" in engine.received[-1])
        engine.received.pop()
    engine.run(request("batch-1", "true"))
    assert engine.until_ended("batch-1")[0]["cause"] == "done"


def test_a_full_disk_is_reported(engine: Engine) -> None:
    """Records that cannot be written are reported, kept, and written when there is room."""
    exits = engine.directory / "exits"
    try:
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(exits)]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    try:
        engine.start(cores=1)
        engine.accept()
        engine.run(
            shell("batch-1", f"head -c 1m /dev/zero >{exits}/ballast"), shell("batch-2", "true")
        )
        engine.until_ended("batch-1", "batch-2")
        engine.run(*[request(f"t-{number}", "true") for number in range(100)])
        engine.until(lambda: "failing" in engine.received[-1])
        assert "make room" in engine.received[-1]["failing"]
        engine.until_ended(*[f"t-{number}" for number in range(100)])
        (exits / "ballast").unlink()
        engine.until(lambda: "recovered" in engine.received[-1])
        recorded = engine.ends()
        assert recorded == engine.outcomes()
        engine.say({"stop": True})
        assert engine.record()["cause"] == "done"
    finally:
        engine.close()
        wait_for(lambda: subprocess.run(["umount", str(exits)], check=False).returncode == 0)


@pytest.mark.slow
def test_many_short_tasks(engine: Engine) -> None:
    engine.start()
    engine.accept()
    keys = [f"batch-{number}" for number in range(500)]
    engine.run(*[request(key, "true") for key in keys])
    ends = engine.until_ended(*keys)
    assert {end["cause"] for end in ends} == {"done"}
    assert len(engine.received) < len(keys) / 4, "news is gathered"
    assert len(json.dumps(engine.received)) < 400 * len(keys)
