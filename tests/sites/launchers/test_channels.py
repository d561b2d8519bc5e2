"""Every kind of channel: a launcher reaches its engine, and no other process does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sites.launchers.channel_rig import Caller, Rig, Stranger, ask
from tests.sites.remote.conftest import Cluster
from tests.sites.remote.servers import Sshd, public
from wfrun.engine.errors import InfeasibleError
from wfrun.engine.model import LauncherSpec
from wfrun.sites.launchers.channels import limited_log
from wfrun.sites.launchers.channels.channels import SiteChannels
from wfrun.sites.launchers.channels.link import Link

PYENV = Path.home() / ".pyenv" / "versions"  # before the tests get a home of their own
WAYS = ("tcp", "asyncssh", "openssh", "spool")
STRANGE = ("tcp", "asyncssh", "spool")
"""Kinds for refusals; asyncssh and openssh deliver the same bytes."""


@pytest.fixture(scope="module")
def made() -> Iterator[list[Cluster]]:
    clusters: list[Cluster] = []
    yield clusters
    for cluster in clusters:
        cluster.sshd.stop()


@pytest.fixture(scope="module")
def sockets() -> Iterator[Path]:
    """A directory for sockets, whose paths must be short."""
    directory = Path(tempfile.mkdtemp(prefix="wf"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
async def rig(
    way: str,
    made: list[Cluster],
    sockets: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Rig]:

    def cluster() -> Cluster:
        if not made:
            made.append(Cluster(tmp_path_factory.mktemp("cluster"), sockets))
        return made[0]

    rig = Rig(way, tmp_path / "run", cluster)
    await rig.open()
    yield rig
    await rig.close()


@pytest.mark.cases
async def test_lines_go_both_ways_in_order(rig: Rig) -> None:
    rig.start()
    link = await rig.handler.hello(0)
    assert link.channel == rig.kind
    for number in range(1000):
        ask(link, n=number)
    await rig.handler.until(lambda: len(rig.handler.said[0]) == 1001)
    assert [line["n"] for line in rig.handler.said[0][1:]] == list(range(1000))
    assert 0 < link.latency_s < 60


@pytest.mark.slow
async def test_20_megabytes_both_ways(rig: Rig) -> None:
    rig.start()
    link = await rig.handler.hello(0)
    text = "y" * 10_000
    for number in range(1000):
        ask(link, n=number, text=text)
    ask(link, say=[1000, 10_000])
    for number in range(1000):
        ask(link, n=number, text=text)
        if number % 100 == 0:
            await link.drained()
    await rig.handler.until(lambda: len(rig.handler.said[0]) == 3001)
    assert all(len(line["text"]) == 10_000 for line in rig.handler.said[0][1:])


@pytest.mark.cases
async def test_reconnects_after_the_agent_is_killed(rig: Rig) -> None:
    rig.start()
    await rig.handler.hello(0)
    os.kill(await rig.agent_pid(), signal.SIGKILL)
    while rig.statuses[-1] is None:
        await asyncio.sleep(0.01)
    await rig.links.open(rig.handler)
    link = await rig.handler.hello(1)
    ask(link, n=1)
    await rig.handler.until(lambda: rig.handler.said[1][-1] == {"n": 1})
    assert len(rig.handler.reasons) == 1


@pytest.mark.parametrize("way", ["asyncssh", "openssh"])
async def test_reconnects_after_the_ssh_connection_is_lost(rig: Rig, made: list[Cluster]) -> None:
    rig.start()
    await rig.handler.hello(0)
    for pid in made[0].sshd.processes()[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while rig.statuses[-1] is None:
        await asyncio.sleep(0.01)
    await rig.links.open(rig.handler)
    link = await rig.handler.hello(1)
    ask(link, n=1)
    await rig.handler.until(lambda: rig.handler.said[1][-1] == {"n": 1})
    assert len(rig.handler.reasons) == 1


async def test_reconnects_when_the_engine_has_hung_up(rig: Rig) -> None:
    rig.start()
    link = await rig.handler.hello(0)
    link.close()
    again = await rig.handler.hello(1)
    assert rig.handler.said[1][0]["session"] == 2
    ask(again, n=1)
    await rig.handler.until(lambda: rig.handler.said[1][-1] == {"n": 1})
    assert rig.handler.reasons == []


async def test_reconnects_to_the_next_engine(rig: Rig) -> None:
    rig.start()
    await rig.handler.hello(0)
    await rig.links.close()
    rig.links = rig.new_links()
    await rig.links.open(rig.handler)
    await asyncio.sleep(0.3)  # It may be there before the engine has read of it.
    await rig.links.expect(["one"])
    link = await rig.handler.hello(1)
    ask(link, n=1)
    await rig.handler.until(lambda: rig.handler.said[1][-1] == {"n": 1})
    assert rig.address()["session"] == 2


@pytest.mark.parametrize("way", ["tcp", "spool"])
async def test_the_nodes_of_a_launcher_have_a_link_each(rig: Rig) -> None:
    for launcher, node in (("one", 0), ("one", 1), ("two", 0)):
        rig.start(launcher, node)
    await rig.handler.until(lambda: len(rig.handler.links) == 3)
    found = [(name, link.node_number) for name, link in zip(*both(rig), strict=True)]
    assert sorted(found) == [("one", 0), ("one", 1), ("two", 0)]


@pytest.mark.parametrize("way", ["tcp", "spool"])
async def test_a_node_with_the_oldest_python(rig: Rig) -> None:
    found = sorted(PYENV.glob("3.6.*/bin/python"))
    if not found:
        pytest.skip("there is no Python 3.6 on this machine")
    rig.start(python=str(found[0]))
    link = await rig.handler.hello(0)
    ask(link, n=1)
    ask(link, stop=True)
    await rig.handler.until(lambda: bool(rig.handler.reasons))
    assert rig.handler.said[0][1:] == [{"n": 1}, {"ending": "stop"}]


def both(rig: Rig) -> tuple[list[str], list[Link]]:
    return rig.handler.launchers, rig.handler.links


async def test_the_last_lines_of_a_launcher_arrive_before_its_end(rig: Rig) -> None:
    node = rig.start()
    link = await rig.handler.hello(0)
    ask(link, say=[1000, 1000])
    ask(link, stop=True)
    await rig.handler.until(lambda: bool(rig.handler.reasons))
    assert len(rig.handler.said[0]) == 1002
    assert rig.handler.said[0][-1] == {"ending": "stop"}
    assert node.wait(100) == 0


@pytest.mark.parametrize("way", ["tcp", "spool"])
async def test_a_launcher_that_was_killed_is_noticed(rig: Rig) -> None:
    await rig.links.close()
    rig.links = rig.new_links(ping_s=0.2)
    await rig.links.expect(["one"])
    await rig.links.open(rig.handler)
    node = rig.start()
    await rig.handler.hello(0)
    node.kill()
    await rig.handler.until(lambda: bool(rig.handler.reasons))


@pytest.mark.parametrize("way", STRANGE)
async def test_a_launcher_without_the_secret_is_refused(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caller = Caller(rig, secret=b"that of another run")
    await caller.greet("one")
    assert await caller.is_hung_up()
    assert "site here" in caplog.text
    assert "as launcher 'one', was refused: it does not know the secret" in caplog.text
    assert rig.handler.links == []
    caller.close()


@pytest.mark.parametrize("way", STRANGE)
async def test_an_expected_launcher_has_to_prove_itself_too(rig: Rig) -> None:
    caller = Caller(rig)
    await caller.greet("three")
    await caller.read_answer()
    await rig.links.expect(["three"])
    await caller.prove(who="hello")
    assert await caller.is_hung_up()
    assert rig.handler.links == []
    caller.close()


@pytest.mark.parametrize("way", STRANGE)
async def test_a_replayed_hello_is_refused(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    first = Caller(rig)
    said = await first.greet()
    await first.read_answer()
    assert first.answer["proof"] == first.proof("engine")
    await first.prove(lines=[b'{"hello": 1}'])
    await rig.handler.hello(0)
    second = Stranger(rig, connection=2)
    await second.call()
    await second.say(said)
    assert await second.receive() == b""
    assert "it repeats what a launcher has sent before" in caplog.text
    assert len(rig.handler.links) == 1
    first.close()
    second.close()


@pytest.mark.parametrize("way", STRANGE)
async def test_a_replayed_proof_is_refused(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    first = Caller(rig)
    await first.greet()
    await first.read_answer()
    said = await first.prove(lines=[b'{"hello": 1}'])
    await rig.handler.hello(0)
    second = Caller(rig, connection=2)
    await second.greet()
    await second.read_answer()
    second.proof = first.proof  # type: ignore[method-assign]
    assert await second.prove(lines=[b'{"hello": 1}']) == said
    assert await second.is_hung_up()
    assert "it does not know the secret" in caplog.text
    assert len(rig.handler.links) == 1
    first.close()
    second.close()


@pytest.mark.parametrize("way", STRANGE)
async def test_a_hello_of_an_earlier_session_is_refused(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caller = Caller(rig)
    caller.session -= 1
    await caller.greet()
    assert await caller.is_hung_up()
    assert "it calls for another session of the engine" in caplog.text
    caller.close()


@pytest.mark.parametrize("way", STRANGE)
async def test_a_repeated_line_ends_the_connection(rig: Rig) -> None:
    caller = Caller(rig)
    await caller.connect()
    await rig.handler.hello(0)
    assert caller.signer is not None
    line = caller.signer.sign(b'{"n": 1}')
    await caller.send(line)
    await caller.send(line)
    await rig.handler.until(lambda: rig.handler.reasons == ["a line has a wrong signature"])
    assert rig.handler.said[0] == [{"hello": 1}, {"n": 1}]
    caller.close()


@pytest.mark.parametrize("way", STRANGE)
async def test_a_launcher_of_an_earlier_version_is_refused_in_words(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Stranger(rig)
    await stranger.call()
    await stranger.say(b'{"wfrun": 1, "launcher": "one", "node": 0, "nonce": "n"}\n')
    assert await stranger.receive() == b""
    assert "a launcher of an earlier version of wfrun" in caplog.text
    assert "cancel its batch job" in caplog.text
    stranger.close()


@pytest.mark.parametrize("way", STRANGE)
async def test_garbage_is_refused(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    garbage = b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"\0" * 5000, b"[" * 4000 + b"\n"
    for connection, said in enumerate(garbage, 1):
        stranger = Stranger(rig, connection)
        await stranger.call()
        await stranger.say(said)
        assert await stranger.receive() == b""
        stranger.close()
    assert caplog.text.count("was refused: its handshake is invalid") == len(garbage)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tcp", "asyncssh"])
async def test_silent_callers_are_refused_and_many_of_them_keep_no_launcher_out(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_log, "MAX_WARNINGS", 1000)  # Each reason is in the log.
    await rig.links.close()
    rig.links = rig.new_links(handshake_s=6)  # The launcher has to call within it.
    await rig.links.expect(["one"])
    await rig.links.open(rig.handler)
    strangers = [Stranger(rig) for _ in range(70)]
    for stranger in strangers:
        if stranger is strangers[-1]:
            await asyncio.sleep(0.6)  # The others are no burst any more.
        await stranger.call()
        await stranger.say(b"{")
    rig.start()
    for stranger in strangers:
        assert await stranger.receive() == b""
        stranger.close()
    await rig.handler.hello(0)
    assert "it did not identify itself in time" in caplog.text
    assert "too many connections have not identified themselves" in caplog.text


async def test_files_where_no_port_can_be_reached(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rig = Rig("spool", tmp_path / "run", lambda: pytest.fail("no SSH is needed"))
    await rig.open()
    address = rig.address()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    address.update(tcp=[["127.0.0.1", port]], ssh=[["127.0.0.1", port]])
    (rig.directory / "launchers/address.json").write_text(json.dumps(address))
    rig.start(kinds="tcp,ssh,spool")
    assert (await rig.handler.hello(0)).channel == "spool"
    await rig.close()


@pytest.mark.slow
async def test_channels_that_a_site_does_not_support_are_skipped(tmp_path: Path) -> None:
    rig = Rig("local", tmp_path / "run", lambda: pytest.fail("no SSH is needed"))
    await rig.connection.open(rig.statuses.append)
    spec = LauncherSpec(cores=1)
    rig.links = SiteChannels(rig.connection, str(rig.directory), spec, "here")
    await rig.links.open(rig.handler)
    assert rig.links.channels == ("tcp", "spool")
    found = rig.address()
    assert list(found) == ["session", "tcp"]
    assert ["127.0.0.1", found["tcp"][0][1]] == found["tcp"][-1]
    assert (rig.directory / "launchers/secret").stat().st_mode & 0o777 == 0o600
    await rig.links.close()
    spec = LauncherSpec(cores=1, channels=("ssh",))
    rig.links = SiteChannels(rig.connection, str(rig.directory), spec, "here")
    with pytest.raises(InfeasibleError, match="launchers of here cannot reach the engine: s"):
        await rig.links.open(rig.handler)
    await rig.close()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["asyncssh", "openssh"])
async def test_a_server_that_does_not_forward(way: str, tmp_path: Path, sockets: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", sockets)
    cluster.sshd.stop()
    sshd = Sshd(tmp_path / "strict", cluster.key, ["AllowTcpForwarding no"])
    cluster.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {public(sshd.host_key)}\n")
    cluster.host = cluster.add("strict", sshd.port)
    rig = Rig(way, tmp_path / "run", lambda: cluster)
    with pytest.raises(InfeasibleError, match="strict does not forward ports"):
        await rig.open()
    await rig.close()
    sshd.stop()


@pytest.mark.slow
async def test_files_of_ended_launchers_are_removed(tmp_path: Path) -> None:
    rig = Rig("spool", tmp_path / "run", lambda: pytest.fail("no SSH is needed"))
    await rig.open()
    node = rig.start()
    ask(await rig.handler.hello(0), stop=True)
    await rig.handler.until(lambda: bool(rig.handler.reasons))
    node.wait(100)
    await rig.links.forget(["one", "two"])
    assert list((rig.directory / "launchers/in").iterdir()) == []
    while list((rig.directory / "launchers/out").iterdir()):
        await asyncio.sleep(0.01)
    await rig.close()
