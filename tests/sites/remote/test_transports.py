"""What all transports have in common, over the real sshd and on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.sites.remote.conftest import Cluster
from tests.sites.remote.servers import Line, Sshd, public
from tests.waiting import until
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport
from wfrun.sites.remote.transports.local_transport import LocalTransport
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
from wfrun.sites.remote.transports.transport import Process, Transport

ODD_NAMES = [
    "with 'single' and \"double\" quotes\nnew line $(touch pwned)`touch pwned` !event *?[a]",
    "-rf",
    "back\\slash ünïcode undecodable\udcff",
]


pytestmark = pytest.mark.asyncio(loop_scope="module")


def make_transport(
    kind: str, cluster: Cluster, host: str | None = None, keep_alive_s: float = 30.0
) -> Transport:
    name = host or cluster.host
    if kind == "asyncssh":
        return AsyncsshTransport(name, config=cluster.config, keep_alive_s=keep_alive_s)
    if kind == "openssh":
        return OpensshTransport(
            name, config=cluster.config, sockets=cluster.sockets, keep_alive_s=keep_alive_s
        )
    return LocalTransport()


@pytest.fixture(scope="module", params=["asyncssh", "openssh", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def transport(kind: str, shared_cluster: Cluster) -> AsyncIterator[Transport]:
    made = make_transport(kind, shared_cluster)
    await made.connect()
    yield made
    await made.close()


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


async def read_all(process: Process) -> bytes:
    found = b""
    while data := await process.read(1 << 16):
        found += data
    return found


async def contents(transport: Transport, path: Path | str) -> bytes:
    return b"".join([data async for data in transport.read_file(str(path))])


async def test_a_command_gets_input_and_gives_both_outputs_and_its_exit_code(
    transport: Transport,
) -> None:
    process = await transport.start("cat; echo problem >&2; exit 7")
    await process.write(b"a" * 300_000)
    await process.write(b"b")
    process.end_input()
    assert await read_all(process) == b"a" * 300_000 + b"b"
    assert await process.wait() == 7
    assert process.errors() == "problem\n"
    await process.close()


async def test_no_terminal_and_a_line_of_posix_shell(transport: Transport) -> None:
    process = await transport.start("tty; x='a  b'; printf '%s|%s' \"$x\" '$HOME'\nexit 255")
    process.end_input()
    assert await read_all(process) == b"not a tty\na  b|$HOME"
    assert await process.wait() == 255
    await process.close()


async def test_only_the_end_of_a_long_stderr_is_kept(transport: Transport) -> None:
    process = await transport.start("for i in $(seq 5000); do echo line $i; done >&2; echo end >&2")
    process.end_input()
    assert await process.wait() == 0
    assert process.errors().endswith("line 5000\nend\n")
    assert len(process.errors()) <= 4096
    await process.close()


async def test_writing_to_a_command_that_has_ended_is_transient(transport: Transport) -> None:
    process = await transport.start("exit 0")
    assert await process.wait() == 0
    with pytest.raises(TransientError):
        await process.write(b"x" * 10_000_000)
    await process.close()


async def test_a_closed_command_that_reads_its_input_ends(transport: Transport) -> None:
    process = await transport.start("echo $$; exec cat > /dev/null")
    pid = int(await process.read(100))
    await process.close()
    await until(lambda: not os.path.exists(f"/proc/{pid}"))


async def test_commands_run_at_the_same_time(transport: Transport) -> None:
    processes = [await transport.start("read line; echo $line") for _ in range(6)]
    for number, process in reversed(list(enumerate(processes))):
        await process.write(b"%d\n" % number)
        assert await process.read(10) == b"%d\n" % number
        await process.close()


@pytest.mark.parametrize("size", [0, 1, 3_000_001])
async def test_files_arrive_as_they_were(transport: Transport, tmp_path: Path, size: int) -> None:
    data = (hashlib.sha256(b"seed").digest() * (size // 32 + 1))[:size]
    path = tmp_path / "file"
    halves = (data[: size // 3], data[size // 3 :])
    assert await transport.write_file(str(path), pieces(*halves), 0o640) == size
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o7777 == 0o640
    assert await contents(transport, path) == data


@pytest.mark.cases
async def test_a_large_file_both_ways(transport: Transport, tmp_path: Path) -> None:
    block = os.urandom(1 << 20)
    sent, came = hashlib.sha256(), hashlib.sha256()

    async def source() -> AsyncIterator[bytes]:
        for number in range(50):
            data = number.to_bytes(4, "big") + block[4:]
            sent.update(data)
            yield data

    path = str(tmp_path / "large")
    assert await transport.write_file(path, source(), 0o600) == 50 << 20
    async for data in transport.read_file(path):
        assert len(data) <= 1 << 20
        came.update(data)
    assert came.digest() == sent.digest()


async def test_files_at_the_same_time(transport: Transport, tmp_path: Path) -> None:
    async def one(number: int) -> None:
        data = bytes([number]) * 200_000
        await transport.write_file(str(tmp_path / str(number)), pieces(data), 0o600)
        assert await contents(transport, tmp_path / str(number)) == data

    await asyncio.gather(*(one(number) for number in range(4)))


async def test_odd_names(transport: Transport, tmp_path: Path) -> None:
    for name in ODD_NAMES:
        content = os.fsencode(name)
        await transport.write_file(str(tmp_path / name), pieces(content), 0o600)
        assert await contents(transport, tmp_path / name) == content
    assert sorted(os.listdir(tmp_path)) == sorted(ODD_NAMES)


async def test_a_file_that_is_there_is_replaced_and_a_link_not_followed(
    transport: Transport, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("untouched")
    path = tmp_path / "link"
    path.symlink_to(other)
    await transport.write_file(str(path), pieces(b"new"), 0o600)
    assert other.read_text() == "untouched"
    assert not path.is_symlink()
    await transport.write_file(str(path), pieces(b"again"), 0o600)
    assert path.read_text() == "again"


async def test_absent_files_and_directories_are_infeasible(
    transport: Transport, tmp_path: Path
) -> None:
    with pytest.raises(InfeasibleError, match=r"absent.*[Nn]o such file"):
        await contents(transport, tmp_path / "absent")
    with pytest.raises(InfeasibleError):
        await contents(transport, tmp_path)
    with pytest.raises(InfeasibleError, match=r"[Nn]o such file|nonexistent"):
        await transport.write_file(str(tmp_path / "no" / "file"), pieces(b"x"), 0o600)


async def test_a_full_disk_is_infeasible(transport: Transport, small_disk: Path) -> None:
    with pytest.raises(InfeasibleError, match=r"No space left|Failure"):
        await transport.write_file(str(small_disk / "file"), pieces(*[b"x" * (1 << 20)] * 4), 0o600)


async def test_no_permission_is_infeasible(transport: Transport) -> None:
    # not even root can write there
    with pytest.raises(InfeasibleError):
        await transport.write_file("/proc/wfrun-test", pieces(b"x"), 0o600)


async def test_the_error_of_a_failing_source_reaches_the_caller(
    transport: Transport, tmp_path: Path
) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"x" * 100_000
        raise InfeasibleError("the source is gone")

    with pytest.raises(InfeasibleError, match="the source is gone"):
        await transport.write_file(str(tmp_path / "file"), source(), 0o600)


async def test_a_reader_may_stop_early(transport: Transport, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8 << 20))
    reader = transport.read_file(str(path))
    assert await anext(reader)
    await reader.aclose()
    assert len(await contents(transport, path)) == 8 << 20


async def test_after_close_all_is_transient(
    kind: str, shared_cluster: Cluster, tmp_path: Path
) -> None:
    transport = make_transport(kind, shared_cluster)
    await transport.connect()
    lost = asyncio.create_task(transport.lost())
    process = await transport.start("exec cat")
    await transport.close()
    await asyncio.wait_for(lost, 10)
    assert await process.wait() != 0
    with pytest.raises(TransientError):
        await transport.start("true")
    with pytest.raises(TransientError):
        await contents(transport, tmp_path / "file")
    await process.close()


@pytest.mark.parametrize("kind", ["asyncssh", "openssh"])
async def test_one_connection_for_all(kind: str, cluster: Cluster, tmp_path: Path) -> None:
    transport = make_transport(kind, cluster)
    await transport.connect()
    for number in range(3):
        process = await transport.start("true")
        assert await process.wait() == 0
        await transport.write_file(str(tmp_path / f"{number}"), pieces(b"x"), 0o600)
    await transport.close()
    assert cluster.sshd.logins() == 1
    await until(lambda: cluster.sshd.connections() == 0)


@pytest.mark.parametrize("kind", ["asyncssh", "openssh"])
async def test_a_cut_line_is_noticed(kind: str, cluster: Cluster, tmp_path: Path) -> None:
    line = Line(cluster.sshd.port)
    await line.open()
    cluster.known_hosts.write_text(f"[127.0.0.1]:{line.port} {public(cluster.sshd.host_key)}\n")
    transport = make_transport(kind, cluster, cluster.add("line", line.port))
    await transport.connect()
    process = await transport.start("exec cat")
    (tmp_path / "file").write_bytes(bytes(4 << 20))
    reader = transport.read_file(str(tmp_path / "file"))
    await anext(reader)
    line.cut()
    await asyncio.wait_for(transport.lost(), 10)
    assert await process.read(10) == b""
    assert await process.wait() is None
    with pytest.raises(TransientError):
        async for _ in reader:
            pass
    with pytest.raises(TransientError):
        await transport.write_file(str(tmp_path / "new"), pieces(b"x"), 0o600)
    await process.close()
    await transport.close()
    await line.close()


@pytest.mark.parametrize("kind", ["asyncssh", "openssh"])
async def test_a_silent_line_is_noticed(kind: str, cluster: Cluster) -> None:
    line = Line(cluster.sshd.port)
    await line.open()
    cluster.known_hosts.write_text(f"[127.0.0.1]:{line.port} {public(cluster.sshd.host_key)}\n")
    keep_alive_s = 0.1 if kind == "asyncssh" else 1.0  # the system's ssh counts whole seconds
    transport = make_transport(
        kind, cluster, cluster.add("line", line.port), keep_alive_s=keep_alive_s
    )
    await transport.connect()
    line.go_silent()
    await asyncio.wait_for(transport.lost(), 20)
    await transport.close()
    await line.close()


@pytest.mark.parametrize("options", [["PrintLastLog no"], ["Subsystem sftp echo no such thing"]])
async def test_without_sftp_files_go_through_cat(
    options: list[str], cluster: Cluster, tmp_path: Path
) -> None:
    bare = Sshd(tmp_path / "bare", cluster.key, options)
    try:
        with open(cluster.known_hosts, "a") as file:
            file.write(f"[127.0.0.1]:{bare.port} {public(bare.host_key)}\n")
        transport = make_transport("asyncssh", cluster, cluster.add("bare", bare.port))
        await transport.connect()
        assert await transport.write_file(str(tmp_path / "a b"), pieces(b"x" * 99), 0o600) == 99
        assert await contents(transport, tmp_path / "a b") == b"x" * 99
        with pytest.raises(InfeasibleError, match="No such file"):
            await contents(transport, tmp_path / "absent")
        await transport.close()
    finally:
        bare.stop()


@pytest.mark.parametrize("kind", ["asyncssh", "openssh"])
async def test_what_a_profile_prints_is_not_part_of_files(
    kind: str, cluster: Cluster, tmp_path: Path
) -> None:
    (cluster.sshd.home / ".bashrc").write_text("echo Welcome, 12 jobs are queued; echo hm >&2\n")
    transport = make_transport(kind, cluster)
    await transport.connect()
    for data in (b"", b"data"):
        path = tmp_path / "file"
        assert await transport.write_file(str(path), pieces(data), 0o600) == len(data)
        assert path.read_bytes() == data
        assert await contents(transport, path) == data
    await transport.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["openssh", "local"])
async def test_a_process_that_starts_while_its_transport_is_closed_is_ended(
    kind: str, shared_cluster: Cluster
) -> None:
    transport = make_transport(kind, shared_cluster)
    await transport.connect()
    starting = asyncio.ensure_future(transport.start("echo $$; exec sleep 600"))
    await asyncio.sleep(0)  # It has begun.
    await transport.close()
    with pytest.raises(TransientError, match="the connection is closed"):
        await starting
    gc.collect()  # A transport of a process that runs on would warn.


async def test_a_process_that_has_ended_is_closed_with_its_transport() -> None:
    """Its user has not closed it, and its child keeps its output open."""
    transport = LocalTransport()
    process = await transport.start("sleep 600 & echo $!")
    pid = int(await process.read(100))
    await asyncio.wait_for(process.wait(), 10)
    try:
        await transport.close()
        assert process.is_closed
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_a_process_is_closed_if_its_end_is_not_waited_for() -> None:
    transport = LocalTransport()
    process = await transport.start("trap '' HUP; echo; sleep 600; true")
    await process.read(1)
    closing = asyncio.ensure_future(process.close())
    await asyncio.sleep(0.1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert process.is_closed
    await transport.close()
