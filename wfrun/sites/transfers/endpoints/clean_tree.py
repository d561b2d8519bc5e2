"""A directory that a site sends as a tar archive, checked and written anew on its way.

The site may send anything, and programs that read tar interpret odd archives differently. So only a
new archive is passed on, written by this module from the entries that it understands. Source:
POSIX.1-2017, XCU pax, "ustar Interchange Format"; GNU tar 1.34 manual, "Extensions to the Archive
Format".
"""

from __future__ import annotations

import asyncio
import math
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.parsers.foreign import number_of

_BLOCK = tarfile.BLOCKSIZE
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_LONG = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE)
_MAX_EXTENSION_BYTES = 1 << 20
"""Maximum size of a long name or of a header with further attributes."""
_MAX_NAME_BYTES = 4096
_MAX_PART_BYTES = 255
"""Maximum lengths of a path and of each of its parts, as in Linux."""
_MAX_DEPTH = 200
"""Maximum depth of a tree. Programs that remove trees recursively stop at about a thousand."""
_MAX_LINK_BYTES = 64 << 20
"""Maximum total length of the names and targets of links, which are kept until the end."""
_MAX_LINKS = 40
"""Maximum number of further links that are followed to check one link, as in path_resolution(7)."""
_MAX_STEPS = 5_000_000
"""Maximum number of path components that are resolved to check all links, which takes seconds."""
_MAX_PADDING_BYTES = 1 << 20
"""Maximum number of bytes after the end of an archive."""
_FLUSH_BYTES = 1 << 18
_HINT = "Nothing of it was copied. Look at this directory at the site that made it."


