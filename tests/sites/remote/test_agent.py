"""The agent: its start, its end, and invalid messages."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, is_running, until
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.remote import agent, agent_client
from wfrun.sites.remote.agent import LENGTHS, RefusedError, refuse_precious
from wfrun.sites.remote.agent_client import AgentHost, NoPythonError, start_command
from wfrun.sites.remote.host import NewFile
from wfrun.sites.remote.transports.local_transport import LocalProcess, LocalTransport

PYENV = Path.home() / ".pyenv" / "versions"
SAY_HELLO = """
import json, os, struct, sys, time
def send(header, length=None):
    text = json.dumps(header).encode()
    os.write(1, struct.pack(">II", length or len(text), 0) + text)
def receive():
    head = os.read(0, 8)
    return json.loads(os.read(0, struct.unpack(">II", head)[0])) if head else sys.exit()
nonce = json.loads(sys.argv[1])["nonce"]
os.write(1, ("\\0wfrun-%s agent\\n" % nonce).encode())
send({"hello": 1, "pid": os.getpid(), "host": "h", "user": "u", "home": "/", "python": "3",
      "clock": 0})
send({"id": receive()["id"], "clock": 0})
receive()
"""
"""A program in place of the agent, which answers the first ping only."""


@pytest.fixture
async def transport() -> AsyncIterator[LocalTransport]:
    transport = LocalTransport()
    yield transport
    await transport.close()


@pytest.fixture
async def host(transport: LocalTransport) -> AsyncIterator[AgentHost]:
    host = AgentHost(transport)
    await host.start()
    yield host
    await host.close()


class Noisy(LocalTransport):
    """A host whose login shell runs another command first."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self._first = first

    async def start(self, command: str) -> LocalProcess:
        return await super().start(f"{self._first}\n{command}")


# ---------------------------------------------------------------------------------- starting


@pytest.mark.parametrize(
    "noise",
    [
        "echo 'Welcome! 20% of your quota is used'",
        "printf '\\000\\000\\000\\020\\000wfrun-1234 agent\\n\\000wfrun-'",
        "head -c 200000 /dev/urandom; echo error >&2",
    ],
)
async def test_what_the_login_prints_is_passed_over(noise: str) -> None:
    transport = Noisy(noise)
    host = AgentHost(transport)
    await host.start()
    assert (await host.run(["echo", "x"])).output == b"x\n"
    await host.close()
    await transport.close()


async def test_a_login_that_ends_at_once_is_quoted() -> None:
    transport = Noisy("echo This account is currently not available.; exit 1")
    with pytest.raises(TransientError, match="This account is currently not available"):
        await AgentHost(transport).start()
    await transport.close()


async def test_a_login_that_prints_without_end_is_given_up() -> None:
    transport = Noisy("yes")
    with pytest.raises(TransientError, match="without end"):
        await AgentHost(transport).start()
    await transport.close()


async def test_a_login_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_client, "HELLO_S", 0.3)
    transport = Noisy("sleep 100")
    with pytest.raises(TransientError, match=r"did not start within 0\.3 s"):
        await AgentHost(transport).start()
    await transport.close()


