"""An agent that sends what it likes: requests end in words, memory stays bounded, and the agent is
given up."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from wfrun.engine.errors import TransientError
from wfrun.sites.remote import agent_client
from wfrun.sites.remote.agent import LENGTHS
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.incoming import ConnectionHandler, IncomingConnection
from wfrun.sites.remote.transports.local_transport import LocalTransport

Use = Callable[[AgentHost], Awaitable[object]]
Play = Callable[..., Awaitable[AgentHost]]
HELLO = {"hello": 1, "pid": 7, "host": "h", "user": "u", "home": "/", "python": "3", "clock": 0}


def frame(payload: int = 0, lengths: list[int] | None = None, **header: Any) -> list[Any]:
    return [json.dumps(header), payload, lengths]


def encoded(text: str, payload: int, lengths: list[int] | None, number: int = 7) -> bytes:
    text = text.replace('"ID"', str(number)).replace("DEEP", "[" * 200_000)
    header, content = lengths or (len(text), payload)
    packed = bytes(LENGTHS.pack(header, content))
    return packed + text.encode() + b"x" * payload


class HostileAgent:
    """Implements ``Process``: greets, and answers each request but the first ping with frames."""

    def __init__(self, act: dict[str, Any]) -> None:
        self._act = act
        self._received = bytearray()
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._source: int | None = len(agent_client._SOURCE.read_bytes())

    async def write(self, data: bytes) -> None:
        self._received += data
        if self._source is not None and len(self._received) >= self._source:
            del self._received[: self._source]
            self._source = None
            self._greet()
        while self._source is None and len(self._received) >= LENGTHS.size:
            header, payload = LENGTHS.unpack_from(self._received)
            if len(self._received) < LENGTHS.size + header + payload:
                break
            request = json.loads(self._received[LENGTHS.size : LENGTHS.size + header])
            del self._received[: LENGTHS.size + header + payload]
            self._answer(request)

    def _greet(self) -> None:
        if self._act["before"] is not None:
            for _ in range(100):
                self._sent.put_nowait(self._mark() + self._act["before"].encode() * 10_000)
            return
        hello = json.dumps(HELLO | self._act["hello"])
        self._sent.put_nowait(self._mark() + b"agent\n" + encoded(hello, 0, None))

    def _mark(self) -> bytes:
        return f"\0wfrun-{self._act['nonce']} ".encode()

    def _answer(self, request: dict[str, Any]) -> None:
        if request["ask"] == "ping" and not self._act["ping"]:
            self._sent.put_nowait(encoded(json.dumps({"id": request["id"], "clock": 0}), 0, None))
            return
        for each in self._act["frames"]:
            self._sent.put_nowait(encoded(each[0], each[1], each[2], request["id"]))

    def end_input(self) -> None:
        self._sent.put_nowait(b"")

    async def read(self, limit: int) -> bytes:
        return await self._sent.get()

    def errors(self) -> str:
        return ""

    async def wait(self) -> int | None:
        return 0

    async def close(self) -> None:
        pass


class HostileTransport(LocalTransport):
    def __init__(self, act: dict[str, Any]) -> None:
        super().__init__()
        self._act = act

    async def start(self, command: str) -> Any:
        nonce = re.search(r'"nonce": "(\w+)"', command)
        assert nonce is not None
        return HostileAgent({**self._act, "nonce": nonce[1]})


@pytest.fixture
async def play() -> AsyncIterator[Play]:
    """Starts an agent that answers each request with these frames."""
    hosts: list[AgentHost] = []

    async def start(
        *frames: list[Any], ping: bool = False, before: str | None = None, **hello: Any
    ) -> AgentHost:
        act = {"frames": frames, "ping": ping, "before": before, "hello": hello}
        hosts.append(AgentHost(HostileTransport(act)))
        await hosts[-1].start()
        return hosts[-1]

    yield start
    for host in hosts:
        await host.close()


REQUESTS: dict[str, Use] = {
    "run": lambda host: host.run(["true"]),
    "series": lambda host: host.run_series([["true"], ["true"]]),
    "read": lambda host: host.read(["/a", "/b"], limit=100),
    "stat": lambda host: host.stat(["/a", "/b"]),
    "claim": lambda host: host.claim(["/a", "/b"]),
    "addresses": lambda host: host.addresses(None),
    "counts": lambda host: host.counts(),
    "listen": lambda host: host.listen(None, Ignored),
}


class Ignored(ConnectionHandler):
    def __init__(self, connection: IncomingConnection) -> None:
        pass

    def received(self, data: bytes) -> None:
        pass

    def ended(self, reason: str) -> None:
        pass


BAD: dict[str, list[Any]] = {
    "no json": ["{", 0, None],
    "no object": ["[]", 0, None],
    "deep": ["DEEP", 0, None],
    "deep field": ['{"id": "ID", "values": DEEP', 0, None],
    "impossible length": frame(0, [1 << 31, 0], id="ID"),
    "impossible payload": frame(0, [2, 1 << 31], id="ID"),
    "text for an id": frame(id="one"),
    "negative id": frame(id=-1),
    "infinite clock": ['{"id": "ID", "clock": 1e999}', 0, None],
    "not a number": ['{"id": "ID", "clock": NaN}', 0, None],
    "too large a number": ['{"id": "ID", "sizes": [' + "9" * 5000 + "]}", 0, None],
    "sizes too small": frame(10, id="ID", sizes=[1, 2]),
    "sizes too large": frame(1, id="ID", sizes=[1, 1 << 40]),
    "negative sizes": frame(0, id="ID", sizes=[-1, 1]),
    "no sizes": frame(0, id="ID", sizes=7),
    "text for a port": frame(id="ID", port="no"),
    "a port beyond ports": frame(id="ID", port=70000),
    "text for counts": frame(id="ID", commands={"a": "b"}),
    "files without names": frame(3, spool=1, names=["a.1.1"], sizes=[1, 2]),
    "names that are none": frame(0, spool=1, names=[7], sizes=[0]),
    "no kind": frame(),
    "a refusal of all": frame(id=None, error="infeasible", message="m" * 100_000),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("asked", ["read", "listen"])
async def test_what_is_no_frame_ends_it(
    play: Play, bad: str, asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = await play(BAD[bad])
    with pytest.raises(TransientError) as raised:
        await asyncio.wait_for(REQUESTS[asked](host), PATIENCE_S)
    assert "the agent broke its protocol" in str(raised.value)
    assert len(str(raised.value)) < 5000
    assert host.ended.done()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


ANSWERS: list[tuple[str, list[Any]]] = [
    ("run", frame(id="ID")),
    ("run", frame(3, id="ID", sizes=[1, 1, 1])),
    ("run", frame(70 << 20, id="ID", sizes=[70 << 20, 0])),
    ("series", frame(id="ID")),
    ("series", frame(0, id="ID", exit_codes=[0])),
    ("series", frame(0, id="ID", exit_codes=[0], sizes=[0, 0, 0, 0])),
    ("series", frame(0, id="ID", exit_codes=[0, 0, 0], sizes=[0] * 6)),
    ("series", frame(70 << 20, id="ID", exit_codes=[0], sizes=[70 << 20, 0])),
    ("read", frame(id="ID")),
    ("read", frame(id="ID", sizes=[])),
    ("read", frame(3, id="ID", sizes=[1, 1, 1])),
    ("read", frame(101, id="ID", sizes=[101])),
    ("stat", frame(id="ID")),
    ("stat", frame(id="ID", values=[])),
    ("stat", frame(id="ID", values=[None])),
    ("stat", frame(id="ID", values=[None, [1, True]])),
    ("stat", frame(id="ID", values=[None, [-1, True, False]])),
    ("stat", frame(id="ID", values=[None, [1e300, True, False]])),
    ("stat", frame(id="ID", values={"a": 1})),
    ("stat", frame(id="ID", values=[None, None, None])),
    ("claim", frame(id="ID", values=[True])),
    ("claim", frame(id="ID", values=[True, "yes"])),
    ("addresses", frame(id="ID", values=[7])),
    ("addresses", frame(id="ID", values="10.0.0.1")),
]


@pytest.mark.parametrize(("asked", "answer"), ANSWERS)
async def test_an_answer_to_something_else_ends_it(
    play: Play, asked: str, answer: list[Any]
) -> None:
    host = await play(answer)
    with pytest.raises(TransientError, match="the agent broke its protocol"):
        await asyncio.wait_for(REQUESTS[asked](host), PATIENCE_S)
    assert host.ended.done()


@pytest.mark.parametrize(
    "hello",
    [
        {"hello": "1"},
        {"hello": 2},
        {"pid": "x"},
        {"home": 7},
        {"home": "~"},
        {"user": "u" * 5000},
        {"clock": "now"},
        {"host": None},
    ],
)
async def test_a_hello_of_another_kind_is_refused(play: Play, hello: dict[str, Any]) -> None:
    with pytest.raises(TransientError, match="the agent "):
        await play(**hello)


@pytest.mark.parametrize("clock", [1e300, -1e300, "soon", None])
async def test_a_clock_without_a_time_is_refused(play: Play, clock: object) -> None:
    with pytest.raises(TransientError, match="the agent "):
        await play(frame(id="ID", clock=clock), ping=True)


async def test_a_greeting_without_end_is_given_up(play: Play) -> None:
    with pytest.raises(TransientError, match="without end"):
        await play(before="agent ")


async def test_connections_without_end_end_it(play: Play) -> None:
    many = [frame(connection=n, of=2, address="a") for n in range(3000)]
    host = await play(*many)
    with pytest.raises(TransientError, match="connections without end"):
        await asyncio.wait_for(REQUESTS["listen"](host), PATIENCE_S)


async def test_a_connection_that_begins_twice_ends_it(play: Play) -> None:
    host = await play(*[frame(connection=1, of=2, address="a")] * 2)
    with pytest.raises(TransientError, match="a second connection"):
        await asyncio.wait_for(REQUESTS["listen"](host), PATIENCE_S)


async def test_answers_that_nobody_asked_for_are_ignored(play: Play) -> None:
    frames = [
        frame(id=999),
        frame(connection=5, ended="x"),
        frame(3, connection=6),
        frame(0, watch=77, sizes=[0]),
        frame(0, spool=78, names=["../../x"], sizes=[0]),
        frame(0, id="ID", sizes=[0, 0], exit_code=0),
    ]
    host = await play(*frames)
    assert (await host.run(["true"])).exit_code == 0
    assert not host.ended.done()
