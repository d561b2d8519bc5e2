"""Copies between any two sites, each by the first transfer method that can carry it."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import ANYTHING, Content, Receipt
from wfrun.engine.files.copies import SHARED_BYTES, SMALL_BYTES
from wfrun.engine.model import ORIGIN, LinkSpec
from wfrun.engine.protocols import OnRoute
from wfrun.sites.contained import contained
from wfrun.sites.remote.connection import NoAgentError
from wfrun.sites.stored import matches
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.causes import failure_of
from wfrun.sites.transfers.endpoints.endpoint import (
    Endpoint,
    endpoint_name,
    part_name,
    wrong_checksum,
)
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.image_cache import through_cache
from wfrun.sites.transfers.method import (
    Location,
    MethodFailedError,
    NotCarriedError,
    TransferMethod,
    with_digest,
)
from wfrun.sites.transfers.relay.hashed import HashedStream
from wfrun.sites.transfers.relay.received import receive
from wfrun.sites.transfers.resume import PartClaims

_PART = re.compile(rf"{re.escape(part_name(''))}[\w-]+")
"""Pattern of the name of a part in messages."""
NO_THREAD = "can't start new thread"
"""Message of the RuntimeError that Python raises when the system cannot start a thread."""

MAX_REASON = 300
"""Maximum number of characters of the reason why a method is no longer used."""


class RoutedCopy(msgspec.Struct, frozen=True):
    """One copy on its way through the router."""

    source: Location
    destination: Location
    key: str
    """Part of the name of the temporary file; differs for each copy."""
    expected: Content
    avoid: Sequence[str]
    """Methods to use last."""
    on_route: OnRoute | None
    """Called with the names of the chosen method and of a method that would use another way."""
    size_bytes: int = -1
    """Size of the file; -1: unknown, or a directory."""
    kept: str | None = None
    """Key of a temporary file that all copies of this file share, so that a copy resumes where an
    earlier one ended; None: the copy does not share one."""

    @property
    def pair(self) -> tuple[str, str]:
        """The names of the two sites."""
        return endpoint_name(self.source.endpoint), endpoint_name(self.destination.endpoint)

    @property
    def is_remote(self) -> bool:
        """Whether its source or its destination is on another machine."""
        return any(isinstance(e.endpoint, RemoteEndpoint) for e in (self.source, self.destination))


class TransferRouter:
    """The `Transfer` of a run: chooses a transfer method for each copy.

    ``methods`` are in order of preference. Between any two sites at least one of them must work. If
    ``links`` name methods for a pair of sites, only these methods are used, in their order.

    When a method fails for a pair of sites and a later method succeeds, the failed one is not used
    for the pair again. A failure because a site has no agent now does not count. Methods in
    ``large_only`` carry small files only if a link names them. The methods in ``direct`` use the
    same way, from site to site; those in ``relayed`` go through this machine. If a copy avoids a
    method, the other methods that use its way come right before it, at the end of the order.

    ``endpoints`` are in the order of the sites. On this machine files are written only to the
    folder ``outputs`` and to the stores of local sites.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        methods: Mapping[str, TransferMethod],
        outputs: Path,
        *,
        links: Sequence[LinkSpec] = (),
        large_only: Collection[str] = (),
        direct: Collection[str] = (),
        relayed: Collection[str] = (),
        resuming: Collection[str] = (),
        checksums: bool = False,
        caps: BandwidthCaps | None = None,
    ) -> None:
        """``checksums``: copies are verified by digest, not only by size. Then copies of large
        files by the methods in ``resuming`` resume where an earlier copy ended."""
        self._outputs = outputs
        self._endpoints: dict[int, Endpoint] = {
            ORIGIN: LocalEndpoint(),
            **dict(enumerate(endpoints)),
        }
        self._methods = dict(methods)
        self._large_only = frozenset(large_only)
        self._direct = frozenset(direct)
        self._relayed = frozenset(relayed)
        self._resuming = frozenset(resuming)
        self._claims = PartClaims()
        self._forced = {
            (link.source, link.destination): link.methods for link in links if link.methods
        }
        self._failed: dict[tuple[str, str], set[str]] = {}
        """Methods that are no longer used for a pair of sites."""
        self._agentless: set[tuple[str, str]] = set()
        """Pairs of sites for which the user has got the message that files are copied without an
        agent."""
        self._serial = itertools.count()
        self._checksums = checksums
        self._caps = caps or BandwidthCaps(links)

    async def copy(
        self,
        source: int,
        source_path: str,
        destination: int,
        destination_path: str,
        expected: Content = ANYTHING,
        avoid: Sequence[str] = (),
        on_route: OnRoute | None = None,
    ) -> Receipt:
        """Copy one file or directory; ``TransferMethod.copy`` says what is guaranteed. Raises
        InfeasibleError for a destination at ORIGIN outside of ``outputs``."""
        if destination == ORIGIN:
            destination_path = str(contained(self._outputs, destination_path))
        from_, to = self._endpoints[source], self._endpoints[destination]
        # A killed engine may have left temporary files in the same directory. The process id keeps
        # the names different. Two live engines never share a directory.
        key = f"{os.getpid()}-{next(self._serial)}"
        expected = replace(expected, verify=self._checksums)
        source_file = Location(from_, source_path)
        copy = RoutedCopy(
            source_file, Location(to, destination_path), key, expected, avoid, on_route
        )
        send = partial(self._send, copy)
        try:
            if expected.sha256 is not None and isinstance(to, RemoteEndpoint):
                return await through_cache(to, destination_path, key, expected, send)
            return await send()
        except WfrunError as error:  # Users know the file by its final name alone.
            final = os.path.basename(destination_path)
            error.message = _PART.sub(lambda _: final, error.message)
            await _check_source(source_file, expected, error)
            raise

    async def receive(
        self,
        shown: str,
        data: AsyncIterator[bytes],
        sent: HashedStream,
        destination: int,
        destination_path: str,
    ) -> Receipt:
        """Write a file that a server sends, with the guarantees of ``copy``. ``sent`` has the
        digest of ``data`` when ``data`` has ended. ``shown`` names the file in messages."""
        if destination == ORIGIN:
            destination_path = str(contained(self._outputs, destination_path))
        to = Location(self._endpoints[destination], destination_path)
        key = f"{os.getpid()}-{next(self._serial)}"
        limits = self._caps.between(self._endpoints[ORIGIN], to.endpoint)
        try:
            return await receive(shown, data, sent, to, key, limits, verify=self._checksums)
        except WfrunError as error:
            final = os.path.basename(destination_path)
            error.message = error.message.replace(part_name(key), final)
            raise

    async def _send(self, copy: RoutedCopy) -> Receipt:
        """Find the size of the file and, for a large file, the shared temporary file; then copy."""
        expected = copy.expected
        size_bytes = -1 if expected.size_bytes is None else expected.size_bytes
        if size_bytes < 0 and copy.is_remote:
            size_bytes = await _size_of(copy.source)
        on_route = copy.on_route if size_bytes > SHARED_BYTES else None
        # An image may be in the cache of a site, which several runs write to.
        is_shared = expected.verify and expected.sha256 is None
        async with self._claims.claim(copy.destination, size_bytes if is_shared else 0) as kept:
            return await self._try(
                replace(copy, on_route=on_route, size_bytes=size_bytes, kept=kept)
            )

    async def _try(self, copy: RoutedCopy) -> Receipt:
        """Copy by the first method that can carry the file and does not fail."""
        source, destination = copy.source.endpoint, copy.destination.endpoint
        failures: dict[str, MethodFailedError] = {}
        reasons: list[str] = []
        agentless: NoAgentError | None = None
        names = self._without(copy.avoid, self._names(copy))
        for name in names:
            method = self._methods[name]
            try:
                if not await method.can_carry(source, destination):
                    continue
                await self._tell_route(copy, name, names)
                if not method.computes_digest:
                    copy = replace(copy, expected=await with_digest(copy.source, copy.expected))
                resumed = copy.kept if name in self._resuming else None
                receipt = await _copy_by(method, copy, resumed or copy.key)
            except NotCarriedError as error:
                reasons.append(f"{name} {error.message}")
            except MethodFailedError as error:
                failures[name] = error
            except NoAgentError as error:  # The method is not given up: the agent comes back.
                agentless = error
            else:
                if copy.kept is not None and resumed is None:
                    # A copy by another method may have left the shared temporary file.
                    await destination.discard(copy.destination.name, copy.kept)
                fallback = self._give_up(copy.pair, failures, name)
                if agentless is not None:
                    fallback = fallback or self._note(copy.pair, agentless, name)
                return replace(receipt, method=name, fallback=fallback)
        if agentless is not None:
            raise agentless
        if failures:
            raise list(failures.values())[-1]
        raise self._uncarried(copy.pair, reasons)

    def _names(self, copy: RoutedCopy) -> list[str]:
        """The methods to try, in order."""
        failed = self._failed.get(copy.pair, ())
        names = self._forced.get(copy.pair)
        if names is None:
            is_small = copy.is_remote and 0 <= copy.size_bytes <= SMALL_BYTES
            names = tuple(n for n in self._methods if not (is_small and n in self._large_only))
        return [name for name in names if name not in failed]

    def _without(self, avoid: Sequence[str], names: Sequence[str]) -> list[str]:
        """``names`` in order, but the methods in ``avoid`` last, and right before them the other
        methods that use the same way."""
        if not avoid:
            return list(names)
        way = self._way(avoid)
        return sorted(names, key=lambda name: (name in avoid, name in way))

    def _way(self, names: Sequence[str]) -> frozenset[str]:
        """These methods, and all methods that use the same way as one of them."""
        ways = (self._direct, self._relayed)
        return frozenset(names).union(*(way for way in ways if way.intersection(names)))

    async def _tell_route(self, copy: RoutedCopy, name: str, names: Sequence[str]) -> None:
        """Call ``on_route`` with ``name`` and a method that uses another way, if such a method
        could carry the file. ``on_route`` is not called for a copy that avoids methods, or within
        this machine, where all methods use the same disks."""
        if copy.on_route is None or copy.avoid or not copy.is_remote:
            return
        way = self._way([name])
        for other in (other for other in names if other not in way):
            with contextlib.suppress(WfrunError):  # the site may be asked later
                ends = copy.source.endpoint, copy.destination.endpoint
                if await self._methods[other].can_carry(*ends):
                    copy.on_route(name, other)
                    return

    def _give_up(
        self, pair: tuple[str, str], failures: Mapping[str, MethodFailedError], other: str
    ) -> str:
        """Exclude the transfer methods in ``failures`` for a pair of sites, since the method
        ``other`` has copied the file. Returns a message for the user with the reasons; empty if a
        concurrent copy has excluded all of them already."""
        failed = self._failed.setdefault(pair, set())
        new = {name: error for name, error in failures.items() if name not in failed}
        failed.update(new)
        return "; ".join(
            f"{pair[0]} to {pair[1]}: files go by {other}, because {name} failed: "
            f"{' '.join(error.message.split())[:MAX_REASON]}"
            for name, error in new.items()
        )

    def _note(self, pair: tuple[str, str], error: NoAgentError, other: str) -> str:
        """The message that files between a pair of sites are copied without an agent; empty after
        the first call for the pair."""
        if pair in self._agentless:
            return ""
        self._agentless.add(pair)
        reason = " ".join(error.message.split())[:MAX_REASON]
        return f"{pair[0]} to {pair[1]}: files go by {other} meanwhile, because {reason}"

    def _uncarried(self, pair: tuple[str, str], reasons: Sequence[str]) -> InfeasibleError:
        forced = ", ".join(self._forced.get(pair, ()))
        return InfeasibleError(
            "; ".join(
                [f"none of the methods that the catalog names copies it ({forced})", *reasons]
            ),
            hint="Add 'stream', which copies everything between any two sites, to 'transfer' in "
            f"the catalog, or what these methods need from {pair[0]} to {pair[1]}: "
            "docs/files.md.",
        )

    def close(self) -> None:
        """Abort the running copies."""
        for method in self._methods.values():
            method.close()


