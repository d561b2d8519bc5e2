"""The transfer method through storage that both sites reach with rclone, such as an object store.

The source writes an object with a random name there. The destination reads the object, which is
then removed. The sites log in nowhere and accept no connection. Rclone's configuration at each site
has the credentials for the storage; this machine knows only the name of the remote.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import uuid
from collections.abc import Sequence

from wfrun.engine.errors import NoSpaceError, TransientError, WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.sites.tasks import end_tasks
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps, reserved
from wfrun.sites.transfers.direct.direct_clients import Program
from wfrun.sites.transfers.direct.direct_copy import (
    end_of,
    is_full,
    is_full_message,
    wait_growing,
)
from wfrun.sites.transfers.direct.direct_script import UNDER_INPUT
from wfrun.sites.transfers.endpoints.endpoint import (
    Endpoint,
    check_size,
    endpoint_name,
    hold_slots,
    longer,
)
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.disk import absent
from wfrun.sites.transfers.method import (
    Location,
    MethodFailedError,
    NotCarriedError,
    with_digest,
)
from wfrun.sites.transfers.relay import stall
from wfrun.sites.transfers.relay.following import followed_bytes, following

WITH_SIZE = (1, 57)
"""The first version of rclone whose ``rcat`` takes the size of the file. With the size rclone
buffers the file neither in memory nor on disk, and fails if the file is longer or shorter."""
REMOVAL_S = 60.0
"""Maximum wait for the removal of an object, in seconds, at each site."""
_CONNECT_S = 20
"""Timeout of a connection to the storage."""


class Rclone:
    """Implements ``TransferMethod`` for sites whose catalog entry has ``rclone``."""

    programs = (Program("rclone", "rclone version 2> /dev/null", r"rclone v(\d+)\.(\d+)"),)
    computes_digest = True

    def __init__(self, caps: BandwidthCaps | None = None) -> None:
        """``caps`` has the maximum bandwidths of the catalog, which copies obey."""
        self._caps = caps or BandwidthCaps()

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        if source.index == destination.index:
            return False
        for end in (source, destination):
            if not isinstance(end, RemoteEndpoint) or _remote(end) is None:
                return False
            if (await end.clients(self.programs)).get("rclone", (0, 0)) < WITH_SIZE:
                return False
        return True

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        from_, to = source.endpoint, destination.endpoint
        stat = await from_.stat(source.name)
        if stat is None:
            raise absent(source.path)
        if stat.is_directory:
            raise NotCarriedError("copies no directories")
        check_size(source.path, stat.size_bytes, expected.size_bytes)
        whole = Content(stat.size_bytes, expected.digest, expected.verify)
        async with (
            reserved(self._caps.between(from_, to)) as rate,
            hold_slots(from_, to),
        ):
            name = f"wfrun-{uuid.uuid4().hex}"
            # The source is read for its digest while rclone reads it, too.
            reading = asyncio.ensure_future(with_digest(source, whole))
            try:
                await to.prepare(destination.name)
                await self._put(source, name, stat.size_bytes, rate)
                part = to.part(destination.name, key)
                async with following(to.follow, part, followed_bytes(whole, 0)) as followed:
                    await self._get(destination, name, part, stat.size_bytes, rate)
                    whole = await reading
                    await to.complete(destination.name, key, whole, stat.is_executable, followed)
            except BaseException:
                await to.discard(destination.name, key)
                raise
            finally:
                await end_tasks([reading])
                await _remove(name, from_, to)
        return Receipt(stat.size_bytes, loop.time() - begun_s, whole.digest)

    async def _put(
        self, source: Location, name: str, size_bytes: int, bytes_per_s: float | None
    ) -> None:
        """Write the object ``name`` from the source."""
        from_ = source.endpoint
        client = _client("rcat", from_, name, ["--size", str(size_bytes)], bytes_per_s)
        said = await _run(from_, f"{client} < {shlex.quote(source.path)} > /dev/null")
        if said is None:
            return
        found = await from_.stat(source.name)
        if found is None:
            raise absent(source.path)
        check_size(source.path, found.size_bytes, size_bytes)
        raise MethodFailedError(f"rclone at {endpoint_name(from_)}: {said}")

    async def _get(
        self,
        destination: Location,
        name: str,
        part: str,
        size_bytes: int,
        bytes_per_s: float | None,
    ) -> None:
        """Write the part from the object. One byte more than the expected size is requested, which
        shows whether the storage sends more than the source has written."""
        to = destination.endpoint
        client = _client("cat", to, name, ["--count", str(size_bytes + 1)], bytes_per_s)
        said = await _run(to, f"{client} < /dev/null > {shlex.quote(part)}", part)
        if said is None:
            (found,) = await (await _end(to).connection.host()).stat([part])
            if found is not None and found.size_bytes > size_bytes:
                raise longer(destination.path)
            return
        if is_full_message(said) or await is_full(_end(to), part, Content(size_bytes)):
            raise NoSpaceError(f"{destination.path} cannot be written: the disk is full")
        raise MethodFailedError(f"rclone at {endpoint_name(to)}: {said}")

    def close(self) -> None:
        """Nothing to release: a copy ends with its task."""


def _end(endpoint: Endpoint) -> RemoteEndpoint:
    assert isinstance(endpoint, RemoteEndpoint)
    return endpoint


def _remote(endpoint: Endpoint) -> str | None:
    """The rclone remote of a site, already checked by the catalog reader; None: it has none."""
    access = None if endpoint.spec is None else endpoint.spec.access
    return None if access is None else access.rclone


def _client(
    command: str,
    endpoint: Endpoint,
    name: str,
    options: Sequence[str] = (),
    bytes_per_s: float | None = None,
) -> str:
    """The shell command that calls rclone for the object ``name``."""
    remote = _remote(endpoint)
    assert remote is not None
    rate = [] if bytes_per_s is None else ["--bwlimit", f"{max(1, round(bytes_per_s))}B"]
    # The password of a configuration cannot be asked for: the input is the file.
    return shlex.join(
        [
            *("rclone", command, "--ask-password=false", "--log-level", "ERROR", "--stats", "0"),
            *("--contimeout", f"{_CONNECT_S}s", "--timeout", f"{stall.STALL_S:g}s"),
            *("--retries", "1", *rate, *options, "--"),
            f"{remote}{'' if remote.endswith((':', '/')) else '/'}{name}",
        ]
    )


async def _run(endpoint: Endpoint, client: str, part: str | None = None) -> str | None:
    """Run rclone at a site. Returns None after success, else the end of its stderr. Raises
    TransientError if the ``part``, if given, does not grow for STALL_S, or if the connection is
    lost. Rclone itself gives up an upload without progress."""
    end = _end(endpoint)
    transport = await end.connection.transport()
    script = "\n".join(
        [
            "LC_ALL=C; export LC_ALL; umask 077",
            """trap 'kill "$p"; exit 129' HUP INT TERM""",
            UNDER_INPUT.format(client=client),
        ]
    )
    process = await transport.start(script)
    try:
        code = await wait_growing(process, end, part)
        said = process.errors()
    finally:
        await process.close()
    if code is None:
        name = endpoint_name(endpoint)
        raise TransientError(f"the connection to {name} was lost during a copy")
    return end_of(said, code) if code else None


async def _remove(name: str, *ends: Endpoint) -> None:
    """Remove the object, by the first site that can. Failures are ignored: the object may not
    exist."""
    for end in ends:
        with contextlib.suppress(WfrunError, asyncio.TimeoutError):
            client = f"{_client('deletefile', end, name)} < /dev/null > /dev/null"
            if await asyncio.wait_for(_run(end, client), REMOVAL_S) is None:
                return
