"""Launchers under a low limit on open files, and errors that say nothing about a task."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.sites.node.launchers.batch_launcher_rig import Engine, wait_for
from tests.sites.node.launchers.test_launcher import Talk
from wfrun.testing.probe import request, shell

STALE_TWICE = """
import errno, os, runpy, sys
rename = os.rename
left = [2]
def stale(source, target):
    if target.endswith("files/second") and left[0]:
        left[0] -= 1
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    rename(source, target)
os.rename = stale
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
REPLY_IS_LOST = """
import os, runpy, sys
rename = os.rename
def rename_twice(source, target):
    rename(source, target)
    if "/files/" in target:
        rename(source, target)
os.rename = rename_twice
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Programs for `python -c`: the file system fails as NFS may."""
HASHES_SLOWLY = """
import json, os, runpy, sys, time
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
import digests
place = json.loads(sys.argv[1])["directory"]
made = []
class KnownDigests(digests.OutputDigests):
    def __init__(self):
        super().__init__()
        made.append(self)
class SlowReading(digests.Reading):
    def run(self):
        open(place + "/reading", "w").close()
        while not os.path.exists(place + "/go"):
            time.sleep(0.01)
        super().run()
digests.INLINE_BYTES, digests.OutputDigests, digests.Reading = 0, KnownDigests, SlowReading
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    with open(place + "/left", "w") as left:
        left.write(str(sum(len(one._readings) for one in made)))
"""
"""Program for `python -c`: a thread hashes each output, and waits for the file `go`. In the end the
file `left` has the number of threads that the launcher still knows."""


class Launcher:
    """A launcher of one of the two kinds, under limits on open files."""

    def __init__(self, directory: Path, kind: str, soft: int, hard: int, slots: int) -> None:
        self.directory = directory
        prefix = ("prlimit", f"--nofile={soft}:{hard}")
        self.run_id = secrets.token_hex(8)
        self.talk: Talk | Engine
        if kind == "direct":
            self.talk = Talk(directory, slots, prefix=prefix)
            return
        self.talk = Engine(directory)
        self.talk.start(f"{self.run_id}.l", prefix=prefix, cores=slots)
        self.talk.accept()

    def run(self, script: str, count: int) -> list[str]:
        """Run a script as many tasks; returns their keys."""
        keys = [f"{self.run_id}.{n}" for n in range(count)]
        self.talk.run(*(shell(key, script) for key in keys))
        return keys

    def until_started(self, keys: list[str]) -> None:
        for key in keys:
            self.talk.until_started(key)

    def causes(self, keys: list[str]) -> set[str]:
        """The causes with which these attempts end."""
        if isinstance(self.talk, Engine):
            return {outcome["cause"] for outcome in self.talk.until_ended(*keys)}
        return {self.talk.until_ended(key)["cause"] for key in keys}

    def printed(self, keys: list[str]) -> set[str]:
        return {(self.directory / "attempts" / f"{key}.out").read_text() for key in keys}


@pytest.fixture(params=["direct", "batch"])
def launch(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[int, int, int], Launcher]]:
    started: list[Launcher] = []

    def start(soft: int, hard: int, slots: int) -> Launcher:
        started.append(Launcher(tmp_path / "site", request.param, soft, hard, slots))
        return started[-1]

    yield start
    for launcher in started:
        launcher.talk.close()


Launch = Callable[[int, int, int], Launcher]


def test_more_slots_than_files_are_used_as_far_as_files_allow(launch: Launch) -> None:
    launcher = launch(64, 64, 100)
    keys = launcher.run("echo $1; sleep 0.02", 150)
    assert launcher.causes(keys) == {"done"}


@pytest.mark.slow
def test_the_limit_on_open_files_is_raised_for_the_launcher_alone(launch: Launch) -> None:
    """All tasks run at the same time, each with the limit that the launcher was started with."""
    launcher = launch(64, 4096, 100)
    go = launcher.directory / "go"
    keys = launcher.run(f"ulimit -Sn; while ! test -e {go}; do sleep 0.1; done", 100)
    launcher.until_started(keys)
    go.touch()
    assert launcher.causes(keys) == {"done"}
    assert launcher.printed(keys) == {"64\n"}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """A program that somebody is writing, and that cannot be started until then (ETXTBSY)."""
    path = tmp_path / "program"
    shutil.copy("/bin/true", path)
    with open(path, "ab"):
        yield path


