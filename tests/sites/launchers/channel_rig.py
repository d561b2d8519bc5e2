"""Both ends of the channels: an engine's links over a real connection, and nodes that are
processes."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from tests.places import ROOT
from tests.sites.remote.conftest import Cluster
from wfrun.engine.model import LauncherSpec
from wfrun.sites.launchers.channels.channels import SiteChannels
from wfrun.sites.launchers.channels.link import Link
from wfrun.sites.node.channels.encryption import Encryption, encryption_of_launcher
from wfrun.sites.node.channels.signing import PROTOCOL, LineSigner, proof_of
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport
from wfrun.sites.remote.transports.local_transport import LocalTransport
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
from wfrun.sites.remote.transports.transport import Transport

LIMIT_S = 100.0
CHANNELS = ROOT / "wfrun" / "sites" / "node" / "channels"
NODE = Path(__file__).with_name("echo_node.py")


class Recorder:
    """Implements ``LinkHandler``: records all calls."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.launchers: list[str] = []
        self.reasons: list[str] = []
        self.said: dict[int, list[dict[str, Any]]] = {}
        """By the number of the link, from 0."""
        self._changed = asyncio.Event()

    def on_connected(self, launcher: str, link: Link) -> None:
        self.launchers.append(launcher)
        self.links.append(link)
        self.said[len(self.links) - 1] = []
        self._changed.set()

    def on_lines(self, link: Link, lines: Sequence[bytes]) -> None:
        self.said[self.links.index(link)] += [json.loads(line) for line in lines]
        self._changed.set()

    def on_disconnected(self, link: Link, reason: str) -> None:
        self.reasons.append(reason)
        self._changed.set()

    async def until(self, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        async def wait() -> None:
            while not condition():
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), limit_s)

    async def hello(self, number: int) -> Link:
        """The link of this number, once its launcher has said hello."""
        await self.until(lambda: bool(self.said.get(number)))
        assert "hello" in self.said[number][0]
        return self.links[number]


