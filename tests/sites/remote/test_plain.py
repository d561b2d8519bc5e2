"""Plain commands by themselves: their watch, and what shells and tools do to them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.remote import plain, plain_watch
from wfrun.sites.remote.host import NewFile
from wfrun.sites.remote.local_transport import LocalProcess, LocalTransport
from wfrun.sites.remote.plain import PlainHost
from wfrun.sites.remote.plain_watch import PlainWatch


class Through(LocalTransport):
    """A head node whose shell, profile or tools are others."""

    def __init__(self, shell: str = "", first: str = "") -> None:
        super().__init__()
        self._shell = shell
        self._first = first

    async def start(self, command: str) -> LocalProcess:
        command = f"{self._first}\n{command}"
        if self._shell:
            quoted = command.replace("'", "'\\''")
            command = f"exec {self._shell} -c '{quoted}'"
        return await super().start(command)


@pytest.fixture
async def host() -> AsyncIterator[PlainHost]:
    transport = LocalTransport()
    host = PlainHost(transport)
    await host.start()
    yield host
    await host.close()
    await transport.close()


def tools_without(directory: Path, *absent: str) -> str:
    """A PATH that has the standard tools, but not these."""
    directory.mkdir()
    for place in ("/bin", "/usr/bin"):
        for entry in os.scandir(place):
            if entry.name not in absent and not (directory / entry.name).is_symlink():
                (directory / entry.name).symlink_to(entry.path)
    return str(directory)


@pytest.mark.parametrize(
    "shell", ["dash", "bash", "bash --posix", "zsh --emulate sh", "ksh", "busybox sh"]
)
async def test_any_shell_will_do(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"there is no {shell.split()[0]}")
    transport = Through(shell, "echo Welcome; echo to the cluster >&2")
    host = PlainHost(transport)
    await host.start()
    name = f"{tmp_path}/a 'b'\n$(c) é"
    await host.make_directories([name])
    await host.write([NewFile(f"{name}/{n}", bytes([n] * n)) for n in range(4)])
    assert await host.read([f"{name}/{n}" for n in range(4)]) == [bytes([n] * n) for n in range(4)]
    assert await host.claim([f"{name}/0", f"{name}/new"]) == [False, True]
    stats = await host.stat([name, f"{name}/3", f"{name}/x"])
    assert [stat and stat.size_bytes for stat in stats] == [0, 3, None]
    await host.rename([(f"{name}/3", f"{name}/0")])
    assert (await host.run(["cat", f"{name}/0"])).output == b"\3\3\3"
    told: list[bytes] = []
    (Path(name) / "x.json").write_text("{}")
    await host.watch(name, told.extend)
    assert told == [b"{}"]
    await host.remove([name])
    assert os.listdir(tmp_path) == []
    await host.close()
    await transport.close()


async def test_without_flock_records_stay_and_are_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", tools_without(tmp_path / "bin", "flock"))
    monkeypatch.setattr(plain, "QUICK_S", 0.02)
    exits = tmp_path / "exits"
    exits.mkdir()
    transport = LocalTransport()
    host = PlainHost(transport)
    await host.start()
    told: list[bytes] = []
    (exits / "a.json").write_text('{"key": "a"}')
    await host.watch(str(exits), told.extend)
    (exits / "b.part").write_text('{"key": "b"}')
    (exits / "b.part").rename(exits / "b.json")
    for _ in range(500):
        await asyncio.sleep(0.02)
        if len(told) == 2:
            break
    assert told == [b'{"key": "a"}', b'{"key": "b"}']
    assert sorted(os.listdir(exits)) == ["a.json", "b.json"]
    await host.close()
    await transport.close()


async def test_without_timeout_a_hung_command_is_left_behind_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", tools_without(tmp_path / "bin", "timeout"))
    monkeypatch.setattr(plain, "MARGIN_S", 0.0)
    transport = LocalTransport()
    host = PlainHost(transport)
    await host.start()
    with pytest.raises(TransientError, match="no answer within 1 s"):
        await host.run(["sleep", "100"], timeout_s=1.0)
    assert (await host.run(["echo", "x"])).output == b"x\n"
    await host.close()
    await transport.close()


async def test_garbage_is_told_of_as_it_is_and_a_full_disk_loses_nothing(
    host: PlainHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_watch, "GARBAGE_S", 0.0)
    told: list[bytes] = []
    watch = PlainWatch(host.poll, host.read, str(tmp_path), told.extend)
    (tmp_path / "a.json").write_text('{"key": "a"}')
    (tmp_path / "half.json").write_text('{"key"')
    (tmp_path / "directory.json").mkdir()
    (tmp_path / "records.jsonl").symlink_to("/dev/full")
    for _ in range(4):
        await watch.look()
    assert told == [b'{"key": "a"}', b'{"key"']
    assert (tmp_path / "a.json").exists()
    (tmp_path / "records.jsonl").unlink()
    while await watch.look():
        pass
    assert (tmp_path / "records.jsonl").read_bytes() == b'{"key": "a"}\n'
    assert sorted(os.listdir(tmp_path)) == ["directory.json", "half.json", "records.jsonl"]
    assert len(told) == 2


async def test_records_are_moved_in_portions_behind_a_torn_line(
    host: PlainHost, tmp_path: Path
) -> None:
    (tmp_path / "records.jsonl").write_bytes(b'{"n":0}\n{"n":')
    for n in range(1, 250):
        (tmp_path / f"{n}.json").write_bytes(b'{"n":%d}' % n)
    told: list[bytes] = []
    await host.watch(str(tmp_path), told.extend)
    lines = (tmp_path / "records.jsonl").read_bytes().splitlines()
    assert sorted(told) == sorted(b'{"n":%d}' % n for n in range(250))
    assert lines[:2] == [b'{"n":0}', b'{"n":']
    assert sorted(lines[2:] + lines[:1]) == sorted(told)
    assert os.listdir(tmp_path) == ["records.jsonl"]


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("exit 0", TransientError),
        ("echo no service; exit 1", TransientError),
        ("printf '\\000wfrun-x\\n'; exit 0", TransientError),
    ],
)
async def test_a_login_shell_that_answers_something_else(
    first: str, kind: type[Exception], tmp_path: Path
) -> None:
    transport = Through(first=first)
    with pytest.raises(kind):
        await PlainHost(transport).start()
    await transport.close()


async def test_what_plain_commands_cannot_do_is_said(host: PlainHost) -> None:
    for argv, env in ((["-x"], {}), (["true"], {"A B": "x"}), (["a\0b"], {}), (["a\ud800"], {})):
        with pytest.raises(InfeasibleError):
            await host.run(argv, env=env)


async def test_the_end_of_the_connection_ends_it() -> None:
    transport = LocalTransport()
    host = PlainHost(transport)
    await host.start()
    await transport.close()
    assert "lost" in await asyncio.wait_for(asyncio.shield(host.ended), 10.0)
    with pytest.raises(TransientError):
        await host.stat(["/"])
    await host.close()
