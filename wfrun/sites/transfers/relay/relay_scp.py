"""Relays a file by this machine's scp, over the connections that its ssh has open to the sites.

scp logs in nowhere: its configuration names the sockets of the master connections. Between two
sites the data pass through its memory (``-3``). scp speaks SFTP since OpenSSH 8.7 (``-s``). An
older scp is not used: it lets a shell at the site read the path.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from wfrun.engine.errors import InfeasibleError, NoSpaceError, TransientError, WfrunError
from wfrun.engine.exchange import Content
from wfrun.sites.remote.transports.local_transport import LocalProcess
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
from wfrun.sites.remote.transports.transport import UNNAMED
from wfrun.sites.tasks import end_tasks
from wfrun.sites.transfers.direct.direct_clients import SSH
from wfrun.sites.transfers.direct.direct_scp import OVER_SFTP
from wfrun.sites.transfers.endpoints.agentless_endpoint import AgentlessEndpoint
from wfrun.sites.transfers.endpoints.endpoint import longer, part_name
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.local.disk import absent
from wfrun.sites.transfers.local.full_disk import shortage
from wfrun.sites.transfers.method import Location
from wfrun.sites.transfers.relay import limited_ssh, stall
from wfrun.sites.transfers.relay.limited_ssh import EXCEEDED

RelayEnd = AgentlessEndpoint | LocalEndpoint

_CONFIG = """\
Host source
  ControlPath "{source}"
Host destination
  ControlPath "{destination}"
Host *
  BatchMode yes
  ControlMaster no
  LogLevel ERROR
  ProxyCommand exit 255
"""
"""Configuration of ssh. ProxyCommand keeps ssh from connecting by itself when a master has ended.
"""
_PROGRAM = """\
#!/bin/sh
for word
do [ "$word" = source ] && exec {python} -I -S {limited} {most_bytes} "$@"
done
exec ssh "$@"
"""
"""The program that scp starts for each end. It limits the bytes that the source sends: scp copies
until the source signals the end of the file, and no limit of the system applies to data that scp
passes on."""
_GLOB = re.compile(r"[\\*?\[]")
_REFUSED = re.compile(
    "Permission denied|Read-only file system|Operation not permitted|[Qq]uota", re.IGNORECASE
)
_BESIDE_BYTES = 64 << 10
"""Maximum number of bytes from a source besides the file and its SFTP headers. The headers may have
1/64 of the file's size."""
_FULL = re.compile("No space left on device")


class RelayedCopy(NamedTuple):
    """A copy of a file of a known size."""

    reader: RelayEnd
    writer: RelayEnd
    source: Location
    destination: Location
    key: str
    whole: Content
    is_executable: bool

    @property
    def part(self) -> str:
        """The name of the part in the store of the destination."""
        return os.path.join(os.path.dirname(self.destination.name), part_name(self.key))


class ScpRelay:
    """Copies files between this machine and sites that are connected by the system's ssh."""

    def __init__(self) -> None:
        self._works: bool | None = None
        self._lock = asyncio.Lock()

    async def can_carry(self, copy: RelayedCopy) -> bool:
        """Whether both ends are this machine or a site connected by the system's ssh, and this
        machine's scp can be used."""
        for end in (copy.reader, copy.writer):
            if isinstance(end, AgentlessEndpoint) and _transport(end) is None:
                return False
        async with self._lock:
            if self._works is None:
                self._works = _starts_temporary_programs() and await _speaks_sftp()
            return self._works

    async def copy(self, copy: RelayedCopy) -> str | None:
        """Copy a file. Returns the file's digest, None if the file is not compared. Raises the
        errors of ``TransferMethod``."""
        writer, name = copy.writer, copy.destination.name
        hashing = asyncio.ensure_future(_digest(copy))  # beside the copy
        try:
            await writer.prepare(name)
            await _run(copy)
            digest = await hashing
            whole = Content(copy.whole.size_bytes, digest)
            await writer.complete(name, copy.key, whole, copy.is_executable)
            return digest
        except BaseException:
            await writer.discard(name, copy.key)
            raise
        finally:
            await end_tasks([hashing])


async def _digest(copy: RelayedCopy) -> str | None:
    path, whole = copy.source.path, copy.whole
    if whole.digest is not None or not whole.verify:
        return whole.digest
    found = await copy.reader.measure(path, whole.size_bytes)
    if found is None:
        raise absent(path)
    return found.digest


def _transport(end: RelayEnd) -> OpensshTransport | None:
    transport = end.transport if isinstance(end, AgentlessEndpoint) else None
    return transport if isinstance(transport, OpensshTransport) else None


