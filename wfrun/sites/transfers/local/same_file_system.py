"""The transfer method between sites that share a file system, such as two queues of one cluster."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import NamedTuple

import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.files.copies import SMALL_BYTES
from wfrun.sites.remote.host import Host, NewFile
from wfrun.sites.stored import MIN_READ_S, SLOW_BYTES_PER_S, command_of
from wfrun.sites.transfers.endpoints.endpoint import Endpoint, check_size, file_mode, hold_slots
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint, in_batches
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.endpoints.request_batcher import RequestBatcher
from wfrun.sites.transfers.local.disk import absent, remove
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.local.local_small import lstat_all
from wfrun.sites.transfers.method import Location, NotCarriedError

_WITNESS = ".wfrun-witness-"
_UNSEEN = "does not see the file at the destination, where its name may be cached"
_Answer = tuple[int | None, tuple[str, str] | None]
_ANSWERS = msgspec.json.Decoder(list[_Answer])


class _Clone(NamedTuple):
    """A file that a head node copies."""

    source: str
    temporary: str
    final: str
    mode: int
    expected: Content


class SameFileSystem:
    """Implements ``TransferMethod`` where the destination sees the source's files under the same
    paths: the destination copies, and nothing passes through this machine.

    A witness file shows whether the destination sees them. The file has a random name and content.
    It is written at the source, read at the destination, and removed, once for each pair of sites.
    Other methods copy input files of this machine: these may be on any file system, and a witness
    shows only one.

    A copy shares the blocks of its source where the file system can. It is never a hard link: the
    tasks of both sites run as the same user, who can make a read-only file writable, and a task
    that writes to its input would change the other site's file, too.
    """

    computes_digest = False

    def __init__(self) -> None:
        self._is_shared: dict[tuple[int, int], asyncio.Task[bool | None]] = {}
        """Whether files are shared, by source and destination; None: one of them could not be
        asked."""
        self._local = LocalCopy()
        self._looks: dict[int, RequestBatcher[str, os.stat_result | None]] = {}
        """Batchers of status requests, by source."""
        self._small: dict[int, RequestBatcher[_Clone, int | WfrunError]] = {}
        """Batchers of copies, by destination."""

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        is_local = isinstance(source, LocalEndpoint), isinstance(destination, LocalEndpoint)
        if all(is_local) or source.spec is None:
            return False
        pair = (source.index, destination.index)
        question = self._is_shared.get(pair)
        if question is None:
            question = self._is_shared[pair] = asyncio.create_task(_look(source, destination))
        found = await asyncio.shield(question)
        if found is None:  # asked again before the next copy
            self._is_shared.pop(pair, None)
        return bool(found)

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        to = destination.endpoint
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        if not isinstance(to, RemoteEndpoint):
            return await self._copy_here(source, destination, key, expected)
        stat = await source.endpoint.stat(source.name)
        if stat is None:
            raise absent(source.path)
        if stat.is_directory:
            raise NotCarriedError("copies no directories to a cluster")
        check_size(source.path, stat.size_bytes, expected.size_bytes)
        whole = Content(stat.size_bytes, expected.digest)
        temporary = to.part(destination.name, key)
        mode = file_mode(stat.is_executable)
        clone = _Clone(source.path, temporary, destination.path, mode, whole)
        if stat.size_bytes <= SMALL_BYTES:
            small = self._small.setdefault(to.index, RequestBatcher(partial(_clone_all, to)))
            answer = await small(clone)
        else:
            async with hold_slots(source.endpoint, to):
                try:
                    (answer,) = await _clone_all(to, [clone])
                except BaseException:
                    # A program that still runs finds no part then, and renames nothing.
                    await to.discard(destination.name, key)
                    raise
        if isinstance(answer, WfrunError):
            raise answer
        return Receipt(answer, loop.time() - begun_s, expected.digest)

    async def _copy_here(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        """Copy to a directory of this machine. This machine sees the file itself, so the site is
        asked only if the file is not visible here."""
        index = source.endpoint.index
        seen = await self._looks.setdefault(index, in_batches(lstat_all))(source.path)
        if seen is None:
            if await source.endpoint.stat(source.name) is None:
                raise absent(source.path)
            raise NotCarriedError(_UNSEEN)
        if S_ISLNK(seen.st_mode):
            # Its target may be a file of this machine that the source cannot read.
            raise NotCarriedError("copies no links")
        if S_ISREG(seen.st_mode) and seen.st_size <= SMALL_BYTES:
            return await self._local.copy(source, destination, key, expected)
        async with hold_slots(source.endpoint, destination.endpoint):
            return await self._local.copy(source, destination, key, expected)

    def close(self) -> None:
        for question in self._is_shared.values():
            question.cancel()
        self._local.close()


async def _clone_all(to: RemoteEndpoint, clones: Sequence[_Clone]) -> list[int | WfrunError]:
    """Let the head node copy files. Returns for each file its size in bytes, or why it was not
    copied."""
    files = [(*clone[:-1], clone.expected.digest) for clone in clones]
    size_bytes = sum(clone.expected.size_bytes or 0 for clone in clones)
    host: Host = await to.connection.host()
    result = await host.run(
        command_of("alone/clone.py"),
        stdin=json.dumps({"files": files}).encode(),
        timeout_s=MIN_READ_S + size_bytes / SLOW_BYTES_PER_S,
    )
    try:
        answers = _ANSWERS.decode(result.output)
        if len(answers) != len(clones):
            raise ValueError("it does not answer for each file")
    except (msgspec.MsgspecError, ValueError) as error:
        said = result.errors[-500:].decode("utf-8", "replace").strip()
        raise TransientError(
            f"{clones[0].final} and others were not copied: {said or error}"
        ) from error
    return [_checked(*pair) for pair in zip(clones, answers, strict=True)]


def _checked(clone: _Clone, answer: _Answer) -> int | WfrunError:
    size_bytes, reason = answer
    if size_bytes is not None:
        try:
            check_size(clone.final, size_bytes, clone.expected.size_bytes)
        except WfrunError as error:
            return error
        return size_bytes
    kind, message = reason or ("transient", f"{clone.final} was not copied")
    if kind == "absent":
        return NotCarriedError(_UNSEEN)
    if kind == "uncarried":
        return NotCarriedError(message)
    if kind == "transient":
        return TransientError(message)
    return InfeasibleError(message, hint="Make room at the destination, or check permissions.")


async def _look(source: Endpoint, destination: Endpoint) -> bool | None:
    """Whether the destination sees the source's files; None if one of them cannot be asked."""
    name, content = f"{_WITNESS}{secrets.token_hex(16)}", secrets.token_bytes(16)
    try:
        path = source.path(name)
        try:
            await _write(source, name, content)
            return await _read(destination, path) == content
        finally:
            await _remove(source, path)
    except InfeasibleError:
        return False
    except WfrunError:
        return None


async def _write(endpoint: Endpoint, name: str, content: bytes) -> None:
    if isinstance(endpoint, RemoteEndpoint):
        await (await endpoint.connection.host()).write([NewFile(endpoint.path(name), content)])
    else:
        await endpoint.write_small(name, content, Content(len(content)), False, name)


async def _read(endpoint: Endpoint, path: str) -> bytes | None:
    if isinstance(endpoint, RemoteEndpoint):
        (found,) = await (await endpoint.connection.host()).read([path])
        return found
    return await LocalEndpoint().read_small(path, 0)


async def _remove(endpoint: Endpoint, path: str) -> None:
    if isinstance(endpoint, RemoteEndpoint):
        await (await endpoint.connection.host()).remove([path])
    else:
        await asyncio.to_thread(remove, Path(path))
