"""Python functions as tasks: as a command, and in a launcher's warm interpreter."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.sites.node.launchers.test_launcher import Talk
from wfrun.engine.exchange import AttemptRequest, InputLink
from wfrun.sites.node.alone import python_function
from wfrun.testing.probe import request
from wfrun.testing.sites import wait_for_death

MODULE = """\
import atexit, os, sys, threading, time

def add(*numbers, **named):
    return {"sum": sum(numbers), "named": named}

def where():
    print("says", os.environ["WFRUN_ATTEMPT"], os.environ["COLOUR"])
    with open("/proc/self/environ") as file:
        shown = dict(item.split("=", 1) for item in file.read().split("\\0") if "=" in item)
    return [os.getpid() == os.getpgid(0), os.getcwd(), shown["WFRUN_ATTEMPT"], sys.path[0]]

def wrong():
    raise ValueError("no such number")

def leave(how):
    sys.exit(how)

def late():
    atexit.register(print, "at exit")
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()

def slow():
    time.sleep(60)

def daemon():
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(60)
    return [pid, os.getppid()]

def parent():
    return os.getppid()
"""


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path)
    talk.receive()
    store = tmp_path / "files"
    (store / "model.py").write_text(MODULE)
    shutil.copy(python_function.__file__, store / "wfrun_function.py")
    yield talk
    talk.close()


def call(
    key: str, function: str, words: str = "{}", walltime_s: float | None = None
) -> AttemptRequest:
    return request(
        key,
        sys.executable,
        *("wfrun_function.py", "model.py", function, words, "result.json"),
        inputs={"wfrun_function.py": "wfrun_function.py", "model.py": "model.py"},
        outputs={"result.json": f"{key}.json"},
        env={"COLOUR": key[-1]},
        walltime_s=walltime_s,
    )


def interpreter_of(talk: Talk) -> int:
    """The warm interpreter, a child of the launcher. A process that it has just forked looks the
    same until its mark is set."""
    path = Path(f"/proc/{talk.process.pid}/task/{talk.process.pid}/children")
    until_s = time.monotonic() + 10
    while True:
        children = path.read_text().split()
        found = [c for c in children if b"=---" in Path(f"/proc/{c}/environ").read_bytes()]
        if len(found) == 1:
            return int(found[0])
        assert time.monotonic() < until_s, children


def test_arguments_and_results(talk: Talk) -> None:
    words = '{"args": [1, null, 3], "kwargs": {"x": "ü"}, "files": [[1, "n"], ["y", "n"]]}'
    (talk.directory / "files" / "n").write_text("40")
    asked = call("a.1", "add", words)
    links = (*asked.inputs, InputLink("n", "n"))
    talk.run(msgspec.structs.replace(asked, inputs=links), call("a.2", "where"))
    for key in ("a.1", "a.2"):
        assert talk.until_ended(key)["cause"] == "done", talk.ended
    stored = talk.directory / "files"
    assert (stored / "a.1.json").read_text() == '{"sum": 44, "named": {"x": "\\u00fc", "y": 40}}'
    sandbox = f"{talk.directory}/attempts/a.2"
    assert (stored / "a.2.json").read_text() == f'[true, "{sandbox}", "a.2", "{sandbox}"]'
    assert (talk.directory / "attempts" / "a.2.out").read_text() == "says a.2 2\n"
    outcome = talk.ended["a.2"]
    assert outcome["cpu_s"] > 0
    assert outcome["peak_memory_bytes"] > 1 << 20
    interpreter = interpreter_of(talk)
    talk.close()
    assert wait_for_death([interpreter])


@pytest.mark.cases
@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize(
    ("function", "words", "code", "out", "err"),
    [
        ("wrong", "{}", 1, "", 'File "model.py", line 13, in wrong\n    raise ValueError("no'),
        ("leave", '{"args": [7]}', 7, "", ""),
        ("leave", '{"args": ["why"]}', 1, "", "why\n"),
        ("late", "{}", 0, "thread\nat exit\n", ""),
        ("missing", "{}", 1, "", "has no attribute 'missing'"),
        ("leave", '{"args": [{1}]}', 1, "", "JSONDecodeError"),
    ],
)
def test_ends_are_those_of_a_command(
    talk: Talk, warm: bool, function: str, words: str, code: int, out: str, err: str
) -> None:
    if warm:
        talk.run(call("a.1", function, words))
        outcome = talk.until_ended("a.1")
        assert (outcome["cause"], outcome["exit_code"]) == ("exit" if code else "done", code)
        assert interpreter_of(talk)
        logs = [talk.directory / "attempts" / f"a.1.{end}" for end in ("out", "err")]
        said = [log.read_text() if log.exists() else "" for log in logs]
    else:
        argv = [sys.executable, *("wfrun_function.py", "model.py", function, words, "result")]
        done = subprocess.run(
            argv,
            cwd=talk.directory / "files",
            capture_output=True,
            check=False,
            text=True,
            timeout=100,
        )
        assert done.returncode == code
        said = [done.stdout, done.stderr]
    assert said[0] == out
    assert err in said[1]
    assert "wfrun_function.py" not in said[1]


def test_walltime(talk: Talk) -> None:
    talk.run(call("a.1", "slow", walltime_s=0.2))
    assert talk.until_ended("a.1")["cause"] == "walltime"


def test_a_daemon_ends_with_its_function(talk: Talk) -> None:
    talk.run(call("a.1", "daemon"))
    assert talk.until_ended("a.1")["cause"] == "done"
    text = (talk.directory / "files" / "a.1.json").read_text()
    assert wait_for_death([int(text.strip("[]").split(",")[0])])


def test_a_launcher_survives_the_end_of_its_interpreter(talk: Talk) -> None:
    talk.run(call("a.1", "parent"), call("a.2", "slow"))
    assert talk.until_ended("a.1")["cause"] == "done"
    talk.until_started("a.2")
    os.kill(interpreter_of(talk), signal.SIGKILL)
    talk.run(call("a.3", "parent"))
    assert talk.until_ended("a.3")["cause"] == "lost"
    assert "warm interpreter is gone" in talk.ended["a.3"]["message"]
    talk.run(call("a.4", "parent"))
    assert talk.until_ended("a.4")["cause"] == "done"
    assert (talk.directory / "files" / "a.4.json").read_text() == str(talk.process.pid)
    assert "a.2" not in talk.ended
    talk.say({"cancel": ["a.2"]})
    assert talk.until_ended("a.2")["cause"] == "cancelled"


def test_another_interpreter_is_started_as_a_command(talk: Talk) -> None:
    talk.run(call("a.1", "parent"))
    assert talk.until_ended("a.1")["cause"] == "done"
    other = call("a.2", "parent")
    talk.run(msgspec.structs.replace(other, env={"PYTHONHASHSEED": "1"}))
    assert talk.until_ended("a.2")["cause"] == "done"
    assert (talk.directory / "files" / "a.2.json").read_text() == str(talk.process.pid)
