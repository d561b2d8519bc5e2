"""The engine's end of a site's channels: listens for launchers over the site's one connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Sequence
from typing import Annotated

import msgspec

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.model import LauncherSpec
from wfrun.sites.launchers.channels.certificate import make_context
from wfrun.sites.launchers.channels.handshake import Credentials
from wfrun.sites.launchers.channels.limited_log import LimitedWarnings
from wfrun.sites.launchers.channels.link import LinkHandler
from wfrun.sites.launchers.channels.signed_link import WRITE_BYTES, SignedLink
from wfrun.sites.launchers.channels.spool import MAX_FILE_BYTES, SpoolListener, leftovers
from wfrun.sites.node.channels.signing import HANDSHAKE_S, SPOOL_HANDSHAKE_S
from wfrun.sites.remote.agent import index_to_close, is_private
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.host import Host, NewFile
from wfrun.sites.remote.incoming import ConnectionHandler, IncomingConnection, Listener
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)
PING_S = 15.0
"""Interval in seconds between pings on each link."""
MAX_STRANGERS = 64
"""Maximum number of strangers: connections that have not shown yet that they know the run's secret.
When another one connects, one stranger is refused (``index_to_close``). So strangers can neither
exhaust file descriptors here and on the head node nor keep launchers from connecting."""
BURST_S = 0.5
"""Minimum age in seconds of a stranger that is refused. All launchers may connect at the same
moment, so younger strangers are refused only when there are 4 * MAX_STRANGERS strangers."""


class _Address(msgspec.Struct):
    """The content of ``address.json`` at the site, of which only the number of the last session is
    read."""

    session: Annotated[int, msgspec.Meta(ge=0, le=10**9)]


class SiteChannels:
    """Implements ``LauncherChannels`` for one run at one site.

    ``connection`` leads to the head node, ``directory`` is the absolute path of the run's directory
    at the site, ``spec`` lists the channels to use, and ``site`` is the site's name in messages.
    """

    def __init__(
        self,
        connection: Connection,
        directory: str,
        spec: LauncherSpec,
        site: str,
        *,
        ping_s: float = PING_S,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        self.session = 0
        """Number of the current session, from 1. Each call of ``open``, by any engine of the run,
        begins a session. By its higher number launchers recognize a new session."""
        self.channels: tuple[str, ...] = ()
        """The channels on which the engine listens now."""
        self._connection = connection
        self._directory = directory
        self._spec = spec
        self._site = site
        self._ping_s = ping_s
        self._handshake_s = handshake_s
        self._handler: LinkHandler | None = None
        self._credentials = Credentials()
        self._refusals = LimitedWarnings(site)
        self._expected: set[str] = set()
        self._listeners: list[Listener | SpoolListener] = []
        self._waiting: list[SignedLink] = []
        """Links whose launcher has not proved its identity or is not expected yet, oldest first."""
        self._links: dict[tuple[str, int], SignedLink] = {}
        self._pinger: asyncio.Task[None] | None = None

    # -- for the site

    async def open(self, handler: LinkHandler) -> None:
        await self._stop("the engine has opened its channels again")
        self._handler = handler
        host = await self._connection.host()
        home = f"{self._directory}/launchers"
        await host.make_private(home)
        await host.make_directories([f"{home}/in", f"{home}/out"])
        await self._prepare(host, home)
        address: dict[str, object] = {"session": self.session}
        reasons = []
        channels = []
        for channel in self._spec.channels:
            try:
                found = await self._listen(host, channel)
            except InfeasibleError as error:
                _LOGGER.info("%s: no channel by %s: %s", self._site, channel, error)
                reasons.append(f"{channel}: {error.message}")
                continue
            if found:
                address[channel] = found
            channels.append(channel)
        if not channels:
            raise InfeasibleError(
                f"launchers of {self._site} cannot reach the engine: {'; '.join(reasons)}",
                hint="Allow more 'channels', or leave them out, in the catalog."
                + (" Or correct 'address' there." if self._spec.address else ""),
            )
        await host.write([NewFile(f"{home}/address.json", json.dumps(address).encode())])
        self.channels = tuple(channels)
        self._pinger = asyncio.create_task(self._ping_on())

    async def expect(self, launchers: Sequence[str]) -> None:
        self._expected.update(launchers)
        for link in [*self._waiting]:
            link.admit()

    async def forget(self, launchers: Sequence[str]) -> None:
        self._expected.difference_update(launchers)
        for launcher, node in [key for key in self._links if key[0] in launchers]:
            self._links.pop((launcher, node)).close()
        if launchers and "spool" in self._spec.channels:
            host = await self._connection.host()
            await host.remove(leftovers(self._directory, launchers, self._spec.nodes))

    async def dismiss(self) -> None:
        host = await self._connection.host()
        over = json.dumps({"session": self.session, "over": True}).encode()
        await host.write([NewFile(f"{self._directory}/launchers/address.json", over)])

    async def close(self) -> None:
        self._handler = None
        await self._stop("the engine has closed its links")

    # -- listening

    async def _prepare(self, host: Host, home: str) -> None:
        """Read the run's secret, or write a new one, and choose the number of the new session."""
        stored, address = await host.read([f"{home}/secret", f"{home}/address.json"])
        secret = (stored or b"").strip()
        if not secret:
            secret = secrets.token_hex(32).encode()
            await host.write([NewFile(f"{home}/secret", secret + b"\n")])
        session = self.session
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            found = msgspec.json.decode(address or b"", type=_Address)
            session = max(session, found.session)
        self.session = session + 1
        self._credentials = Credentials(secret, self.session)
        if self._spec.encrypt and self._spec.channels != ("spool",):
            self._credentials.context, self._credentials.digest = make_context()

    async def _listen(self, host: Host, channel: str) -> list[tuple[str, int]]:
        """Listen on one channel. Returns the hosts and ports to which launchers connect; empty for
        the spool."""

        def accept(connection: IncomingConnection) -> ConnectionHandler:
            return self._accept(connection, channel)

        listener: Listener | SpoolListener
        if channel == "spool":
            spool = SpoolListener(host, self._directory, self.session, accept)
            await spool.open()
            self._listeners.append(spool)
            return []
        address = self._spec.address
        addresses = await host.addresses(address)
        if channel == "tcp":
            listener = await host.listen(address, accept)
        else:
            transport = await self._connection.transport()
            if address is None and is_private(addresses[0]):
                address = addresses[0]  # not at one that is open to the internet
            listener = await transport.forward(address, accept)
        self._listeners.append(listener)
        return [(each, listener.port) for each in addresses]

    def _accept(self, connection: IncomingConnection, channel: str) -> ConnectionHandler:
        """Make the link of an incoming connection. Refuses a stranger if there are too many."""
        is_spool = channel == "spool"
        known = self._credentials
        link = SignedLink(
            connection,
            channel,
            known.without_encryption() if is_spool else known,
            self,
            self._expected.__contains__,
            limit_s=SPOOL_HANDSHAKE_S if is_spool else self._handshake_s,
            write_bytes=MAX_FILE_BYTES if is_spool else WRITE_BYTES,
        )
        self._waiting = [each for each in self._waiting if not each.is_over]
        # Only the user can write the files of a spool, so those are not strangers.
        strangers = [e for e in self._waiting if e.is_stranger and e.channel != "spool"]
        if len(strangers) >= MAX_STRANGERS and not is_spool:
            hosts = [each.address.rpartition(":")[0] for each in strangers]
            surplus = strangers[index_to_close(hosts)]
            if link.since_s - surplus.since_s >= BURST_S or len(strangers) >= 4 * MAX_STRANGERS:
                surplus.refuse("too many connections have not identified themselves")
        self._waiting.append(link)
        return link

    async def _stop(self, reason: str) -> None:
        """End all links and listeners."""
        if self._pinger is not None:
            await end_tasks([self._pinger])
            self._pinger = None
        self.channels = ()
        listeners, self._listeners = self._listeners, []
        links, self._links = [*self._links.values()], {}
        for link in links:
            link.close()
            if self._handler is not None:
                self._handler.on_disconnected(link, reason)
        waiting, self._waiting = self._waiting, []
        for link in [*links, *waiting]:
            await link.closed()
        for listener in listeners:
            with contextlib.suppress(WfrunError):  # it ended with the old connection
                await listener.close()
        # Connections that were accepted meanwhile.
        waiting, self._waiting = self._waiting, []
        for link in waiting:
            await link.closed()

    async def _ping_on(self) -> None:
        while True:
            await asyncio.sleep(self._ping_s)
            for link in [*self._links.values()]:
                link.ping()

    # -- called by the links

    def on_proved(self, link: SignedLink) -> None:
        self._waiting.remove(link)
        earlier = self._links.get((link.launcher, link.node_number))
        if earlier is not None:
            earlier.close()
        self._links[link.launcher, link.node_number] = link
        if self._handler is not None:
            self._handler.on_connected(link.launcher, link)

    def on_refused(self, link: SignedLink, reason: str) -> None:
        name = f", as launcher {link.claimed[:80]!r}," if link.claimed else ""
        self._refusals.warn(
            f"a connection by {link.channel} from {link.address}{name} was refused: {reason}"
        )

    def on_lines(self, link: SignedLink, lines: list[bytes]) -> None:
        if self._handler is not None:
            self._handler.on_lines(link, lines)

    def on_ended(self, link: SignedLink, reason: str) -> None:
        if self._links.get((link.launcher, link.node_number)) is link:
            del self._links[link.launcher, link.node_number]
            if self._handler is not None:
                self._handler.on_disconnected(link, reason)
