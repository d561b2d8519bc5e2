"""Files of a host without an agent, by SFTP."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager

import asyncssh

from wfrun.engine.errors import InfeasibleError
from wfrun.sites.remote.host import Stat

_ABSENT = (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)
_PRIVATE = asyncssh.SFTPAttrs(permissions=0o700)


class SftpFiles:
    """Implements ``PlainFiles`` by an SFTP session. ``explained`` takes a path and a participle
    such as ``read``, and returns a context that turns SFTP errors into those of ``Transport``."""

    def __init__(
        self,
        sftp: asyncssh.SFTPClient,
        explained: Callable[[str, str], AbstractContextManager[None]],
    ) -> None:
        self._sftp = sftp
        self._explained = explained

    async def stat(self, path: str) -> Stat | None:
        with self._explained(path, "read"):
            try:
                found = await self._sftp.stat(encode(path))
            except _ABSENT:
                return None
        mode = found.permissions
        # Servers may leave out what version 3 of the protocol does not require.
        if mode is not None and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise InfeasibleError(f"{path} cannot be read: it is neither a file nor a directory")
        is_directory = mode is not None and stat.S_ISDIR(mode)
        is_executable = bool((mode or 0) & stat.S_IXUSR) and not is_directory
        return Stat(0 if is_directory else found.size or 0, is_executable, is_directory)

    async def make_directory(self, path: str) -> None:
        with self._explained(path, "written"):
            if not await self._sftp.isdir(encode(path)):
                await self._sftp.makedirs(encode(path), _PRIVATE, exist_ok=True)

    async def rename(self, path: str, final: str, mode: int) -> None:
        old = encode(f"{path}-old")
        with self._explained(final, "written"):
            await self._sftp.chmod(encode(path), mode)
            try:
                await self._sftp.posix_rename(encode(path), encode(final))
                return
            except (asyncssh.SFTPFailure, asyncssh.SFTPOpUnsupported) as error:
                # A directory is in the way, or the server only has the rename of version 3, which
                # replaces nothing.
                try:
                    await self._sftp.rename(encode(final), old)
                except _ABSENT:
                    if isinstance(error, asyncssh.SFTPFailure):
                        raise error from None
            await self._sftp.rename(encode(path), encode(final))
        await self._remove(old)

    async def remove(self, path: str) -> None:
        with self._explained(path, "removed"):
            await self._remove(encode(path))

    async def _remove(self, name: bytes) -> None:
        with contextlib.suppress(*_ABSENT):
            try:
                await self._sftp.remove(name)
            except (asyncssh.SFTPFailure, asyncssh.SFTPPermissionDenied):
                if not await self._sftp.isdir(name):
                    raise
                await self._sftp.rmtree(name)


def encode(path: str) -> bytes:
    """Encode a path for SFTP."""
    return path.encode("utf-8", "surrogateescape")


async def open_to_write(
    sftp: asyncssh.SFTPClient, name: bytes, start: int
) -> asyncssh.SFTPClientFile:
    """Create a file for writing or, with a ``start`` in bytes other than 0, open the existing
    file."""
    if start:
        return await sftp.open(name, "r+b", encoding=None, block_size=0)
    return await _create(sftp, name)


async def _create(sftp: asyncssh.SFTPClient, name: bytes) -> asyncssh.SFTPClientFile:
    """Create a file. An existing file is replaced; a symbolic link is not followed."""
    try:
        return await _open_new(sftp, name)
    except asyncssh.SFTPFailure:
        with contextlib.suppress(asyncssh.SFTPNoSuchFile):
            await sftp.unlink(name)
        return await _open_new(sftp, name)


async def _open_new(sftp: asyncssh.SFTPClient, name: bytes) -> asyncssh.SFTPClientFile:
    private = asyncssh.SFTPAttrs(permissions=0o600)
    return await sftp.open(name, "xb", private, encoding=None, block_size=0)