def _starts_temporary_programs() -> bool:
    """Whether programs may be started from the directory of temporary files."""
    with tempfile.NamedTemporaryFile(prefix="wfrun-") as file:
        os.fchmod(file.fileno(), 0o700)
        return os.access(file.name, os.X_OK)


async def _speaks_sftp() -> bool:
    """Whether this machine has an scp that speaks SFTP."""
    if shutil.which("scp") is None:
        return False
    child = await asyncio.create_subprocess_exec(
        *("ssh", "-V"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await child.communicate()
    return SSH.version_in(said.decode(errors="replace")) >= OVER_SFTP


async def _run(copy: RelayedCopy) -> None:
    """Let scp write the part. Raises TransientError or InfeasibleError if it fails."""
    source, destination = _transport(copy.reader), _transport(copy.writer)
    one = source or destination
    assert one is not None
    with tempfile.TemporaryDirectory(prefix="wfrun-") as folder:
        config = Path(folder, "config")
        sockets = await _socket(source), await _socket(destination)
        config.write_text(_CONFIG.format(source=sockets[0], destination=sockets[1]))
        part = copy.writer.part(copy.destination.name, copy.key)
        argv = [
            *("scp", "-3", "-s", "-F", str(config), "-S", _program(folder, copy), "--"),
            # scp takes the path of a remote source for a pattern.
            f"source:{_escaped(copy.source.path)}" if source else copy.source.path,
            f"destination:{part}" if destination else part,
        ]
        process = LocalProcess(await one.spawn(argv))
        try:
            if destination is None:
                process.limit_files(copy.whole.size_bytes or 0)
            process.end_input()
            code = await _wait(process, copy)
            said = process.errors()
        finally:
            await process.close()
    if code == -signal.SIGXFSZ or EXCEEDED in said:
        raise longer(copy.source.path)
    if code != 0:
        last = "; ".join(said.splitlines()[-2:])
        raise await _explained(last or f"exit code {code}", copy)


def _program(folder: str, copy: RelayedCopy) -> str:
    """Write, into ``folder``, the program that scp starts. Returns the program's path."""
    size_bytes = copy.whole.size_bytes or 0
    text = _PROGRAM.format(
        python=shlex.quote(sys.executable),
        limited=shlex.quote(str(Path(limited_ssh.__file__))),
        most_bytes=size_bytes + size_bytes // 64 + _BESIDE_BYTES,
    )
    path = Path(folder, "ssh")
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


def _escaped(path: str) -> str:
    """A path as a pattern that matches this path alone."""
    return _GLOB.sub(r"\\\g<0>", path)


async def _socket(transport: OpensshTransport | None) -> str:
    """The socket of a connection, as written in ssh_config(5); ``none`` without a connection."""
    path = "none" if transport is None else await transport.control_path()
    return path.replace("%", "%%")


async def _wait(process: LocalProcess, copy: RelayedCopy) -> int | None:
    """Wait for the end of scp. Returns its exit code. Raises TransientError if the part does not
    grow for STALL_S."""
    waiting = asyncio.ensure_future(process.wait())
    size_bytes = -1
    limit_s = stall.STALL_S
    try:
        while True:
            await asyncio.wait([waiting], timeout=limit_s)
            if waiting.done():
                return waiting.result()
            found = await asyncio.wait_for(copy.writer.stat(copy.part), limit_s)
            grown = -1 if found is None else found.size_bytes
            if grown <= size_bytes:
                raise asyncio.TimeoutError
            size_bytes = grown
    except asyncio.TimeoutError:
        path = copy.destination.path
        raise TransientError(f"{path}: nothing came for {limit_s:g} s") from None
    finally:
        waiting.cancel()


async def _explained(said: str, copy: RelayedCopy) -> WfrunError:
    """The error of a copy in which scp failed with the output ``said``."""
    source, destination = copy.source.path, copy.destination.path
    writer = _transport(copy.writer)
    for transport in (_transport(copy.reader), writer):
        if transport is not None and not await transport.is_alive():
            return TransientError(
                f"{source} cannot be copied: the connection to {transport.host} was lost"
            )
    if await copy.reader.stat(copy.source.name) is None:
        return absent(source)
    full = said if _FULL.search(said) else None
    if writer is not None:
        found = await copy.writer.stat(copy.part)
        written = 0 if found is None else found.size_bytes
        missing_bytes = (copy.whole.size_bytes or 0) - written
        full = full or await shortage(writer, os.path.dirname(destination), missing_bytes)
    if full is not None:
        return NoSpaceError(f"{destination} cannot be written: {full}")
    if said.endswith(": Failure"):  # the code of SFTP for errors without one
        said += UNNAMED
    kind = InfeasibleError if _REFUSED.search(said) else TransientError
    return kind(f"{source} cannot be copied to {destination}: {said}")