def test_a_program_that_is_being_written_is_started_later(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    talk = Talk(tmp_path / "site")
    key = f"{secrets.token_hex(8)}.1"
    with open(program, "ab"):
        talk.run(request(key, str(program)))
        assert state_of(talk, key) == "active"
    assert talk.until_ended(key)["cause"] == "done"
    talk.close()


def state_of(talk: Talk, key: str) -> str:
    """The state of an attempt, after its first try: messages are handled in order."""
    talk.say({"find": [key], "id": 1})
    while True:
        message = talk.receive()
        if "found" in message:
            return str(message["found"][key]["state"])


def test_an_attempt_that_waits_to_be_started_can_be_cancelled(busy: Path, tmp_path: Path) -> None:
    talk = Talk(tmp_path / "site", slots=1)
    run_id = secrets.token_hex(8)
    talk.run(request(f"{run_id}.1", str(busy)), request(f"{run_id}.2", "true"))
    assert state_of(talk, f"{run_id}.1") == "active"
    talk.say({"cancel": [f"{run_id}.1"]})
    assert talk.until_ended(f"{run_id}.1")["cause"] == "cancelled"
    assert talk.until_ended(f"{run_id}.2")["cause"] == "done"
    talk.close()


def test_a_launcher_that_is_terminated_ends_what_waits(busy: Path, tmp_path: Path) -> None:
    talk = Talk(tmp_path / "site")
    key = f"{secrets.token_hex(8)}.1"
    talk.run(request(key, str(busy)))
    assert state_of(talk, key) == "active"
    talk.process.terminate()
    assert talk.until_ended(key)["cause"] == "lost"
    assert talk.process.wait(100) == 0
    talk.close()


def test_a_job_starts_its_program_when_it_can(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "site")
    key = f"{secrets.token_hex(8)}.1"
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    attempts = engine.directory / "attempts"
    batch = engine.directory / "batches" / f"{key}.jsonl"
    batch.write_bytes(msgspec.json.encode(request(key, str(program))))
    with open(program, "ab"):
        engine.start_job(key)
        # It has tried, and removed the sandbox.
        wait_for(lambda: (attempts / f"{key}.err").exists() and not (attempts / key).exists())
    assert engine.record(key)["cause"] == "done"
    engine.close()


@pytest.mark.parametrize("program", [STALE_TWICE, REPLY_IS_LOST], ids=["stale", "reply lost"])
def test_a_commit_goes_on_after_a_setback(program: str, tmp_path: Path) -> None:
    talk = Talk(tmp_path / "site", flags=("-c", program))
    key = f"{secrets.token_hex(8)}.1"
    outputs = {"a": "first", "b": "second", "c": "third"}
    talk.run(shell(key, "printf 1 > a; printf 22 > b; mkdir c; ln b c/b", outputs=outputs))
    outcome = talk.until_ended(key)
    assert (outcome["cause"], outcome.get("sizes")) == ("done", [1, 2, 2])
    assert (talk.directory / "files" / "second").read_text() == "22"
    talk.close()


@pytest.mark.parametrize("cause", ["done", "cancelled"])
def test_a_thread_that_hashes_outputs_is_forgotten_with_its_attempt(
    cause: str, tmp_path: Path
) -> None:
    talk = Talk(tmp_path / "site", flags=("-c", HASHES_SLOWLY))
    key = f"{secrets.token_hex(8)}.1"
    talk.run(shell(key, "printf 1 > a", outputs={"a": "first"}, checksums=True))
    wait_for((talk.directory / "reading").exists)
    if cause == "cancelled":
        talk.say({"cancel": [key]})
        assert talk.until_ended(key)["cause"] == "cancelled"
    (talk.directory / "go").touch()
    assert talk.until_ended(key)["cause"] == cause
    talk.close()
    assert (talk.directory / "left").read_text() == "0"
