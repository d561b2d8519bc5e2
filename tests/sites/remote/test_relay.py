"""Connections that a real agent passes on: strangers get little of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.waiting import until
from wfrun.sites.remote import agent
from wfrun.sites.remote.agent import MAX_CONNECTIONS, UNADMITTED_BYTES
from wfrun.sites.remote.agent_channels import AgentChannels
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.frames import Frame, Header
from wfrun.sites.remote.incoming import IncomingConnection
from wfrun.sites.remote.transports.local_transport import LocalTransport


@pytest.fixture
async def host() -> AsyncIterator[AgentHost]:
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    yield host
    await host.close()
    await transport.close()


class Handler:
    """Implements ``ConnectionHandler``: records what it is called with."""

    def __init__(self, connection: IncomingConnection) -> None:
        self.connection = connection
        self.data = b""
        self.reason = ""

    def received(self, data: bytes) -> None:
        self.data += data

    def ended(self, reason: str) -> None:
        self.reason = reason


class Port:
    """A port that the agent listens on, and its connections in their order."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []
        self.number = 0
        self._callers = contextlib.ExitStack()

    async def open(self, host: AgentHost) -> None:
        self.number = (await host.listen("127.0.0.1", self.take)).port

    def take(self, connection: IncomingConnection) -> Handler:
        self.handlers.append(Handler(connection))
        return self.handlers[-1]

    def call(self, host: str = "127.0.0.1") -> socket.socket:
        caller = socket.create_connection(("127.0.0.1", self.number), 30, (host, 0))
        self._callers.enter_context(caller)
        return caller

    def close(self) -> None:
        self._callers.close()


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port()
    yield port
    port.close()


async def test_little_is_passed_on_of_a_connection_that_is_not_admitted(
    host: AgentHost, port: Port
) -> None:
    await port.open(host)
    with contextlib.suppress(ConnectionError):
        port.call().sendall(bytes(1 << 20))
    await until(lambda: bool(port.handlers) and bool(port.handlers[0].reason))
    assert len(port.handlers[0].data) == UNADMITTED_BYTES
    assert port.handlers[0].reason == "it sent too much before it identified itself"


async def test_an_admitted_connection_sends_what_it_likes(host: AgentHost, port: Port) -> None:
    await port.open(host)
    caller = port.call()
    caller.sendall(b"hello")
    await until(lambda: bool(port.handlers) and port.handlers[0].data == b"hello")
    port.handlers[0].connection.admit()
    await port.handlers[0].connection.write(b"welcome")
    assert caller.recv(7) == b"welcome"
    caller.setblocking(False)
    sent = 0
    while sent < 1 << 20:
        with contextlib.suppress(BlockingIOError):
            sent += caller.send(bytes((1 << 20) - sent))
        size = len(port.handlers[0].data)
        await until(lambda: len(port.handlers[0].data) > size or sent + 5 <= size)  # noqa: B023
    await until(lambda: len(port.handlers[0].data) == 5 + (1 << 20))
    assert not port.handlers[0].reason


async def test_the_agent_has_the_admission_before_the_peer_has_an_answer() -> None:
    asked: list[str] = []

    async def request(
        verb: str, content: bytes = b"", patience_s: float = 60.0, **request: object
    ) -> Frame:
        await asyncio.sleep(0.01 if verb == "admit" else 0)
        asked.append(verb)
        return Header(), []

    channels = AgentChannels(request)
    connections: list[IncomingConnection] = []

    def take(connection: IncomingConnection) -> Handler:
        connections.append(connection)
        return Handler(connection)

    await channels.listen(1, None, take)
    channels.take(7, Header(of=1), b"")
    connections[0].admit()
    await connections[0].write(b"welcome")
    await connections[0].write(b"work")
    assert asked == ["listen", "admit", "pass", "pass"]


async def test_many_silent_strangers_keep_nobody_out(host: AgentHost, port: Port) -> None:
    """As many as there may be connections come from one host, and later one from another."""
    await port.open(host)
    port.call()
    await until(lambda: len(port.handlers) == 1)
    port.handlers[0].connection.admit()
    await host.counts()  # the agent has admitted it
    for count in range(1, MAX_CONNECTIONS):
        port.call("127.0.0.2")
        if count % 100 == 0 or count == MAX_CONNECTIONS - 1:  # as many as wait to be accepted
            await until(lambda: len(port.handlers) == count + 1)  # noqa: B023
    first = port.call()
    await until(lambda: len(port.handlers) == MAX_CONNECTIONS + 1)
    second = port.call("127.0.0.2")
    await until(lambda: len(port.handlers) == MAX_CONNECTIONS + 2)
    for caller in (first, second):
        caller.sendall(b"here")
    await until(lambda: all(handler.data == b"here" for handler in port.handlers[-2:]))
    ended = [number for number, handler in enumerate(port.handlers) if handler.reason]
    assert ended == [1, 2]  # the oldest that were not admitted
    assert port.handlers[1].reason == "there are too many connections"


def test_one_host_does_not_keep_another_out() -> None:
    assert agent.index_to_close(["a", "b", "b", "c", "b"]) == 1
    assert agent.index_to_close(["a", "b", "c"]) == 0


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        (["10.1.0.1", "141.20.5.1"], ["10.1.0.1"]),
        (["141.20.5.1", "172.16.0.1", "fd00::1"], ["172.16.0.1", "fd00::1"]),
        (["172.217.0.1", "127.0.1.1", "2001:db8::1"], ["172.217.0.1", "2001:db8::1"]),
        (["141.20.5.1", "172.17.0.1 of containers", "172.17.0.1"], ["141.20.5.1"]),
        (["100.64.0.7", "100.63.0.7", "fe80::1"], ["100.64.0.7"]),
        ([], []),
    ],
)
def test_addresses_in_private_networks_face_the_cluster(
    found: list[str], chosen: list[str]
) -> None:
    pairs = [(each.split()[0], each.endswith("of containers")) for each in found]
    assert agent.facing_cluster(pairs) == chosen


def test_no_port_is_open_at_other_addresses() -> None:
    listeners = agent.listen_at(None)
    bound = [listener.getsockname() for listener in listeners]
    for listener in listeners:
        listener.close()
    assert {name[0] for name in bound} <= set(agent.addresses_of(None))
    assert "127.0.0.1" in {name[0] for name in bound}
    assert len({name[1] for name in bound}) == 1


def test_an_address_of_the_catalog_is_the_only_one() -> None:
    (listener,) = agent.listen_at("127.0.0.2")
    assert listener.getsockname()[0] == "127.0.0.2"
    listener.close()
