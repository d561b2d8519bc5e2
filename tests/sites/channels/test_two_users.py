"""Channels on a machine with other users: what these can see, read, write and pretend."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sites.launchers.channel_rig import CHANNELS, NODE, Caller, Rig, ask
from tests.sites.users import ALICE, MALLORY, UserTransport, as_user, run_as, scratch
from tests.waiting import until
from wfrun.engine.errors import InfeasibleError
from wfrun.sites.remote.transports.transport import Transport

__all__ = ["scratch"]


class TwoUsers(Rig):
    """Channels whose agent and launchers are Alice's. The test itself is another user, root."""

    def __init__(self, scratch: Path, kind: str) -> None:
        self.scratch = scratch
        super().__init__(kind, scratch / "run", lambda: pytest.fail("no SSH is needed"))
        for path in (self.directory, *self.directory.rglob("*")):
            os.chown(path, ALICE, ALICE)
            path.chmod(0o700)

    def _make(self, host: str, may_ask: bool) -> Transport:
        return UserTransport(ALICE, self.scratch / "alice")

    def start_as_alice(self, programs: Path, launcher: str = "one") -> subprocess.Popen[bytes]:
        words = (programs / NODE.name, programs, self.directory, launcher, 0, self.kind)
        node = subprocess.Popen(
            as_user(ALICE, f"umask 0; exec python3 {' '.join(map(str, words))}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._nodes.append(node)
        return node


@pytest.fixture
def programs(scratch: Path) -> Path:
    """The programs of launchers, at a place that Alice can read."""
    place = scratch / "programs"
    shutil.copytree(CHANNELS, place)
    shutil.copy(NODE, place)
    place.chmod(0o755)
    return place


@pytest.fixture(params=["tcp", "spool"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
async def rig(kind: str, scratch: Path) -> AsyncIterator[TwoUsers]:
    rig = TwoUsers(scratch, kind)
    await rig.open()
    yield rig
    await rig.close()


async def test_other_users_see_no_secret_and_reach_no_file(rig: TwoUsers, programs: Path) -> None:
    node = rig.start_as_alice(programs)
    link = await rig.handler.hello(0)
    ask(link, say=[3, 100])
    await rig.handler.until(lambda: len(rig.handler.said[0]) == 4)
    home = rig.directory / "launchers"
    secret = (home / "secret").read_text().strip()
    for place in (home, home / "in", home / "out"):
        assert place.stat().st_mode & 0o777 == 0o700
    for name in ("secret", "address.json"):
        assert (home / name).stat().st_mode & 0o777 == 0o600
    for attempt in (f"ls {home}", f"cat {home}/secret", f"touch {home}/out/x", f"ls {home}/in"):
        assert run_as(MALLORY, attempt).returncode != 0
    said = await asyncio.to_thread(run_as, MALLORY, "ps axww -o args; cat /proc/*/cmdline")
    assert str(rig.directory) in said.stdout  # the launcher is among what is seen
    assert secret not in said.stdout
    for pid in (node.pid, await rig.agent_pid()):
        assert secret.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert run_as(MALLORY, f"cat /proc/{pid}/environ").returncode != 0


@pytest.mark.parametrize("kind", ["spool"])
async def test_files_of_other_users_in_the_spool_are_not_read(
    rig: TwoUsers, programs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The test is such a user, and can write there all the same. It even knows the secret."""
    out = rig.directory / "launchers/out"
    caller = Caller(rig)
    await caller.greet()
    await until(lambda: not list(out.iterdir()))
    link = Caller(rig, connection=2)  # a link to a file of Alice's
    (rig.directory / "hello").write_bytes(b"{}\n")
    os.chown(rig.directory / "hello", ALICE, ALICE)
    (out / f"one.0.{link.session}.2.1").symlink_to(rig.directory / "hello")
    third = Caller(rig, connection=3)
    await third.greet()
    await until(lambda: len(list(out.iterdir())) <= 1)
    rig.start_as_alice(programs, "two")
    await rig.handler.hello(0)  # what came before was handled before
    assert not list((rig.directory / "launchers/in/one.0").iterdir())
    assert not caplog.messages


@pytest.mark.parametrize("kind", ["tcp"])
@pytest.mark.parametrize("name", ["secret", "address.json"])
@pytest.mark.parametrize("change", ["chown", "chmod", "link"])
async def test_a_launcher_believes_no_file_of_another_user(
    rig: TwoUsers, programs: Path, name: str, change: str
) -> None:
    path = rig.directory / "launchers" / name
    if change == "chown":
        os.chown(path, MALLORY, MALLORY)
        path.chmod(0o644)
    elif change == "chmod":
        path.chmod(0o666)
    else:
        path.rename(path.with_name("other"))
        path.symlink_to(path.with_name("other"))
    node = rig.start_as_alice(programs)
    assert node.stderr is not None
    line = await asyncio.to_thread(node.stderr.readline)
    assert b"no connection to the engine by" in line
    assert (b"symbolic link" if change == "link" else b"belongs to another user") in line
    assert not rig.handler.links


@pytest.mark.parametrize("kind", ["spool"])
async def test_a_launcher_reads_no_spool_file_of_another_user(
    rig: TwoUsers, programs: Path
) -> None:
    node = rig.start_as_alice(programs)
    await rig.handler.hello(0)
    into = rig.directory / "launchers/in/one.0"
    session = rig.address()["session"]
    for number in range(1, 50):  # whichever it reads next
        (into / f"{session}.1.{number}").write_bytes(b"")
    assert node.stderr is not None
    line = await asyncio.to_thread(node.stderr.readline)
    assert b"belongs to another user" in line
    assert (await rig.handler.hello(1)).channel == "spool"


FLOOD = """
import json, selectors, socket, sys, time
host, port, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
hello = {"wfrun": 2, "launcher": "one", "node": 0, "session": 1, "proof": "0" * 64}
calls, open_ = 0, selectors.DefaultSelector()
while True:
    while len(open_.get_map()) < 100:
        s = socket.create_connection((host, port))
        calls += 1
        s.sendall(json.dumps({**hello, "nonce": f"{calls:032}"}).encode() + b"\\n")
        s.setblocking(False)
        open_.register(s, selectors.EVENT_READ)
        if calls == wanted:
            print("flooded", flush=True)
    for key, _ in open_.select(1.0):
        try:
            if key.fileobj.recv(1 << 16):
                continue
        except OSError:
            pass
        open_.unregister(key.fileobj)
        key.fileobj.close()
    time.sleep(0.05)
"""
"""Calls as a launcher that is expected, on up to 100 connections at a time."""


@pytest.mark.parametrize("kind", ["tcp"])
async def test_calls_of_another_user_keep_no_launcher_out(rig: TwoUsers, programs: Path) -> None:
    """Mallory calls the port of Alice's agent as the launcher itself, and keeps calling."""
    host, port = rig.address()["tcp"][0]
    flood = subprocess.Popen(
        as_user(MALLORY, 'exec python3 -c "$FLOOD" "$HOST" "$PORT" 200'),
        env={"PATH": os.defpath, "FLOOD": FLOOD, "HOST": host, "PORT": str(port)},
        stdout=subprocess.PIPE,
    )
    try:
        assert flood.stdout is not None
        assert await asyncio.to_thread(flood.stdout.readline) == b"flooded\n"
        assert not rig.handler.launchers
        rig.start_as_alice(programs)
        link = await rig.handler.hello(0)
        ask(link, say=[3, 100])
        await rig.handler.until(lambda: len(rig.handler.said[0]) == 4)
        assert rig.handler.launchers == ["one"]
        assert flood.poll() is None
    finally:
        flood.kill()
        flood.communicate()


async def test_channels_are_not_opened_where_others_can_write(scratch: Path) -> None:
    rig = TwoUsers(scratch, "spool")
    (rig.directory / "launchers").chmod(0o770)
    with pytest.raises(InfeasibleError, match="can be written by other users"):
        await rig.open()
    await rig.close()