async def _size_of(source: Location) -> int:
    """Size of a file in bytes; -1: unknown, or a directory."""
    try:
        stat = await source.endpoint.stat(source.name)
    except NoAgentError:
        return -1
    return -1 if stat is None or stat.is_directory else stat.size_bytes


async def _copy_by(method: TransferMethod, copy: RoutedCopy, key: str) -> Receipt:
    try:
        return await method.copy(copy.source, copy.destination, key, copy.expected)
    except RuntimeError as error:
        if NO_THREAD not in str(error):
            raise
        raise TransientError(f"this machine has no room for a thread: {error}") from error


async def _check_source(source: Location, expected: Content, error: WfrunError) -> None:
    """Raise InfeasibleError if a copy failed with ``error`` because its source does not have the
    expected content."""
    is_known = expected.size_bytes is not None or expected.digest is not None
    if not is_known or failure_of(error).cause != "checksum":
        return
    found = await source.endpoint.measure(source.path, expected.size_bytes)
    if found is not None and not matches(expected, found):
        raise _changed(source.path, expected, found) from error


def _changed(path: str, expected: Content, found: Content) -> InfeasibleError:
    if expected.is_stated and found.digest != expected.digest:
        return wrong_checksum(path, found.digest, expected.digest)
    return InfeasibleError(
        f"{path} has changed since it was written: its size or checksum is another"
    )