async def test_without_a_python_it_says_what_is_there(
    transport: LocalTransport, tmp_path: Path
) -> None:
    old = tmp_path / "old python"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 2.7.5 >&2\nexit 2\n')
    old.chmod(0o755)
    with pytest.raises(
        NoPythonError, match=r"no Python 3\.6 or later .*old python is Python 2\.7\.5"
    ):
        await AgentHost(transport, pythons=["wfrun-no-python", str(old)]).start()
    with pytest.raises(NoPythonError, match="PATH"):
        await AgentHost(transport, pythons=["wfrun-no-python"]).start()


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "ksh", "tcsh", "fish"])
async def test_a_python_that_only_login_shells_know_is_found(
    transport: LocalTransport, tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a profile loads the module that has it."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"there is no {shell}")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "wfrun-python").symlink_to(sys.executable)
    greeting = "echo Welcome to the cluster\n"
    for name in (".profile", ".zprofile"):
        (tmp_path / name).write_text(f"{greeting}PATH=$PATH:{commands}; export PATH\n")
    (tmp_path / ".cshrc").write_text(f"{greeting}setenv PATH ${{PATH}}:{commands}\n")
    fish = tmp_path / ".config" / "fish"
    fish.mkdir(parents=True)
    (fish / "config.fish").write_text(f"{greeting}set -gx PATH $PATH {commands}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", path)
    host = AgentHost(transport, pythons=["wfrun-python"])
    await host.start()
    environment = (await host.run(["env"])).output
    assert b"WFRUN_START" not in environment
    await host.close()


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.13"])
async def test_it_runs_on_old_and_new_pythons(
    transport: LocalTransport, tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sorted(PYENV.glob(f"{version}.*/bin/python{version}"))
    if not found:
        pytest.skip(f"there is no Python {version} in {PYENV}")
    monkeypatch.setenv("LC_ALL", "C")  # Python 3.6 decodes names as ASCII then
    host = AgentHost(transport, pythons=[str(found[0])])
    if version == "2.7":
        with pytest.raises(NoPythonError):
            await host.start()
        return
    await host.start()
    assert (await host.facts()).python.startswith(f"{version}.")
    records: list[bytes] = []
    await host.make_directories([f"{tmp_path}/exits é\udcff"])
    await host.watch(f"{tmp_path}/exits é\udcff", records.extend)
    await host.write(
        [NewFile(f"{tmp_path}/exits é\udcff/{n}.json", b'{"n":%d}' % n) for n in range(10)]
    )
    await until(lambda: len(records) == 10)
    result = await host.run(["sh", "-c", 'cat; printf %s "$0$X"', "é\udcff"], env={"X": "日"})
    assert result.output == b"\xc3\xa9\xff\xe6\x97\xa5"
    assert (await host.run(["sleep", "100"], timeout_s=0.2)).exit_code is None
    await host.remove([f"{tmp_path}/exits é\udcff"])
    assert os.listdir(tmp_path) == []
    await host.close()


async def test_nothing_is_left_behind(transport: LocalTransport, tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    host = AgentHost(transport)
    await host.start()
    await host.write([NewFile(f"{tmp_path}/x", b"")])
    await host.close()
    await until(lambda: not is_running(host.pid))
    assert os.listdir(home) == []
    assert os.listdir(tmp_path) == ["x"]


# ------------------------------------------------------------------------------------ ending


async def test_sigkill_fails_all_open_questions(host: AgentHost, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    reader = os.open(tmp_path / "pids", os.O_RDONLY | os.O_NONBLOCK)
    script = f"echo $$ > {tmp_path}/pids; sleep 1000"
    questions = [asyncio.create_task(host.run(["sh", "-c", script])) for _ in range(6)]
    said = b""
    end_s = time.monotonic() + PATIENCE_S
    while said.count(b"\n") < 4 and time.monotonic() < end_s:
        await asyncio.sleep(0.02)
        try:
            said += os.read(reader, 100)
        except BlockingIOError:
            continue
    os.close(reader)
    os.kill(host.pid, signal.SIGKILL)
    answers = await asyncio.gather(*questions, return_exceptions=True)
    assert [type(answer) for answer in answers] == [TransientError] * 6
    assert "the agent ended" in await host.ended
    with pytest.raises(TransientError, match="the agent ended"):
        await host.counts()
    for pid in said.split():
        os.killpg(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("way", ["close", "term"])
async def test_it_kills_its_commands_when_it_ends(
    host: AgentHost, tmp_path: Path, way: str
) -> None:
    pidfile = tmp_path / "pid"
    script = f"echo $$ > {pidfile}.new; mv {pidfile}.new {pidfile}; sleep 1000"
    question = asyncio.create_task(host.run(["sh", "-c", script]))
    await until(pidfile.exists)
    if way == "close":
        await host.close()
    else:
        os.kill(host.pid, signal.SIGTERM)
    with pytest.raises(TransientError):
        await question
    await until(lambda: not is_running(host.pid))
    await until(lambda: not is_running(int(pidfile.read_text())))


async def test_it_ends_after_silence(transport: LocalTransport) -> None:
    host = AgentHost(transport, silence_s=0.5, ping_s=1000)
    await host.start()
    assert "the agent ended" in await asyncio.wait_for(asyncio.shield(host.ended), PATIENCE_S)
    await host.close()


async def test_pings_keep_it_alive(transport: LocalTransport) -> None:
    host = AgentHost(transport, silence_s=4, ping_s=0.1)
    await host.start()
    await asyncio.sleep(5)
    assert not host.ended.done()
    await host.close()


@pytest.mark.cases
@pytest.mark.parametrize(
    ("last_words", "reason"),
    [
        ("import time; time.sleep(1000)", "no answer to 'ping'"),
        ("send({}, 1 << 31)", "protocol: a frame of impossible length"),
        ("send([])", "protocol: an invalid header"),
        ("send({'what': 1})", "broke its protocol"),
        ("os.write(1, b'\\0\\0\\0\\4\\0\\0\\0\\0]]]]')", "broke its protocol"),
        ("os.write(1, b'\\0\\0'); sys.exit('no more memory')", "no more memory"),
    ],
)
async def test_an_agent_out_of_its_mind_is_given_up(
    transport: LocalTransport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    last_words: str,
    reason: str,
) -> None:
    (tmp_path / "agent.py").write_text(f"{SAY_HELLO}\n{last_words}\n")
    monkeypatch.setattr(agent_client, "_SOURCE", tmp_path / "agent.py")
    host = AgentHost(transport, ping_s=0.1)
    await host.start()
    question = asyncio.create_task(host.stat(["/"]))
    assert reason in await asyncio.wait_for(asyncio.shield(host.ended), PATIENCE_S)
    with pytest.raises(TransientError):
        await question
    await host.close()


# ------------------------------------------------------------------------------- the protocol


class Talk:
    """Exchanges raw frames with an agent."""

    def __init__(self, process: LocalProcess) -> None:
        self.process = process
        self._data = b""

    async def say(self, header: object, payload: bytes = b"") -> None:
        await self.raw(json.dumps(header).encode(), payload)

    async def raw(self, text: bytes, payload: bytes = b"") -> None:
        await self.process.write(LENGTHS.pack(len(text), len(payload)) + text + payload)

    async def hear(self) -> tuple[dict[str, Any], bytes]:
        header_bytes, payload_bytes = LENGTHS.unpack(await self._take(LENGTHS.size))
        header = json.loads(await self._take(header_bytes))
        return header, await self._take(payload_bytes)

    async def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            data = await asyncio.wait_for(self.process.read(1 << 16), PATIENCE_S)
            assert data, self.process.errors()
            self._data += data
        taken, self._data = self._data[:size], self._data[size:]
        return taken


@pytest.fixture
async def talk(transport: LocalTransport) -> Talk:
    source = Path(agent.__file__).read_bytes()
    process = await transport.start(start_command("n", len(source), 100.0, ["python3"]))
    await process.write(source)
    talk = Talk(process)
    mark = b"\n\0wfrun-n agent\n"
    assert await talk._take(len(mark)) == mark
    assert (await talk.hear())[0]["hello"] == agent.PROTOCOL
    return talk


@pytest.mark.cases
@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"3", b"\xff", b'{"id":"x","ask":"ping"}', b'{"ask":"ping"}']
)
async def test_what_is_no_request_is_answered(talk: Talk, text: bytes) -> None:
    await talk.raw(text, b"payload")
    assert (await talk.hear())[0] == {"id": None, "error": "infeasible", "message": "not a request"}
    await talk.say({"id": 5, "ask": "ping"})
    assert (await talk.hear())[0]["id"] == 5


@pytest.mark.cases
@pytest.mark.parametrize(
    "request_",
    [
        {"ask": "dance"},
        {"ask": "_answer"},
        {"ask": "run"},
        {"ask": "run", "argv": [], "env": {}, "timeout_s": 1},
        {"ask": "run", "argv": ["a\0b"], "env": {}, "timeout_s": 1},
        {"ask": "run", "argv": ["true"], "env": {"A=B": "x"}, "timeout_s": 1},
        {"ask": "run", "argv": ["true"], "env": {}, "timeout_s": "soon"},
        {"ask": "write", "paths": ["/x"], "sizes": [3], "modes": [0o600]},
        {"ask": "read", "paths": 7, "limit": 1},
        {"ask": "stat", "paths": ["\ud800"]},
        {"ask": "remove", "paths": ["x"]},
        {"ask": "watch", "path": None},
    ],
)
async def test_a_request_that_makes_no_sense_is_answered(
    talk: Talk, request_: dict[str, Any]
) -> None:
    await talk.say({"id": 1, **request_})
    header, _ = await talk.hear()
    assert (header["id"], header["error"]) == (1, "infeasible")
    assert header["message"]
    await talk.say({"id": 2, "ask": "stat", "paths": ["/"]})
    assert (await talk.hear())[0] == {"id": 2, "values": [[0, True, True]]}


async def test_an_impossible_frame_ends_it(talk: Talk) -> None:
    await talk.process.write(random.Random(1).randbytes(64))
    assert "a frame of" in (await talk.hear())[0]["message"]
    assert await asyncio.wait_for(talk.process.wait(), PATIENCE_S) == 2


async def test_half_a_frame_ends_it_when_its_input_ends(talk: Talk) -> None:
    await talk.process.write(LENGTHS.pack(100, 100) + b"{")
    talk.process.end_input()
    assert await asyncio.wait_for(talk.process.wait(), PATIENCE_S) == 0


async def test_a_flood_of_output_is_stopped(
    transport: LocalTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(agent.__file__).read_text()
    (tmp_path / "agent.py").write_text(source.replace("OUTPUT_BYTES = 1 << 26", "OUTPUT_BYTES = 9"))
    monkeypatch.setattr(agent_client, "_SOURCE", tmp_path / "agent.py")
    host = AgentHost(transport)
    await host.start()
    with pytest.raises(InfeasibleError, match="more than 9 bytes"):
        await host.run(["yes"], timeout_s=1000.0)
    assert (await host.run(["echo", "12345678"])).output == b"12345678\n"
    await host.close()


async def test_a_question_without_an_answer_does_not_wait_for_ever(
    host: AgentHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_client, "MARGIN_S", -4.9)
    with pytest.raises(TransientError, match=r"no answer to 'run' within 0\.1 s"):
        await host.run(["sleep", "5"], timeout_s=5.0)
    assert (await host.stat(["/"]))[0] is not None
    assert not host.ended.done()


@pytest.mark.slow
async def test_long_files_come_in_several_answers(host: AgentHost, tmp_path: Path) -> None:
    paths = [f"{tmp_path}/{n}" for n in range(4)]
    contents = [bytes([n]) * (9 << 20) for n in range(4)]
    await host.write([NewFile(p, c) for p, c in zip(paths, contents, strict=True)])
    assert await host.read(paths, limit=1 << 30) == contents


def test_what_is_precious_is_refused(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path)
    for path in (b"/", b"/.", b"//", home, home + b"/", os.path.dirname(home), b"/usr/.."):
        with pytest.raises(RefusedError):
            refuse_precious(path, home)
    refuse_precious(home + b"/x", home)
    refuse_precious(b"/absent/x", b"/absent/home")


UNREADABLE = "/proc/self/mem"
"""A regular file whose first bytes cannot be read: EIO."""


async def test_what_may_be_readable_soon_is_not_absent(host: AgentHost, tmp_path: Path) -> None:
    """A journal or a record that is taken for absent would be done again."""
    with pytest.raises(TransientError, match="Input/output error"):
        await host.read([UNREADABLE])
    with pytest.raises(TransientError, match="Input/output error"):
        await host.read_part(UNREADABLE, 0, 10)
    assert await host.read([str(tmp_path / "none"), str(tmp_path)]) == [None, None]


async def test_large_directories_have_time_to_be_removed(
    host: AgentHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than other file operations, whose timeout would end here."""
    many = tmp_path / "many"
    many.mkdir()
    for number in range(1000):
        (many / str(number)).touch()
    monkeypatch.setattr(AgentHost._request, "__defaults__", (b"", 0.001))
    await host.remove([str(many)])
    assert not many.exists()
