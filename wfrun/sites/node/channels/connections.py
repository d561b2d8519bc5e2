"""The connections of a launcher to its engine: by TCP and by files. ``channels.py`` uses them.

Both have the same methods. They never wait, except in ``drain`` and ``close``.
"""

import contextlib
import errno
import os
import select
import socket
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, List, Optional

    from wfrun.sites.node.channels.signing import HANDSHAKE_S, SPOOL_HANDSHAKE_S
else:
    from signing import HANDSHAKE_S, SPOOL_HANDSHAKE_S

CONNECT_S = 3.0
"""Timeout of an attempt to connect by TCP, in seconds."""
MIN_POLL_S = 0.01
MAX_POLL_S = 1.0
"""Limits of the interval between looks for spool files, in seconds. It is the minimum after a file
was read or written, and grows to the maximum while no file arrives."""
READ_BYTES = 1 << 18
"""Maximum number of bytes of one read or write of a socket."""
TURN_BYTES = 1 << 22
"""Maximum number of bytes read in one turn; the next turn follows at once."""
MAX_FILE_BYTES = 1 << 22
"""Maximum size of a spool file, in bytes."""
MAX_UNREAD_FILES = 8
"""Maximum number of spool files that the engine has not read yet. At the maximum, further data is
collected for larger files, since each file is a load on the file system."""
DRAIN_S = 5.0
"""Timeout of ``drain``, in seconds."""
LINGER_S = 1.0
"""Timeout of ``close`` for the engine to read all sent data, in seconds."""


