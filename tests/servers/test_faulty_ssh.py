"""The faulty server: OpenSSH and asyncssh, two independent clients, see each of its faults."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path

import asyncssh
import pytest

from tests.servers.faults import Kind, Operation
from tests.servers.sftp import NO_SPACE
from tests.servers.ssh import FaultySSH
from tests.waiting import PATIENCE_S, until

DATA = bytes(range(256)) * 4096
MIDDLE = len(DATA) // 2


def openssh(server: FaultySSH, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [argv[0], "-F", str(server.ssh_config), *argv[1:]],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def sftp(server: FaultySSH, batch: str) -> subprocess.CompletedProcess[str]:
    return openssh(server, "sftp", "-b", "-", server.name, stdin=batch)


async def connect(server: FaultySSH) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(server.name, config=[str(server.ssh_config)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.dat"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def stored(faulty_ssh: FaultySSH) -> Path:
    path = faulty_ssh.home / "stored.dat"
    path.write_bytes(DATA)
    return path


def test_openssh_moves_files(faulty_ssh: FaultySSH, source: Path, tmp_path: Path) -> None:
    batch = f"put {source} part\nrename part a.dat\nget a.dat {tmp_path}/back\nls -l\nmkdir d\n"
    result = sftp(faulty_ssh, batch)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "back").read_bytes() == DATA
    assert (faulty_ssh.home / "d").is_dir()
    operations = [request.operation for request in faulty_ssh.faults.requests]
    assert {"channel", "sftp", "open", "write", "rename", "read", "list"} <= set(operations)


@pytest.mark.parametrize("mode", ["-O", "-s"])
def test_scp_moves_files(faulty_ssh: FaultySSH, source: Path, tmp_path: Path, mode: str) -> None:
    for pair in ((str(source), "faulty:a.dat"), ("faulty:a.dat", f"{tmp_path}/back")):
        result = openssh(faulty_ssh, "scp", mode, *pair)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "back").read_bytes() == DATA


def test_commands_are_real(faulty_ssh: FaultySSH) -> None:
    result = openssh(
        faulty_ssh, "ssh", "faulty", "cat >f; echo $HOME; echo no >&2; exit 3", stdin="x"
    )
    assert (result.returncode, result.stdout, result.stderr) == (3, f"{faulty_ssh.home}\n", "no\n")
    assert (faulty_ssh.home / "f").read_text() == "x"


async def test_asyncssh_moves_files(faulty_ssh: FaultySSH, source: Path, tmp_path: Path) -> None:
    async with await connect(faulty_ssh) as connection, connection.start_sftp_client() as client:
        await client.put(str(source), "a.dat")
        await client.get("a.dat", str(tmp_path / "back"))
        assert await client.listdir() == ["a.dat"]
        await client.truncate("a.dat", 5)
        assert (await client.stat("a.dat")).size == 5
        assert (faulty_ssh.home / "a.dat").read_bytes() == DATA[:5]
        await client.put(str(source), "b.dat")
        with pytest.raises(asyncssh.SFTPFailure):
            await client.rename("a.dat", "b.dat")
    assert (tmp_path / "back").read_bytes() == DATA


FAILING: list[tuple[Kind, int, str, str, type[Exception]]] = [
    ("reset", MIDDLE, "put", "", asyncssh.SFTPConnectionLost),
    ("reset", MIDDLE, "get", "", asyncssh.SFTPConnectionLost),
    ("disk-full", MIDDLE, "put", "Failure", asyncssh.SFTPFailure),
    ("no-space", MIDDLE, "put", "Failure", asyncssh.SFTPFailure),
    ("denied", 0, "put", "Permission denied", asyncssh.SFTPPermissionDenied),
    ("denied", 0, "get", "Permission denied", asyncssh.SFTPPermissionDenied),
    ("vanish", MIDDLE, "get", "No such file", asyncssh.SFTPNoSuchFile),
]


@pytest.mark.parametrize(("kind", "at_byte", "verb", "words", "error"), FAILING)
async def test_a_transfer_fails(
    faulty_ssh: FaultySSH,
    source: Path,
    stored: Path,
    tmp_path: Path,
    kind: Kind,
    at_byte: int,
    verb: str,
    words: str,
    error: type[Exception],
) -> None:
    faulty_ssh.faults.inject(kind, "*.dat", at_byte=at_byte)
    target = "target.dat" if verb == "put" else str(tmp_path / "back")
    near, far = (str(source), target) if verb == "put" else (stored.name, target)
    result = await asyncio.to_thread(sftp, faulty_ssh, f"{verb} {near} {far}\n")
    assert result.returncode != 0
    assert words in result.stderr  # Of a lost connection, OpenSSH has many names.
    stored.write_bytes(DATA)
    async with await connect(faulty_ssh) as connection, connection.start_sftp_client() as client:
        with pytest.raises((error, ConnectionError)) as caught:
            await (client.put if verb == "put" else client.get)(near, far)
    # OpenSSH's client shows no texts of servers.
    assert (NO_SPACE in str(caught.value)) == (kind == "no-space")
    if at_byte and verb == "put":
        assert (faulty_ssh.home / target).stat().st_size <= MIDDLE + (1 << 18)
    assert stored.exists() == (kind != "vanish")


async def test_a_request_stalls_until_healed(faulty_ssh: FaultySSH, stored: Path) -> None:
    faulty_ssh.faults.inject("stall", "stored.dat", at_byte=MIDDLE)
    async with await connect(faulty_ssh) as connection:
        client = await connection.start_sftp_client()
        async with client.open("stored.dat", "rb") as file:
            reading = asyncio.create_task(file.read())
            await until(lambda: faulty_ssh.faults.stalled == 1)
            assert not reading.done()
            faulty_ssh.faults.heal()
            data: object = await reading
    assert data == DATA
    assert faulty_ssh.faults.stalled == 0


def test_a_stalled_client_of_openssh_waits(faulty_ssh: FaultySSH, source: Path) -> None:
    faulty_ssh.faults.inject("stall", at_byte=MIDDLE, operation="write")
    results: list[int] = []
    thread = threading.Thread(
        target=lambda: results.append(sftp(faulty_ssh, f"put {source} a.dat\n").returncode)
    )
    thread.start()
    asyncio.run(until(lambda: faulty_ssh.faults.stalled == 1))
    assert results == []
    faulty_ssh.faults.heal()
    thread.join(PATIENCE_S)
    assert results == [0]
    assert (faulty_ssh.home / "a.dat").read_bytes() == DATA


async def test_sizes_are_wrong(faulty_ssh: FaultySSH, stored: Path) -> None:
    faulty_ssh.faults.inject("wrong-size", "*.dat", amount=-1000)
    async with await connect(faulty_ssh) as connection, connection.start_sftp_client() as client:
        assert (await client.stat("stored.dat")).size == len(DATA) - 1000
        async with client.open("stored.dat", "rb") as file:
            assert (await file.stat()).size == len(DATA) - 1000
    faulty_ssh.faults.heal()
    faulty_ssh.faults.inject("wrong-size", amount=7, times=1)
    sizes = [
        line.split()[4]
        for line in sftp(faulty_ssh, "ls -l stored.dat\n" * 2).stdout.splitlines()[1::2]
    ]
    assert sizes == [str(len(DATA) + 7), str(len(DATA))]


async def test_reads_are_short_and_clients_ask_again(
    faulty_ssh: FaultySSH, stored: Path, tmp_path: Path
) -> None:
    faulty_ssh.faults.inject("short-read", amount=9000)
    assert sftp(faulty_ssh, f"get stored.dat {tmp_path}/one\n").returncode == 0
    count = len(faulty_ssh.faults.requests)
    async with await connect(faulty_ssh) as connection, connection.start_sftp_client() as client:
        await client.get("stored.dat", str(tmp_path / "two"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == DATA
    assert min(count, len(faulty_ssh.faults.requests) - count) > len(DATA) // 9000


async def test_a_lost_write_is_acknowledged(faulty_ssh: FaultySSH, source: Path) -> None:
    faulty_ssh.faults.inject("lost-write", "*.dat", at_byte=MIDDLE, times=1)
    assert sftp(faulty_ssh, f"put {source} one.dat\n").returncode == 0
    faulty_ssh.faults.inject("lost-write", "*.dat", at_byte=MIDDLE)
    async with await connect(faulty_ssh) as connection, connection.start_sftp_client() as client:
        await client.put(str(source), "two.dat")
    one, two = ((faulty_ssh.home / name).read_bytes() for name in ("one.dat", "two.dat"))
    assert len(one) == len(DATA)  # A hole in the middle: the size is right.
    assert one != DATA
    assert len(two) <= MIDDLE


async def test_writes_are_slow(faulty_ssh: FaultySSH, source: Path) -> None:
    loop = asyncio.get_running_loop()
    faulty_ssh.faults.inject("slow", amount=len(DATA) * 4, operation="write")
    began = loop.time()
    async with await connect(faulty_ssh) as connection, connection.start_sftp_client() as client:
        await client.put(str(source), "a.dat")
    assert loop.time() - began >= 0.25
    assert (faulty_ssh.home / "a.dat").read_bytes() == DATA


@pytest.mark.parametrize(
    ("kind", "operation"), [("no-channel", None), ("no-sftp", None), ("denied", "exec")]
)
async def test_channels_are_refused(
    faulty_ssh: FaultySSH, kind: Kind, operation: Operation | None
) -> None:
    faulty_ssh.faults.inject(kind, operation=operation, times=2)
    command = operation == "exec"
    result = openssh(faulty_ssh, *(("ssh", "faulty", "true") if command else ("sftp", "faulty")))
    assert result.returncode == 255
    async with await connect(faulty_ssh) as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await (connection.run("true") if command else connection.start_sftp_client())
        assert (await connection.run("echo works")).stdout == "works\n"
        (await connection.start_sftp_client()).exit()


async def test_a_command_is_cut_in_its_output(faulty_ssh: FaultySSH, stored: Path) -> None:
    faulty_ssh.faults.inject("reset", "cat *", at_byte=MIDDLE)
    result = await asyncio.to_thread(
        openssh, faulty_ssh, "ssh", "faulty", "cat stored.dat | base64"
    )
    assert result.returncode == 255
    async with await connect(faulty_ssh) as connection:
        ended = await connection.run("cat stored.dat", encoding=None)
    assert ended.exit_status is None
    assert isinstance(ended.stdout, bytes)
    assert len(ended.stdout) <= MIDDLE


def test_a_stranger_is_refused(faulty_ssh: FaultySSH) -> None:
    faulty_ssh.authorized = "ssh-ed25519 another"
    assert "Permission denied" in openssh(faulty_ssh, "ssh", "faulty", "true").stderr
