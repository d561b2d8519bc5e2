"""The transfer method of GridFTP servers: ``globus-url-copy`` on this machine.

Between two sites that both have a server the data go directly from one to the other; this machine
only steers. Between a site and this machine the client itself is the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.model import GridFtpServer
from wfrun.sites.tasks import end_tasks
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.endpoint import Endpoint, check_size, hold_slots, part_name
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.gridftp.gridftp_client import PROGRAM, GridFtpClient
from wfrun.sites.transfers.gridftp.gridftp_errors import explain
from wfrun.sites.transfers.gridftp.gridftp_url import local_url, server_url
from wfrun.sites.transfers.local.disk import absent
from wfrun.sites.transfers.method import Location, MethodFailedError, NotCarriedError, with_digest
from wfrun.sites.transfers.relay.following import Following, followed_bytes, following
from wfrun.sites.transfers.resume import keeps_part, resuming, trusted

MAX_CLIENTS = 8
"""Maximum number of clients at a time. Each is a process here, and a connection to each server."""
PARALLEL_BYTES = 16 << 20
"""Size in bytes from which a file goes by several streams. For smaller files, opening streams takes
longer than they save."""
STREAMS = 4
RESTART_BYTES = 256 << 20
"""Minimum number of bytes of a copy for which the client itself retries after a failure, with the
missing ranges. The client retries after every kind of failure, so for smaller copies it would only
delay the report. It never retries a copy that is verified by digest."""
_RESTART = ("-rst", "-rst-retries", "2", "-rst-interval", "5")


class GridFtp:
    """Implements ``TransferMethod`` for sites whose catalog entry has ``gridftp``.

    Other methods copy directories, and files whose names the client cannot pass on.
    """

    computes_digest = True

    def __init__(self, caps: BandwidthCaps | None = None) -> None:
        self._caps = caps or BandwidthCaps()
        self._client = GridFtpClient()
        self._places = asyncio.Semaphore(MAX_CLIENTS)

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        servers = 0
        for end in (source, destination):
            if _server(end) is not None:
                servers += 1
            elif not isinstance(end, LocalEndpoint):
                return False
        if self._caps.between(source, destination):  # The client has no option for a rate.
            return False
        return servers > 0 and await self._client.version() is not None

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        to = destination.endpoint
        stat = await source.endpoint.stat(source.name)
        if stat is None:
            raise absent(source.path)
        if stat.is_directory:
            raise NotCarriedError("copies no directories")
        urls = [_url(source.endpoint, source.path), _url(to, to.part(destination.name, key))]
        check_size(source.path, stat.size_bytes, expected.size_bytes)
        whole = Content(stat.size_bytes, expected.digest, expected.verify)
        ends = source, destination
        copy = partial(self._copy_rest, ends, key, whole, urls, stat.is_executable)
        digest, start = await resuming(to, destination.name, key, stat.size_bytes, copy)
        sent_bytes = stat.size_bytes - start if start else None
        return Receipt(stat.size_bytes, loop.time() - begun_s, digest, sent_bytes=sent_bytes)

    async def _copy_rest(
        self,
        ends: tuple[Location, Location],
        key: str,
        whole: Content,
        urls: list[str],
        is_executable: bool,
        left: int,
    ) -> tuple[str | None, int]:
        """Copy a file of which ``left`` bytes are at the destination already. Returns the file's
        digest, if that is known or computed, and the number of bytes that were not sent."""
        source, destination = ends
        to, start = destination.endpoint, trusted(left)
        assert whole.size_bytes is not None
        argv = [*options(whole, start, is_here=_server(to) is None), *urls]
        async with hold_slots(source.endpoint, to), self._places:
            hashing = asyncio.create_task(with_digest(source, whole))  # beside the copy
            try:
                if left and not start:
                    await to.discard(destination.name, key)
                await to.prepare(destination.name)
                part = to.part(destination.name, key)
                async with following(to.follow, part, followed_bytes(whole, start)) as followed:
                    await self._run(argv, source, destination, key, whole.size_bytes)
                    whole = await hashing
                    await _complete(destination, key, whole, is_executable, followed)
            except BaseException as error:
                if not keeps_part(key, error):
                    await to.discard(destination.name, key)
                raise
            finally:
                await end_tasks([hashing])
        return whole.digest, start

    async def _run(
        self, argv: list[str], source: Location, destination: Location, key: str, size_bytes: int
    ) -> None:
        part = os.path.join(os.path.dirname(destination.name), part_name(key))

        async def arrived() -> int | None:
            with contextlib.suppress(WfrunError):  # the copy itself may go on without the agent
                stat = await destination.endpoint.stat(part)
                return 0 if stat is None else stat.size_bytes
            return None

        # A server must not fill the disk of this machine.
        max_bytes = size_bytes if _server(destination.endpoint) is None else None
        failed = f"{_place(source)} cannot be copied to {_place(destination)}"
        try:
            said = await self._client.run(argv, arrived, max_bytes)
        except TransientError as error:
            error.message = f"{failed}: {error.message}"
            raise
        if said is not None:
            raise explain(f"{failed} by {PROGRAM}", said)

    def close(self) -> None:
        """Nothing to release: a copy ends with its task."""


def _server(endpoint: Endpoint) -> GridFtpServer | None:
    access = None if endpoint.spec is None else endpoint.spec.access
    return None if access is None else access.gridftp


def _url(endpoint: Endpoint, path: str) -> str:
    server = _server(endpoint)
    url = local_url(path) if server is None else server_url(server, path)
    if url is None:
        raise NotCarriedError(f"cannot name {path}: a character of it, or 'root' of its server")
    return url


async def _complete(
    destination: Location, key: str, whole: Content, is_executable: bool, followed: Following
) -> None:
    to, name = destination
    try:
        await to.complete(name, key, whole, is_executable, followed)
    except InfeasibleError as error:
        # What the site itself writes there can be completed: the server has another file system,
        # or writes as another user.
        raise MethodFailedError(error.message, hint=error.hint) from error


def _place(location: Location) -> str:
    """A file, for messages."""
    server = _server(location.endpoint)
    return f"{'' if server is None else server.url}{location.path}"


def options(whole: Content, start: int = 0, *, is_here: bool) -> list[str]:
    """Options of the client that copies the bytes of a file from ``start`` on. ``is_here``: the
    destination is this machine."""
    size_bytes = (whole.size_bytes or 0) - start
    found = ["-vb", "-stall-timeout", "0", *(["-off", str(start)] if start else [])]
    # The sender opens parallel streams. A server that sends to this machine gets through its
    # firewall only where the user says which ports are open.
    if size_bytes >= PARALLEL_BYTES and (not is_here or "GLOBUS_TCP_PORT_RANGE" in os.environ):
        found += ["-p", str(STREAMS)]
    # A restart writes ranges again, which may have been hashed. The next copy goes on instead.
    if size_bytes >= RESTART_BYTES and not (whole.verify or whole.digest is not None):
        found += _RESTART
    return found
