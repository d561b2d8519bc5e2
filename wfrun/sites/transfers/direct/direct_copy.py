"""The common part of the transfer methods by which a site itself sends files to another site."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from wfrun.engine.errors import InfeasibleError, NoSpaceError, TransientError, WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.model import Access
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.transports.transport import Address, Process
from wfrun.sites.tasks import end_tasks
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps, reserved
from wfrun.sites.transfers.direct.direct_clients import Clients, Program
from wfrun.sites.transfers.direct.direct_script import (
    NOT_PREPARED,
    is_plain,
    seen_by_others,
    sending_script,
)
from wfrun.sites.transfers.endpoints.endpoint import (
    Endpoint,
    check_size,
    endpoint_name,
    hold_slots,
)
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.disk import absent
from wfrun.sites.transfers.method import (
    Location,
    MethodFailedError,
    NotCarriedError,
    with_digest,
)
from wfrun.sites.transfers.relay.following import followed_bytes, following
from wfrun.sites.transfers.relay.stall import STALL_S
from wfrun.sites.transfers.resume import keeps_part, resuming, trusted

_LOOKS = 10
"""Number of checks of the size of a part within STALL_S."""
GRACE_S = 10.0
"""Maximum wait for the end of a client that is stopped."""
CLOSED = re.compile(r"(scp: )?Connection closed", re.IGNORECASE)
"""What clients of OpenSSH print when ssh has ended."""
_FULL = re.compile(r"no space left|quota", re.IGNORECASE)


class Sending(NamedTuple):
    """Parameters of the client for one copy."""

    clients: Clients
    """Programs for copies at the source."""
    to: Address
    path: str
    """Path of the part at the destination."""
    left: int = 0
    """Size of the part that an earlier copy has left; the client continues after it."""
    bytes_per_s: float | None = None
    """Maximum rate; None: no limit."""

    @property
    def kibit_per_s(self) -> list[str]:
        """The option of scp and sftp for the maximum rate."""
        if self.bytes_per_s is None:
            return []
        return ["-l", str(max(1, int(self.bytes_per_s * 8 / 1024)))]


class DirectMethod:
    """A transfer method whose client runs at the source and writes the part at the destination.

    The method carries files between two sites behind connections if the catalog has ``direct`` for
    the source. This machine checks the size and the digest of the part, and renames it.
    """

    name: str
    programs: tuple[Program, ...]
    """The programs that the method runs at the two sites. Each site is asked whether it has
    them."""
    after_ssh: re.Pattern[str] = CLOSED
    """Matches the beginning of lines that the client prints because ssh has ended. These lines do
    not tell why ssh ended."""
    computes_digest = True

    def __init__(self, caps: BandwidthCaps | None = None) -> None:
        """``caps`` has the maximum bandwidths of the catalog, which copies obey."""
        self._caps = caps or BandwidthCaps()

    def works_between(self, source: Clients, destination: Clients) -> bool:
        """Whether both sites have the programs that the method needs there."""
        raise NotImplementedError

    def resumes(self, source: Clients) -> bool:
        """Whether the client at the source can go on from the part that an earlier copy has
        left."""
        return False

    def client(self, sending: Sending) -> Sequence[str]:
        """Return the command, which runs at the source in the directory of the script. Raises
        NotCarriedError if the client cannot copy the file."""
        raise NotImplementedError

    def files(self, sending: Sending) -> Mapping[str, str]:
        """Return the contents of further files that the command reads, by name. Raises
        NotCarriedError if the client cannot copy the file."""
        return {}

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        if not isinstance(source, RemoteEndpoint) or not isinstance(destination, RemoteEndpoint):
            return False
        if source.index == destination.index or _access(source).direct is None:
            return False
        return self.works_between(
            await source.clients(self.programs), await destination.clients(self.programs)
        )

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        async with reserved(self._caps.between(source.endpoint, destination.endpoint)) as rate:
            return await self._copy(source, destination, key, expected, rate)

    async def _copy(
        self,
        source: Location,
        destination: Location,
        key: str,
        expected: Content,
        bytes_per_s: float | None,
    ) -> Receipt:
        begun_s = asyncio.get_running_loop().time()
        from_, to = source.endpoint, destination.endpoint
        assert isinstance(from_, RemoteEndpoint)
        assert isinstance(to, RemoteEndpoint)
        stat = await from_.stat(source.name)
        if stat is None:
            raise absent(source.path)
        if stat.is_directory:
            raise NotCarriedError("copies no directories")
        check_size(source.path, stat.size_bytes, expected.size_bytes)
        whole = Content(stat.size_bytes, expected.digest, expected.verify)
        ends = source, destination
        copy = partial(self._copy_rest, ends, key, whole, stat.is_executable, bytes_per_s)
        digest, left = await resuming(to, destination.name, key, stat.size_bytes, copy)
        elapsed_s = asyncio.get_running_loop().time() - begun_s
        sent_bytes = stat.size_bytes - left if left else None
        return Receipt(stat.size_bytes, elapsed_s, digest, sent_bytes=sent_bytes)

    async def _copy_rest(
        self,
        ends: tuple[Location, Location],
        key: str,
        whole: Content,
        is_executable: bool,
        bytes_per_s: float | None,
        left: int,
    ) -> tuple[str | None, int]:
        """Copy a file of which ``left`` bytes are at the destination already. Returns the file's
        digest, or None if it is neither known nor computed, and the position in bytes at which the
        client began."""
        source, destination = ends
        from_, to = source.endpoint, destination.endpoint
        assert isinstance(from_, RemoteEndpoint)
        assert isinstance(to, RemoteEndpoint)
        if not self.resumes(await from_.clients(self.programs)):
            left = 0
        if left and left != whole.size_bytes:
            left = await _cut(to, to.part(destination.name, key), trusted(left))
        async with hold_slots(from_, to):
            # The source is read for its digest while the client reads it, too.
            reading = asyncio.ensure_future(with_digest(source, whole))
            part = to.part(destination.name, key)
            try:
                async with following(to.follow, part, followed_bytes(whole, left)) as followed:
                    if left != whole.size_bytes or not left:
                        await self._send(source, destination, key, whole, left, bytes_per_s)
                    whole = await reading
                    await to.complete(destination.name, key, whole, is_executable, followed)
            except BaseException as error:
                if not keeps_part(key, error):
                    await to.discard(destination.name, key)
                raise
            finally:
                await end_tasks([reading])
        return whole.digest, left

    async def _send(
        self,
        source: Location,
        destination: Location,
        key: str,
        whole: Content,
        left: int,
        bytes_per_s: float | None,
    ) -> None:
        """Let the client write the part, or the rest of it after ``left`` bytes."""
        from_, to = source.endpoint, destination.endpoint
        assert isinstance(from_, RemoteEndpoint)
        assert isinstance(to, RemoteEndpoint)
        part = to.part(destination.name, key)
        clients = await from_.clients(self.programs)
        sending = Sending(clients, await _address(to), part, left, bytes_per_s)
        script = sending_script(
            self.client(sending),
            source.path,
            sending.to,
            _access(from_),
            self.files(sending),
        )
        process = await self._start(from_, script)
        try:
            code = await wait_growing(process, to, part)
            if code == 0:
                return
            said = process.errors()
        finally:
            await process.close()
        name = endpoint_name(from_)
        if code is None:
            raise TransientError(f"the connection to {name} was lost during a copy")
        if code == NOT_PREPARED:  # A full disk is not that of the destination.
            reason = f"it cannot use /tmp there: {end_of(said, code)}"
            raise MethodFailedError(
                f"{self.name} at {name}: {reason}", hint=f"Make room at {name}."
            )
        found = await from_.stat(source.name)
        if found is None:
            raise absent(source.path)
        check_size(source.path, found.size_bytes, whole.size_bytes)
        if is_full_message(said) or await is_full(to, part, whole):
            raise NoSpaceError(f"{destination.path} cannot be written: the disk is full")
        raise MethodFailedError(f"{self.name} at {name}: {end_of(said, code, self.after_ssh)}")

    async def _start(self, from_: RemoteEndpoint, script: str) -> Process:
        transport = await from_.connection.transport()
        if _access(from_).direct == "key":
            return await transport.start(script)
        try:
            return await transport.start_with_agent(script)
        except WfrunError as error:
            raise MethodFailedError(error.message, hint=error.hint) from error

    def close(self) -> None:
        """Nothing to release: a copy ends with its task."""


def _access(endpoint: RemoteEndpoint) -> Access:
    assert endpoint.spec is not None
    return endpoint.spec.access or Access()


async def _address(to: RemoteEndpoint) -> Address:
    transport = await to.connection.transport()
    address = seen_by_others(await transport.address(), _access(to))
    if address is None:
        raise NotCarriedError(
            f"needs the address of {endpoint_name(to)}: 'direct_host' and 'user' in the catalog"
        )
    if not is_plain(address):
        raise NotCarriedError(f"does not log in as {address.user!r} at {address.host!r}")
    return address


async def _cut(to: RemoteEndpoint, part: str, size_bytes: int) -> int:
    """Cut a part to ``size_bytes``, because its end may have gaps, which sftp would leave. Returns
    the size from which the copy goes on: ``size_bytes``, or 0 if the part has to be written anew.
    """
    if size_bytes:
        with contextlib.suppress(InfeasibleError):  # The site has no such program.
            host = await to.connection.host()
            done = await host.run(["truncate", "-s", str(size_bytes), "--", part])
            return size_bytes if done.exit_code == 0 else 0
    return 0


async def wait_growing(process: Process, to: RemoteEndpoint, part: str | None) -> int | None:
    """Wait for the end of the client. Returns its exit code; None if the connection was lost.
    Raises TransientError if the file ``part`` does not grow for STALL_S (None: no such check). If
    the copy is cancelled, the client is stopped."""
    waiting = asyncio.ensure_future(process.wait())
    size_bytes, idle = -1, 0
    try:
        while True:
            await asyncio.wait([waiting], timeout=STALL_S / _LOOKS)
            if waiting.done():
                return waiting.result()
            if part is None:
                continue
            (found,) = await (await to.connection.host()).stat([part])
            grown = -1 if found is None else found.size_bytes
            idle = 0 if grown > size_bytes else idle + 1
            if idle >= _LOOKS:
                raise TransientError(f"{part}: nothing came for {STALL_S:g} s")
            size_bytes = max(size_bytes, grown)
    finally:
        if not waiting.done():
            process.end_input()
            await asyncio.wait([waiting], timeout=GRACE_S)
            waiting.cancel()


def is_full_message(said: str) -> bool:
    """Whether a client says that the disk is full."""
    return _FULL.search(said) is not None


async def is_full(to: RemoteEndpoint, part: str, whole: Content) -> bool:
    """Whether the destination has no room for the rest of the file. It is asked because SFTP has no
    error code for a full disk."""
    host = await to.connection.host()
    (found,) = await host.stat([part])
    result = await host.run(["df", "-Pk", "--", os.path.dirname(part)])
    fields = result.output.decode(errors="replace").split("\n")[1:2]
    words = fields[0].split() if fields else []
    if result.exit_code != 0 or len(words) < 4:
        return False
    written = 0 if found is None else found.size_bytes
    free_kb = number_of(words[3])
    return free_kb is not None and free_kb * 1024 < (whole.size_bytes or 0) - written


def end_of(said: str, code: int, after_ssh: re.Pattern[str] | None = None) -> str:
    """The last two lines that a client printed, or the exit code if it printed nothing. Lines that
    match ``after_ssh`` are left out, unless all do."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    by_ssh = [line for line in lines if after_ssh is None or not after_ssh.match(line)]
    return "; ".join((by_ssh or lines)[-2:]) or f"exit code {code}"
