"""The same for every channel: a launcher reaches its engine, and nobody else does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sites.pool.channel_rig import Rig, Stranger, ask
from tests.sites.remote.conftest import Cluster
from wfrun.sites.channels import Seal, proof_of
from wfrun.sites.pool.link import Link

WAYS = ("tcp", "asyncssh", "openssh", "spool")


@pytest.fixture(scope="module")
def made() -> Iterator[list[Cluster]]:
    clusters: list[Cluster] = []
    yield clusters
    for cluster in clusters:
        cluster.sshd.stop()


@pytest.fixture(params=WAYS)
async def rig(
    request: pytest.FixtureRequest,
    made: list[Cluster],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Rig]:
    sockets = Path(tempfile.mkdtemp(prefix="wf"))

    def cluster() -> Cluster:
        if not made:
            made.append(Cluster(tmp_path_factory.mktemp("cluster"), sockets))
        return made[0]

    rig = Rig(request.param, tmp_path / "run", cluster)
    await rig.open()
    yield rig
    await rig.close()


async def test_lines_go_both_ways_in_order(rig: Rig) -> None:
    rig.start()
    link = await rig.taker.hello(0)
    assert link.channel == rig.kind
    for number in range(1000):
        ask(link, n=number)
    await rig.taker.until(lambda: len(rig.taker.said[0]) == 1001)
    assert [line["n"] for line in rig.taker.said[0][1:]] == list(range(1000))
    assert 0 < link.latency_s < 5


async def test_20_megabytes_both_ways(rig: Rig) -> None:
    rig.start()
    link = await rig.taker.hello(0)
    text = "y" * 10_000
    for number in range(1000):
        ask(link, n=number, text=text)
    ask(link, say=[1000, 10_000])
    for number in range(1000):
        ask(link, n=number, text=text)
        if number % 100 == 0:
            await link.drained()
    await rig.taker.until(lambda: len(rig.taker.said[0]) == 3001)
    assert all(len(line["text"]) == 10_000 for line in rig.taker.said[0][1:])


async def test_reconnects_after_the_agent_is_killed(rig: Rig) -> None:
    rig.start()
    await rig.taker.hello(0)
    os.kill(await rig.agent_pid(), signal.SIGKILL)
    while rig.told[-1] is None:
        await asyncio.sleep(0.01)
    await rig.links.open(rig.taker)
    link = await rig.taker.hello(1)
    ask(link, n=1)
    await rig.taker.until(lambda: rig.taker.said[1][-1] == {"n": 1})
    assert len(rig.taker.reasons) == 1


async def test_reconnects_when_the_engine_has_hung_up(rig: Rig) -> None:
    rig.start()
    link = await rig.taker.hello(0)
    link.close()
    again = await rig.taker.hello(1)
    assert rig.taker.said[1][0]["session"] == 2
    ask(again, n=1)
    await rig.taker.until(lambda: rig.taker.said[1][-1] == {"n": 1})
    assert rig.taker.reasons == []


async def test_reconnects_to_the_next_engine(rig: Rig) -> None:
    rig.start()
    await rig.taker.hello(0)
    await rig.links.close()
    rig.links = rig.new_links()
    await rig.links.open(rig.taker)
    await asyncio.sleep(0.3)  # It may be there before the engine has read of it.
    await rig.links.expect(["one"])
    link = await rig.taker.hello(1)
    ask(link, n=1)
    await rig.taker.until(lambda: rig.taker.said[1][-1] == {"n": 1})
    assert rig.address()["session"] == 2


async def test_the_nodes_of_a_launcher_have_a_link_each(rig: Rig) -> None:
    for launcher, node in (("one", 0), ("one", 1), ("two", 0)):
        rig.start(launcher, node)
    await rig.taker.until(lambda: len(rig.taker.links) == 3)
    found = [(name, link.node) for name, link in zip(*both(rig), strict=True)]
    assert sorted(found) == [("one", 0), ("one", 1), ("two", 0)]


def both(rig: Rig) -> tuple[list[str], list[Link]]:
    return rig.taker.launchers, rig.taker.links


async def test_the_end_of_a_launcher_is_noticed_after_its_last_words(rig: Rig) -> None:
    node = rig.start()
    link = await rig.taker.hello(0)
    ask(link, say=[1000, 1000])
    ask(link, stop=True)
    await rig.taker.until(lambda: bool(rig.taker.reasons))
    assert len(rig.taker.said[0]) == 1002
    assert rig.taker.said[0][-1] == {"ending": "stop"}
    assert node.wait(10) == 0


async def test_a_launcher_that_was_killed_is_noticed(rig: Rig) -> None:
    await rig.links.close()
    rig.links = rig.new_links(ping_s=0.2)
    await rig.links.expect(["one"])
    await rig.links.open(rig.taker)
    node = rig.start()
    await rig.taker.hello(0)
    node.kill()
    await rig.taker.until(lambda: bool(rig.taker.reasons))


async def test_a_launcher_without_the_secret_is_refused(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Stranger(rig)
    await stranger.call()
    await stranger.say(b'{"wfrun": 1, "launcher": "one", "node": 0, "nonce": "n"}\n')
    answer = json.loads(await stranger.hear())
    proof = proof_of(b"another", "launcher", "one", 0, "n", answer["nonce"])
    await stranger.say(json.dumps({"proof": proof}).encode() + b"\n")
    assert await stranger.hear() == b""
    assert "site here" in caplog.text
    assert "as launcher one, was refused: it does not know the secret" in caplog.text
    assert rig.taker.links == []
    stranger.close()


async def test_a_replayed_handshake_is_refused(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    secret = (rig.directory / "launchers/secret").read_bytes().strip()
    name = b'{"wfrun": 1, "launcher": "one", "node": 0, "nonce": "n"}\n'
    first = Stranger(rig)
    await first.call()
    await first.say(name)
    answer = json.loads(await first.hear())
    assert answer["proof"] == proof_of(secret, "engine", "one", 0, "n", answer["nonce"])
    proof = proof_of(secret, "launcher", "one", 0, "n", answer["nonce"])
    key = proof_of(secret, "to-engine", "one", 0, "n", answer["nonce"])
    said = json.dumps({"proof": proof}).encode() + b"\n" + Seal(key).sealed(b'{"hello": 1}')
    await first.say(said)
    await rig.taker.hello(0)
    second = Stranger(rig, connection=2)
    await second.call()
    await second.say(name)
    assert json.loads(await second.hear())["nonce"] != answer["nonce"]
    await second.say(said)
    assert await second.hear() == b""
    assert "it does not know the secret" in caplog.text
    assert len(rig.taker.links) == 1
    first.close()
    second.close()


async def test_a_line_that_is_said_twice_ends_the_connection(rig: Rig) -> None:
    secret = (rig.directory / "launchers/secret").read_bytes().strip()
    stranger = Stranger(rig)
    await stranger.call()
    await stranger.say(b'{"wfrun": 1, "launcher": "one", "node": 0, "nonce": "n"}\n')
    b = json.loads(await stranger.hear())["nonce"]
    proof = proof_of(secret, "launcher", "one", 0, "n", b)
    line = Seal(proof_of(secret, "to-engine", "one", 0, "n", b)).sealed(b'{"hello": 1}')
    await stranger.say(json.dumps({"proof": proof}).encode() + b"\n" + line)
    await rig.taker.hello(0)
    await stranger.say(line)
    await rig.taker.until(lambda: rig.taker.reasons == ["a line is not signed as it should be"])
    assert len(rig.taker.said[0]) == 1
    stranger.close()


async def test_what_is_no_launcher_is_hung_up_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    garbage = b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"\0" * 5000, b"[" * 4000 + b"\n"
    for connection, said in enumerate(garbage, 1):
        stranger = Stranger(rig, connection)
        await stranger.call()
        await stranger.say(said)
        assert await stranger.hear() == b""
        stranger.close()
    assert caplog.text.count("was refused: what it says is no handshake") == len(garbage)


async def test_who_says_little_is_hung_up_on_and_many_keep_nobody_out(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    if rig.kind == "spool":
        pytest.skip("who can write there can do anything")
    await rig.links.close()
    rig.links = rig.new_links(handshake_s=0.5)
    await rig.links.expect(["one"])
    await rig.links.open(rig.taker)
    strangers = [Stranger(rig) for _ in range(70)]
    for stranger in strangers:
        await stranger.call()
        await stranger.say(b"{")
    rig.start()
    for stranger in strangers:
        assert await stranger.hear() == b""
        stranger.close()
    await rig.taker.hello(0)
    assert "it has not said in time who it is" in caplog.text
    assert "too many do not say who they are" in caplog.text