def read_own(path: str) -> bytes:
    """Read a file of a channel. Raises OSError if the file cannot be read or is not trusted: it
    must be regular, have the owner of its directory, and not be writable by other users."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EPERM, "it is no regular file", path)
        if status.st_uid != os.stat(os.path.dirname(path)).st_uid or status.st_mode & 0o022:
            raise OSError(errno.EPERM, "it belongs to another user or others can write it", path)
        return file.read(MAX_FILE_BYTES)


class TcpConnection:
    """A TCP connection to the engine. Methods raise OSError if it has ended or cannot be made.

    ``fd`` is registered with ``poller``; call ``turn`` when it is reported.
    """

    handshake_s = HANDSHAKE_S

    def __init__(self, poller: "select.poll", host: str, port: int) -> None:
        # Numeric addresses alone: a name server could block the launcher.
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        self._address: "Any" = found[4]
        self._poller = poller
        self._socket = socket.socket(*found[:3])
        self.fd = self._socket.fileno()
        self.due_s: "Optional[float]" = time.monotonic() + CONNECT_S
        """Latest time of the next turn, on time.monotonic; None: only when ``fd`` is reported."""
        self._is_connected = False
        self._has_ended = False
        self._mask = 0
        self.unsent = bytearray()
        """Data to send; ``send`` removes what it has sent."""
        try:
            self._socket.setblocking(False)
            self._connect()
        except OSError:
            self._socket.close()
            raise
        self._register()

    def _connect(self) -> None:
        number = self._socket.connect_ex(self._address)
        if number in (errno.EINPROGRESS, errno.EALREADY, errno.EINTR):
            if self.due_s is not None and time.monotonic() >= self.due_s:
                raise OSError(errno.EHOSTUNREACH, "no answer")
            return
        if number not in (0, errno.EISCONN):
            raise OSError(number, os.strerror(number))
        self._is_connected = True
        self.due_s = None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _register(self) -> None:
        mask = select.POLLIN if self._is_connected else 0
        if self.unsent or not self._is_connected:
            mask |= select.POLLOUT
        if mask != self._mask:
            self._mask = mask
            self._poller.register(self.fd, mask)

    def turn(self) -> bytes:
        """Connect, read and write as far as possible without waiting; returns the read data. If the
        engine has closed the connection, the turn after the last data raises OSError."""
        if not self._is_connected:
            self._connect()
        if self._has_ended:
            raise OSError(errno.ECONNRESET, "the engine has closed the connection")
        pieces = []
        size = 0
        while self._is_connected and size < TURN_BYTES:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._has_ended = True
                self.due_s = time.monotonic()
                break
            pieces.append(data)
            size += len(data)
        self.send()
        return b"".join(pieces)

    def send(self) -> None:
        """Send as much of ``unsent`` as possible now."""
        while self.unsent and self._is_connected:
            try:
                with memoryview(self.unsent) as view:
                    sent = self._socket.send(view[:READ_BYTES])
            except BlockingIOError:
                break
            del self.unsent[:sent]
        self._register()

    def drain(self) -> None:
        """Wait up to DRAIN_S until all of ``unsent`` is sent."""
        mine = select.poll()
        mine.register(self.fd, select.POLLOUT)
        end_s = time.monotonic() + DRAIN_S
        while self.unsent and time.monotonic() < end_s:
            mine.poll(100)
            self.send()

    def close(self, is_orderly: bool) -> None:
        """Close the connection. If ``is_orderly``, first wait up to LINGER_S until the engine has
        closed its end: closing a socket with unread input resets the connection, so that the engine
        could lose the last output."""
        if is_orderly and self._is_connected:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
                self._socket.settimeout(LINGER_S)
                end_s = time.monotonic() + LINGER_S
                while time.monotonic() < end_s and self._socket.recv(READ_BYTES):
                    pass
        if self._mask:
            self._poller.unregister(self.fd)
        self._socket.close()


class SpoolConnection:
    """A connection to the engine by spool files in the run's directory. Methods raise OSError if it
    has ended or the directory cannot be used.

    Attributes are as of ``TcpConnection``.
    """

    fd = -1
    handshake_s = SPOOL_HANDSHAKE_S

    def __init__(
        self, directory: str, launcher: str, node: int, session: int, connection: int
    ) -> None:
        self._in = "%s/launchers/in/%s.%d" % (directory, launcher, node)
        self._out = directory + "/launchers/out"
        self._stem = "%d.%d" % (session, connection)
        self._name = "%s.%d.%s" % (launcher, node, self._stem)
        self._next_read = 1
        self._next_written = 1
        self._unread: "List[str]" = []
        """Paths of written files that the engine has not removed yet."""
        self._has_ended = False
        self._poll_s = MIN_POLL_S
        self.due_s: "Optional[float]" = time.monotonic()
        self.unsent = bytearray()
        for path in (self._in, self._out):
            os.makedirs(path, 0o700, exist_ok=True)
        self._remove_files()

    def turn(self) -> bytes:
        """Read and remove the files from the engine, write files to it; returns the read data. Does
        nothing before ``due_s``."""
        if self._has_ended:
            raise OSError(errno.ECONNRESET, "the engine has closed the connection")
        if self.due_s is not None and time.monotonic() < self.due_s:
            return b""
        pieces = []
        size = 0
        if self._poll_s >= MAX_POLL_S:
            # An NFS client that changes a directory reads it anew; its cached listing may be half
            # a minute old.
            os.utime(self._in)
        while size < TURN_BYTES:
            path = "%s/%s.%d" % (self._in, self._stem, self._next_read)
            try:
                pieces.append(read_own(path))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise
                break
            if not pieces[-1]:
                self._has_ended = True
            size += len(pieces[-1])
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self._next_read += 1
        self._poll_s = MIN_POLL_S if pieces else min(MAX_POLL_S, self._poll_s * 1.25)
        is_due = self._has_ended or size >= TURN_BYTES
        self.due_s = time.monotonic() + (0.0 if is_due else self._poll_s)
        self.send()
        return b"".join(pieces)

    def send(self, is_last: bool = False) -> None:
        """Write ``unsent`` to files while fewer than MAX_UNREAD_FILES are unread, or without that
        limit if ``is_last``."""
        while self._unread and not os.path.exists(self._unread[0]):
            self._unread.pop(0)
        while self.unsent and (is_last or len(self._unread) < MAX_UNREAD_FILES):
            size = min(len(self.unsent), MAX_FILE_BYTES)
            self._write(bytes(self.unsent[:size]))
            del self.unsent[:size]
            # An answer may come soon.
            self._poll_s = MIN_POLL_S
            self.due_s = min(self.due_s or 0.0, time.monotonic() + MIN_POLL_S)

    def _write(self, data: bytes) -> None:
        name = "%s.%d" % (self._name, self._next_written)
        path = "%s/%s" % (self._out, name)
        temporary = "%s/.%s" % (self._out, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
        os.rename(temporary, path)
        self._next_written += 1
        self._unread.append(path)

    def drain(self) -> None:
        """Write all of ``unsent``."""
        self.send(is_last=True)

    def close(self, is_orderly: bool) -> None:
        """Close the connection, and remove the engine's files. If ``is_orderly``, write the empty
        file that marks the end, and leave our unread files to the engine; else remove them too."""
        with contextlib.suppress(OSError):
            if is_orderly:
                self._write(b"")
            else:
                for path in self._unread:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
            self._remove_files()

    def _remove_files(self) -> None:
        """Remove all files from the engine to this node."""
        for name in os.listdir(self._in):
            if not name.startswith("."):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink("%s/%s" % (self._in, name))
