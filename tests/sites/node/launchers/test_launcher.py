"""The launcher alone: its protocol, signals and broken pipes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sites.node.jobs.facts import sent_programs
from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import SiteSpec
from wfrun.sites.local.site import LocalSite
from wfrun.sites.node import FOLDER
from wfrun.sites.node.tasks import processes
from wfrun.testing.probe import request, shell

OLD_PYTHON = (
    "import os, runpy, sys; del os.posix_spawn; sys.argv = sys.argv[1:];"
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


class Talk:
    """A launcher and its two pipes."""

    def __init__(
        self,
        directory: Path,
        slots: int = 2,
        flags: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
        **more: object,
    ) -> None:
        config = json.dumps({"directory": str(directory), "slots": slots, **more})
        self.directory = directory
        self.process = subprocess.Popen(
            [
                *prefix,
                sys.executable,
                "-I",
                "-S",
                *flags,
                str(sent_programs() / "launcher.py"),
                config,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.ended: dict[str, Any] = {}
        self.started: set[str] = set()

    def say(self, message: object) -> None:
        self.stdin.write(msgspec.json.encode(message) + b"\n")
        self.stdin.flush()

    def run(self, *requests: AttemptRequest) -> None:
        self.say({"run": requests})

    def receive(self) -> dict[str, Any]:
        line = self.stdout.readline()
        assert line, "the launcher has ended"
        message: dict[str, Any] = json.loads(line)
        self.started.update(message.get("started", ()))
        self.ended.update(message.get("ended", ()))
        return message

    def until_started(self, key: str) -> None:
        while key not in self.started:
            self.receive()

    def until_ended(self, key: str) -> dict[str, Any]:
        while key not in self.ended:
            self.receive()
        outcome: dict[str, Any] = self.ended[key]
        return outcome

    def recorded(self) -> dict[str, Any]:
        """The exit records."""
        records: dict[str, Any] = {}
        for journal in (self.directory / "exits").iterdir():
            whole, _, _ = journal.read_text().rpartition("\n")
            for line in whole.splitlines():
                records.update(json.loads(line).get("ended", ()))
        return records

    def close(self) -> None:
        if not self.stdin.closed:
            self.stdin.close()
        self.stdout.close()
        try:
            self.process.wait(100)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path / "site")
    yield talk
    talk.close()


@pytest.mark.slow
def test_all_that_runs_on_clusters_runs_on_python_3_6() -> None:
    vermin = str(Path(sys.executable).with_name("vermin"))
    check = subprocess.run(
        [vermin, "-t=3.6-", "--violations", *map(str, FOLDER.glob("*/*.py"))],
        capture_output=True,
        check=False,
    )
    assert check.returncode == 0, check.stdout.decode()


def test_where_there_is_no_posix_spawn(tmp_path: Path) -> None:
    talk = Talk(tmp_path / "site", flags=("-c", OLD_PYTHON))
    assert talk.receive()["hello"] == 1
    talk.run(
        shell("alone-1", "pwd; echo $WFRUN_ATTEMPT", stdout="said", outputs={"said": "said"}),
        request("alone-2", "no-such-program"),
        shell("alone-3", "sleep 600 & exit 3"),
    )
    assert talk.until_ended("alone-1")["cause"] == "done"
    assert talk.until_ended("alone-2")["cause"] == "launch-failed"
    assert talk.until_ended("alone-3")["exit_code"] == 3
    sandbox = tmp_path / "site" / "attempts" / "alone-1"
    assert (tmp_path / "site" / "files" / "said").read_text() == f"{sandbox}\nalone-1\n"
    talk.close()


def test_an_invalid_message_is_reported(talk: Talk) -> None:
    talk.stdin.write(b"{nonsense\n")
    talk.say({"dance": True})
    talk.say([1, 2])
    errors = [message for message in (talk.receive() for _ in range(4)) if "error" in message]
    assert len(errors) == 3
    talk.run(request("alone-1", "true"))
    assert talk.until_ended("alone-1")["cause"] == "done"


def test_ctrl_c_is_ignored(talk: Talk) -> None:
    talk.receive()
    talk.process.send_signal(signal.SIGINT)
    talk.run(request("alone-1", "true"))
    assert talk.until_ended("alone-1")["cause"] == "done"


def test_tasks_get_default_signal_handlers(talk: Talk) -> None:
    talk.run(shell("alone-1", "kill -INT $$; exit 1"), shell("alone-2", "kill -PIPE $$; exit 1"))
    assert talk.until_ended("alone-1")["signal"] == signal.SIGINT
    assert talk.until_ended("alone-2")["signal"] == signal.SIGPIPE


def test_sigterm_ends_its_tasks_which_are_lost(talk: Talk) -> None:
    talk.run(*(request(f"alone-{n}", "sleep", "600") for n in range(3)))
    talk.until_started("alone-1")
    talk.process.terminate()
    assert talk.until_ended("alone-0")["cause"] == "lost"
    assert talk.until_ended("alone-1")["cause"] == "lost"
    assert talk.process.wait(100) == 0
    assert set(talk.recorded()) == {"alone-0", "alone-1"}


def test_stop_drops_the_queue_and_waits(talk: Talk) -> None:
    talk.run(*(shell(f"alone-{n}", "sleep 0.3; exit 7") for n in range(3)))
    talk.until_started("alone-1")
    talk.say({"stop": True})
    assert talk.until_ended("alone-0")["exit_code"] == talk.until_ended("alone-1")["exit_code"] == 7
    assert talk.process.wait(100) == 0
    assert set(talk.recorded()) == {"alone-0", "alone-1"}


def test_closed_pipes_do_not_end_tasks(talk: Talk) -> None:
    talk.receive()
    talk.stdout.close()
    talk.run(*(shell(f"alone-{n}", "exit 2") for n in range(200)), request("last", "sleep", "0.2"))
    talk.say({"find": ["alone-1"], "id": 1})
    talk.stdin.close()
    assert talk.process.wait(100) == 0
    assert all(outcome["cause"] in ("exit", "done") for outcome in talk.recorded().values())


@pytest.mark.slow
def test_an_engine_that_does_not_read_delays_no_task(talk: Talk) -> None:
    keys = [f"alone-{n}-{'x' * 100}" for n in range(600)]
    talk.run(*(shell(key, "printf %2000s >&2; exit 2") for key in keys))
    talk.run(request("last", "true"))
    while "last" not in talk.recorded():
        assert talk.process.poll() is None
        time.sleep(0.05)
    assert talk.until_ended("last")["cause"] == "done"
    while len(talk.ended) < 601:  # it may end before the one that started before it
        talk.receive()


def test_claims_of_the_dead_without_a_start_are_lost(tmp_path: Path) -> None:
    """A launcher queued alone-1 and alone-2 and claimed alone-1, and was killed at that very
    moment; its last record is torn."""
    site = tmp_path / "site"
    for name in ("attempts", "exits"):
        (site / name).mkdir(parents=True)
    owner = {**processes.identity(), "pid": 2**22 + 1}
    lines = [{"launcher": owner}, {"queued": ["alone-1", "alone-2"]}]
    journal = "\n".join(map(json.dumps, lines)) + '\n{"ended": [["alone-2", {"cau'
    (site / "exits" / "old.jsonl").write_text(journal)
    (site / "attempts" / "alone-1.out").touch()
    talk = Talk(site)
    talk.receive()
    for _ in range(2):
        talk.say({"find": ["alone-1", "alone-2"], "id": 5})
        answer = talk.receive()
        assert answer["id"] == 5
        assert answer["found"]["alone-1"]["outcome"]["cause"] == "lost"
        assert answer["found"]["alone-2"] == {"state": "absent"}
    talk.run(request("alone-1", "true"), request("alone-2", "true"))
    assert talk.until_ended("alone-2")["cause"] == "done"
    assert talk.until_ended("alone-1")["cause"] == "lost"
    talk.close()


@pytest.mark.parametrize("killed", [False, True])
def test_two_launchers_with_the_same_attempts(tmp_path: Path, killed: bool) -> None:
    """Each attempt is started once, by either, and its end is reported by both."""
    witness = tmp_path / "witness"
    keys = [f"alone-{n}" for n in range(150)]
    attempts = [shell(key, 'echo "$1" >> "$2"', key, str(witness)) for key in keys]
    one, other = Talk(tmp_path / "site"), Talk(tmp_path / "site")
    one.run(*attempts)
    other.run(*(attempts[:40] + attempts[:39:-1]))
    if killed:
        while not one.started:
            one.receive()
        one.process.kill()
    else:
        causes = {one.until_ended(key)["cause"] for key in keys}
        assert causes == {"done"}
    causes = {other.until_ended(key)["cause"] for key in keys}
    assert causes <= ({"done", "lost"} if killed else {"done"})
    ran = witness.read_text().split()
    assert len(ran) == len(set(ran))
    done = {key for key in keys if other.ended[key]["cause"] == "done"}
    assert done <= set(ran)
    other.close()
    one.close()


def test_a_recycled_pid_is_not_killed(tmp_path: Path) -> None:
    """The pid of the dead launcher's task now belongs to another process."""
    site = tmp_path / "site"
    for name in ("attempts", "exits"):
        (site / name).mkdir(parents=True)
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        owner = {**processes.identity(), "pid": 2**22 + 1}
        long_ago_s = processes.boot_clock() - 100
        started = ["alone-1", bystander.pid, long_ago_s, 1, 0, [], []]
        lines = [{"launcher": owner}, {"queued": ["alone-1"]}, {"started": [started]}]
        (site / "exits" / "old.jsonl").write_text("".join(json.dumps(m) + "\n" for m in lines))
        (site / "attempts" / "alone-1.out").touch()
        talk = Talk(site)
        talk.say({"find": ["alone-1"], "id": 1})
        while "found" not in (answer := talk.receive()):
            pass
        assert answer["found"]["alone-1"]["outcome"]["cause"] == "lost"
        assert bystander.poll() is None
        talk.close()
    finally:
        bystander.kill()
        bystander.wait()