class CleanTree:
    """A checked tar archive: it has only regular files, directories, and links that stay in the
    directory.

    ``path`` is the path of the directory, for messages. ``links_may_leave`` permits links out of
    it, for the user's own directories. Iterating raises InfeasibleError for an archive with
    anything else, such as a name that leaves the directory or leads through a link, and
    TransientError for an archive that is cut or garbled. Memory is bounded whatever is sent.
    """

    def __init__(
        self, path: str, archive: AsyncIterator[bytes], *, links_may_leave: bool = False
    ) -> None:
        self.size_bytes = 0
        """Total size of the files so far."""
        self._path = path
        self._source = _Source(path, archive)
        self._links_may_leave = links_may_leave
        self._links: dict[tuple[str, ...], str] = {}
        """Targets of the symbolic links so far."""
        self._link_bytes = 0
        self._steps = 0
        """Number of path components that were resolved to check links."""

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Stream the new archive. Callers close the generator unless they exhaust it."""
        out = bytearray()
        while (entry := await self._next()) is not None:
            clean = self._checked(entry)
            out += clean.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
            left = clean.size
            while left:
                data = await self._source.piece(left)
                left -= len(data)
                out += data
                if len(out) >= _FLUSH_BYTES:
                    yield bytes(out)
                    out.clear()
            padding = -clean.size % _BLOCK
            await self._source.exactly(padding)
            out += bytes(padding)
            self.size_bytes += clean.size
        if not self._links_may_leave:
            await asyncio.to_thread(self._check_links)
        yield bytes(out) + bytes(2 * _BLOCK)
        await self._source.drain()

    async def _next(self) -> tarfile.TarInfo | None:
        """The next entry, with the attributes of its extended headers; None at the end."""
        more: dict[str, str] = {}
        while any(block := await self._source.exactly(_BLOCK)):
            try:
                entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise self._source.garbled(f"an invalid header ({error})") from None
            if not 0 <= entry.size < 1 << 63:
                raise self._source.garbled("an impossible size")
            if entry.type in _LONG:
                text = (await self._extension(entry)).partition(b"\0")[0]
                more.setdefault(_LONG[entry.type], _text(text))
            elif entry.type in _PAX:
                found = self._attributes(await self._extension(entry))
                if entry.type != tarfile.XGLTYPE:
                    more.update(found)
                elif not found.keys().isdisjoint(("path", "linkpath", "size")):
                    raise self._refused("names for all files at once")
            else:
                return self._extended(entry, more)
        return None

    async def _extension(self, entry: tarfile.TarInfo) -> bytes:
        if entry.size > _MAX_EXTENSION_BYTES:
            raise self._refused("a name or attributes without end")
        data = await self._source.exactly(entry.size)
        await self._source.exactly(-entry.size % _BLOCK)
        return data

    def _attributes(self, data: bytes) -> dict[str, str]:
        """The attributes of a header of pax: ``<length> <name>=<value>`` and a line break each."""
        found = {}
        at = 0
        while at < len(data):
            digits = data[at : at + 8].partition(b" ")[0]
            end = at + number_of(digits, -at)
            key, equals, value = data[at + len(digits) + 1 : end - 1].partition(b"=")
            if not equals or data[end - 1 : end] != b"\n":
                raise self._source.garbled("invalid attributes")
            found[_text(key)] = _text(value)
            at = end
        return found

    def _extended(self, entry: tarfile.TarInfo, more: dict[str, str]) -> tarfile.TarInfo:
        if any(key.startswith("GNU.sparse") for key in more):
            raise self._refused("a file with holes in a form that is not read here")
        entry.name = more.get("path", entry.name)
        entry.linkname = more.get("linkpath", entry.linkname)
        if "size" in more:
            size_bytes = number_of(more["size"])
            if size_bytes is None:
                raise self._source.garbled("an impossible size")
            entry.size = size_bytes
        return entry

    def _checked(self, entry: tarfile.TarInfo) -> tarfile.TarInfo:
        """The entry as it is passed on. Raises InfeasibleError for an entry that is refused."""
        parts = self._parts(entry.name)
        if not parts and entry.type != tarfile.DIRTYPE:
            raise self._refused(f"the name {entry.name[:200]!r}")
        self._not_through_links(parts, entry.name)
        clean = tarfile.TarInfo("/".join(parts) or ".")
        clean.mode = entry.mode & 0o755
        clean.mtime = max(0, min(math.floor(entry.mtime), (1 << 33) - 1))
        if entry.type in _FILES:
            clean.size = entry.size
        elif entry.type == tarfile.DIRTYPE:
            clean.type = tarfile.DIRTYPE
        elif entry.type == tarfile.SYMTYPE:
            clean.type = tarfile.SYMTYPE
            clean.linkname = self._target(parts, entry.linkname)
        elif entry.type == tarfile.LNKTYPE:
            target = self._parts(entry.linkname)
            if target in self._links:  # a further link with this target, which may leave from here
                clean.type = tarfile.SYMTYPE
                clean.linkname = self._target(parts, self._links[target])
            else:
                clean.type = tarfile.LNKTYPE
                clean.linkname = "/".join(self._not_through_links(target, entry.linkname))
        else:
            raise self._refused(
                f"{entry.name[:200]!r}, which is neither a file, a directory nor a link"
            )
        return clean

    def _parts(self, name: str) -> tuple[str, ...]:
        """The parts of a name in the directory; none for the directory itself."""
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        too_long = len(name) > _MAX_NAME_BYTES or len(parts) > _MAX_DEPTH
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise self._refused(f"the name {name[:200]!r}, which leads out of it")
        if too_long or any(len(_bytes(part)) > _MAX_PART_BYTES for part in parts):
            raise self._refused(f"the name {name[:50]!r}…, which is too long or too deep")
        return parts

    def _not_through_links(self, parts: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Return ``parts``. Raises InfeasibleError if they lead through a symbolic link or to
        one."""
        if any(parts[:depth] in self._links for depth in range(1, len(parts) + 1)):
            raise self._refused(f"{name[:200]!r}, which leads through a link")
        return parts

    def _target(self, link: tuple[str, ...], target: str) -> str:
        """Record the target of a symbolic link, which is checked at the end of the archive, and
        return it."""
        if not target or "\0" in target or len(target) > _MAX_NAME_BYTES:
            raise self._refused(f"the link {'/'.join(link)[:200]!r} with an impossible target")
        self._links[link] = target
        self._link_bytes += len(target) + sum(map(len, link))
        if self._link_bytes > _MAX_LINK_BYTES:
            raise self._refused("more links than can be checked")
        return target

    def _check_links(self) -> None:
        """Raise InfeasibleError if a link leads out of the directory. The directory at the
        destination is then incomplete, and is discarded."""
        for link, target in self._links.items():
            if not self._stays(link, target):
                raise self._refused(
                    f"the link {'/'.join(link)[:200]!r} to {target[:200]!r}, which leads out of it"
                )

    def _stays(self, link: tuple[str, ...], target: str) -> bool:
        """Whether a link stays in the directory at each step, as the kernel follows it."""
        here, rest, links = list(link[:-1]), [target], 0
        while rest:
            head, slash, tail = rest.pop().partition("/")
            if slash and not head:
                return False  # it is absolute
            if tail := tail.lstrip("/"):
                rest.append(tail)
            if head == "..":
                if not here:
                    return False
                here.pop()
            elif head != ".":
                here.append(head)
                self._steps += 1
                if len(here) > _MAX_DEPTH or self._steps > _MAX_STEPS:
                    return False
                further = self._links.get(tuple(here))
                if further is not None:
                    links += 1
                    if links > _MAX_LINKS:
                        return False
                    here.pop()
                    rest.append(further)
        return True

    def _refused(self, what: str) -> WfrunError:
        return InfeasibleError(
            f"{self._path} cannot be copied: the directory contains {what}", hint=_HINT
        )


class _Source:
    """The bytes of an archive, taken in portions."""

    def __init__(self, path: str, pieces: AsyncIterator[bytes]) -> None:
        self._path = path
        self._pieces = pieces
        self._left = memoryview(b"")

    async def piece(self, limit: int) -> bytes:
        """The next 1 to ``limit`` bytes. Raises TransientError at the end."""
        while not self._left:
            try:
                self._left = memoryview(await anext(self._pieces))
            except StopAsyncIteration:
                raise self.garbled("its end too early") from None
        data, self._left = self._left[:limit], self._left[limit:]
        return bytes(data)

    async def exactly(self, size: int) -> bytes:
        """The next ``size`` bytes, which are kept in memory."""
        data = b""
        while len(data) < size:
            data += await self.piece(size - len(data))
        return data

    async def drain(self) -> None:
        """Read the rest, which is padding. Raises TransientError if it is longer than
        _MAX_PADDING_BYTES."""
        left = len(self._left)
        async for data in self._pieces:
            left += len(data)
            if left > _MAX_PADDING_BYTES:
                raise self.garbled("data after its end")

    def garbled(self, what: str) -> WfrunError:
        return TransientError(f"{self._path} cannot be copied: its archive has {what}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
