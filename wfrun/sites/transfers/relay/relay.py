"""The transfer method through this machine that needs no agent at the sites."""

from __future__ import annotations

import asyncio

from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content, Receipt
from wfrun.sites.remote.host import Stat
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.agentless_endpoint import AgentlessEndpoint
from wfrun.sites.transfers.endpoints.endpoint import Endpoint, check_size, hold_slots
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.disk import absent
from wfrun.sites.transfers.method import Location, NotCarriedError
from wfrun.sites.transfers.relay import stall
from wfrun.sites.transfers.relay.relay_scp import RelayedCopy, RelayEnd, ScpRelay
from wfrun.sites.transfers.relay.stream import stream_file


class FileRelay:
    """Implements ``TransferMethod`` by SFTP channels of the sites' connections.

    A file between two sites passes through the memory of this machine, without a copy on its disk.
    If a site is connected by the system's ssh, the file goes by scp or, where scp cannot carry it,
    through ``cat`` at the site.
    """

    computes_digest = True

    def __init__(self, caps: BandwidthCaps | None = None) -> None:
        """``caps`` has the maximum bandwidths of the catalog, which copies obey."""
        self._caps = caps or BandwidthCaps()
        self._scp = ScpRelay()

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        return any(isinstance(end, RemoteEndpoint) for end in (source, destination))

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        async with hold_slots(source.endpoint, destination.endpoint):
            reader, writer, stat = await _begun(source, destination)
            if stat is None:
                raise absent(source.path)
            if stat.is_directory:
                raise NotCarriedError("copies no directories")
            check_size(source.path, stat.size_bytes, expected.size_bytes)
            whole = Content(stat.size_bytes, expected.digest, expected.verify)
            digest = await self._send(
                RelayedCopy(reader, writer, source, destination, key, whole, stat.is_executable)
            )
        return Receipt(stat.size_bytes, loop.time() - begun_s, digest)

    async def _send(self, copy: RelayedCopy) -> str | None:
        """Copy a file of a known size. Returns the file's digest, if that is known or computed."""
        limits = self._caps.between(copy.source.endpoint, copy.destination.endpoint)
        # The rate of scp could be limited, but not shared with other copies.
        if not limits and await self._scp.can_carry(copy):
            return await self._scp.copy(copy)
        return await stream_file(*copy, limits)

    def close(self) -> None:
        """Nothing to release: a copy ends with its task."""


async def _begun(source: Location, destination: Location) -> tuple[RelayEnd, RelayEnd, Stat | None]:
    """Open both ends of a copy, and return them with the status of the source. Raises
    TransientError after STALL_S."""

    async def begin() -> tuple[RelayEnd, RelayEnd, Stat | None]:
        reader, writer = await _opened(source.endpoint), await _opened(destination.endpoint)
        return reader, writer, await reader.stat(source.name)

    try:
        return await asyncio.wait_for(begin(), stall.STALL_S)
    except asyncio.TimeoutError as error:
        raise TransientError(f"{source.path}: nothing came for {stall.STALL_S:g} s") from error


async def _opened(endpoint: Endpoint) -> RelayEnd:
    """The files of an end, without an agent."""
    if isinstance(endpoint, RemoteEndpoint):
        transport = await endpoint.connection.plain_transport()
        return AgentlessEndpoint(endpoint, transport, await transport.plain_files())
    assert isinstance(endpoint, LocalEndpoint)
    return endpoint