def test_a_restarted_container(tmp_path: Path) -> None:
    """The dead launcher had another host name, and its pid belongs to another process now; the lock
    of its journal shows that it is dead."""
    site = tmp_path / "site"
    for name in ("attempts", "exits"):
        (site / name).mkdir(parents=True)
    ours = {"pid": os.getpid(), "start_s": processes.start_time(os.getpid())}
    owner = {**processes.identity(), **ours, "host": "container-1", "locked": True}
    started = ["alone-1", 2**22 + 1, 1.0, 1, 0, [], []]
    lines = [{"launcher": owner}, {"queued": ["alone-1"]}, {"started": [started]}]
    journal = site / "exits" / "old.jsonl"
    journal.write_text("".join(json.dumps(m) + "\n" for m in lines))
    (site / "attempts" / "alone-1.out").touch()
    with journal.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        talk = Talk(site)
        talk.say({"find": ["alone-1"], "id": 1})
        while "found" not in (answer := talk.receive()):
            pass
        assert answer["found"]["alone-1"]["state"] == "active"
    assert talk.until_ended("alone-1")["cause"] == "lost"
    talk.close()


def test_open_files_are_not_inherited(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    site = LocalSite(SiteSpec("here", 1), 0, tmp_path / "site")

    async def leave_a_task_running() -> None:
        await site.open(lambda event: None)
        await site.submit([request("alone-1", "sleep", "5")])
        await site.find(["alone-1"])
        await site.close()

    asyncio.run(leave_a_task_running())
    os.close(writer)
    os.set_blocking(reader, False)
    assert os.read(reader, 1) == b""  # Nobody can write: else this raises BlockingIOError.
    os.close(reader)


def test_its_memory_is_small(talk: Talk) -> None:
    """Its own size is the minimum peak memory that it can report for a task."""
    talk.receive()
    status = Path(f"/proc/{talk.process.pid}/status").read_text()
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(peak_kb) < 25_000


@pytest.mark.parametrize("argument", ["", "{}", "[1]", '{"directory": "/dev/null/x", "slots": 1}'])
def test_wrong_usage_is_reported(argument: str) -> None:
    check = subprocess.run(
        [sys.executable, str(sent_programs() / "launcher.py"), argument],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert check.returncode == 1
    assert b"Traceback" not in check.stderr
    assert check.stderr