class Rig:
    """A site's links by one kind of connection (tcp, asyncssh, openssh, spool), and its nodes."""

    def __init__(self, way: str, directory: Path, cluster: Callable[[], Cluster]) -> None:
        self.way = way
        self.kind = "ssh" if way.endswith("ssh") else way
        self.directory = directory
        (directory / "launchers/in/one.0").mkdir(parents=True)
        self.handler = Recorder()
        self.statuses: list[str | None] = []
        self._cluster = cluster
        self._nodes: list[subprocess.Popen[bytes]] = []
        self.connection = Connection(("host",), self._make, delays_s=(0.05, 0.1))
        self.links = self.new_links()

    def new_links(
        self,
        ping_s: float = 15.0,
        handshake_s: float = 10.0,
        *,
        encrypt: bool = True,
        kinds: tuple[str, ...] = (),
    ) -> SiteChannels:
        channels = cast(tuple[Literal["tcp", "ssh", "spool"]], kinds or (self.kind,))
        spec = LauncherSpec(
            cores=1, nodes=2, channels=channels, address="127.0.0.1", encrypt=encrypt
        )
        return SiteChannels(
            self.connection,
            str(self.directory),
            spec,
            "here",
            ping_s=ping_s,
            handshake_s=handshake_s,
        )

    def _make(self, host: str, may_ask: bool) -> Transport:
        if self.way == "asyncssh":
            return AsyncsshTransport(self._cluster().host, config=self._cluster().config)
        if self.way == "openssh":
            return OpensshTransport(
                self._cluster().host, config=self._cluster().config, sockets=self._cluster().sockets
            )
        return LocalTransport()

    async def open(self) -> None:
        await self.connection.open(self.statuses.append)
        await self.links.expect(["one", "two"])
        await self.links.open(self.handler)

    def start(
        self,
        launcher: str = "one",
        node: int = 0,
        kinds: str = "",
        python: str = sys.executable,
        path: str | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a node; ``path`` is a directory of modules that it finds before all others."""
        node_program = subprocess.Popen(
            [python, NODE, CHANNELS, self.directory, launcher, str(node), kinds or self.kind],
            env=None if path is None else {**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._nodes.append(node_program)
        return node_program

    def address(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "launchers/address.json").read_text())
        return found

    async def agent_pid(self) -> int:
        return (await self.connection.host()).pid  # type: ignore[attr-defined, no-any-return]

    async def close(self) -> None:
        for node in self._nodes:
            node.kill()
            node.wait()
            assert node.stderr is not None
            node.stderr.close()
        await self.links.close()
        await self.connection.close()


class Stranger:
    """A caller that is no launcher, and sends what the test says."""

    def __init__(self, rig: Rig, connection: int = 1) -> None:
        self._rig = rig
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stem = f"{rig.address()['session']}.{connection}"
        self._written = 0
        self._read = 0

    async def call(self) -> None:
        if self._rig.kind != "spool":
            host, port = self._rig.address()[self._rig.kind][0]
            self._reader, self._writer = await asyncio.open_connection(host, port)

    async def say(self, data: bytes) -> None:
        if self._writer is not None:
            self._writer.write(data)
            await self._writer.drain()
            return
        self._written += 1
        name = f"one.0.{self._stem}.{self._written}"
        out = self._rig.directory / "launchers/out"
        (out / f".{name}").write_bytes(data)
        (out / f".{name}").rename(out / name)

    async def receive(self) -> bytes:
        """What the engine sends next; empty when it has hung up."""

        async def look() -> bytes:
            if self._reader is not None:
                try:
                    return await self._reader.read(1 << 16)
                except ConnectionError:
                    return b""
            self._read += 1
            path = self._rig.directory / "launchers/in/one.0" / f"{self._stem}.{self._read}"
            while not path.exists():
                await asyncio.sleep(0.005)
            return path.read_bytes()

        return await asyncio.wait_for(look(), LIMIT_S)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Caller(Stranger):
    """A caller that speaks the protocol of launchers, as far and as falsely as the test says."""

    def __init__(self, rig: Rig, connection: int = 1, secret: bytes | None = None) -> None:
        super().__init__(rig, connection)
        self.secret = secret or (rig.directory / "launchers/secret").read_bytes().strip()
        self.session = int(rig.address()["session"])
        self.names: list[object] = []
        self.answer: dict[str, Any] = {}
        self.signer: LineSigner | None = None
        self._encryption: Encryption | None = None

    def proof(self, who: str) -> str:
        return proof_of(self.secret, who, *self.names)

    async def greet(self, launcher: str = "one", node: int = 0, nonce: str = "") -> bytes:
        """Call and say hello; returns what was said."""
        nonce = nonce or secrets.token_hex(16)
        self.names = [launcher, node, self.session, nonce]
        hello = {"wfrun": PROTOCOL, "launcher": launcher, "node": node, "session": self.session,
                 "nonce": nonce, "proof": self.proof("hello")}  # fmt: skip
        said = json.dumps(hello).encode() + b"\n"
        await self.call()
        await self.say(said)
        return said

    async def read_answer(self) -> None:
        self.answer = json.loads(await self.receive())
        self.names += [self.answer["nonce"], self.answer["certificate"]]

    async def prove(self, who: str = "launcher", lines: Sequence[bytes] = ()) -> bytes:
        """Prove to be a launcher, and send lines with that; returns what was sent."""
        if self.answer["certificate"]:
            self._encryption = encryption_of_launcher(self.answer["certificate"])
            self._encryption.begin()
            while not self._encryption.is_open:
                await self.say(self._encryption.outgoing())
                self._encryption.receive(await self.receive())
        self.signer = LineSigner(self.proof("to-engine"))
        said = json.dumps({"proof": self.proof(who)}).encode() + b"\n"
        said += b"".join(self.signer.sign(line) for line in lines)
        await self.send(said)
        return said

    async def send(self, data: bytes) -> None:
        """Send what follows the handshake, encrypted where the engine has asked for it."""
        if self._encryption is not None:
            self._encryption.send(data)
            data = self._encryption.outgoing()
        await self.say(data)

    async def connect(self, launcher: str = "one", node: int = 0) -> None:
        """Connect as a launcher does, and say hello."""
        await self.greet(launcher, node)
        await self.read_answer()
        await self.prove(lines=[b'{"hello": 1}'])

    async def is_hung_up(self) -> bool:
        """Whether the engine ends the connection; waits for it."""
        while await self.receive():
            pass
        return True


def ask(link: Link, **said: Any) -> None:
    link.send(json.dumps(said).encode())
