"""How a launcher on a node reaches its engine: the node's end of the channels.

A file of the standard library alone for Python >= 3.6, that stands beside ``launcher.py`` in the
directory of a run at its cluster. The engine's end is in ``wfrun/sites/launchers``.

In the directory of a run:
    launchers/secret         what proves who belongs to the run: 32 random bytes in hex, mode 0600
    launchers/address.json   {"session": n, "tcp": [[host, port], ...], "ssh": [[host, port], ...]},
                             written anew whenever an engine begins to listen, with a higher n
    launchers/out/<launcher>.<node>.<session>.<connection>.<n>      spool files to the engine
    launchers/in/<launcher>.<node>/<session>.<connection>.<n>       and from it

All kinds of channel carry one stream of bytes each way. On the spool its pieces are the contents of
the files 1, 2, 3, ... of a connection, in this order, however late or out of order they appear;
they are written under a temporary name that begins with a dot, and renamed; who has read one
removes it; an empty one is the end. The launcher counts its connections. Those of other sessions
are nobody's.

The launcher speaks first. A line of the handshake is JSON and at most 4 KiB long:
    launcher   {"wfrun": 1, "launcher": key, "node": i, "nonce": a}
    engine     {"nonce": b, "proof": P("engine")}
    launcher   {"proof": P("launcher")}
where P(who) is HMAC-SHA256(secret, "who|launcher|node|a|b") in hex. Each later line, from either
side, is 32 hex digits of HMAC-SHA256(P("to-engine") or P("to-launcher"), "i|line") for the i-th
line that way, from 0, then a space, the line and its end. Whoever sees a wrong proof or a wrong
line closes the connection. It all is signed and not secret; the file system is trusted with both.
"""

import contextlib
import errno
import hashlib
import hmac
import json
import os
import random
import select
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

    Choice = Tuple[str, str, int]

PROTOCOL = 1
HANDSHAKE_BYTES = 4096
"""The longest line of a handshake."""
HANDSHAKE_S = 10.0
SPOOL_HANDSHAKE_S = 150.0
"""A network file system may show a new file half a minute late, each way."""
CONNECT_S = 3.0
UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH)
SILENCE_S = 60.0
"""An engine that says nothing for so long, not even a ping, is gone, or cannot be heard."""
STEP_S = 5.0
"""Between turns, at most. A longer pause was not ours: the machine, or we, stood still."""
QUICK_S = 0.01
SLOW_S = 1.0
"""Between looks for spool files: while some come, and when none have come for a while."""
LOOK_S = 1.0
"""Between looks whether an engine listens anew, while none answers, or none would be missed."""
BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Between rounds of all kinds, each varied by a half, so that launchers do not come at once."""
READ_BYTES = 1 << 18
TURN_BYTES = 1 << 22
"""Read in one turn, at most; the next one follows at once."""
FILE_BYTES = 1 << 22
"""In one spool file, at most."""
OUTSTANDING = 8
"""Spool files that the engine has not read; then what is said is gathered."""
UNSENT_BYTES = 1 << 26
"""A connection that takes so long to take so much is given up."""
DRAIN_S = 5.0
LINGER_S = 1.0


def proof_of(secret: bytes, who: str, launcher: str, node: int, a: str, b: str) -> str:
    """P(who) of the handshake."""
    text = "%s|%s|%d|%s|%s" % (who, launcher, node, a, b)
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def is_equal(found: object, wanted: str) -> bool:
    """Compares in constant time, whatever was found."""
    return isinstance(found, str) and hmac.compare_digest(found.encode(), wanted.encode())


class Seal:
    """Signs the lines of one direction of a connection, or checks them."""

    def __init__(self, key: str) -> None:
        self._mac = hmac.new(key.encode(), digestmod=hashlib.sha256)
        self._count = 0

    def _tag(self, line: bytes) -> bytes:
        mac = self._mac.copy()
        mac.update(b"%d|%s" % (self._count, line))
        self._count += 1
        return mac.hexdigest()[:32].encode()

    def sealed(self, line: bytes) -> bytes:
        """The line as it is sent, with its end."""
        return b"%s %s\n" % (self._tag(line), line)

    def opened(self, sealed: bytes) -> bytes:
        """What was sealed, given without its end. Raises ValueError where it was not by the other
        side, or is not the next line."""
        line = sealed[33:]
        if not hmac.compare_digest(sealed[:33], self._tag(line) + b" "):
            raise ValueError("a line is not signed as it should be")
        return line


class Splitter:
    """Makes lines of pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> "List[bytes]":
        """The lines that are whole now, without their ends."""
        if b"\n" not in data:
            self._rest += data
            return []
        lines = (bytes(self._rest) + data).split(b"\n")
        self._rest = bytearray(lines.pop())
        return lines

    @property
    def rest_bytes(self) -> int:
        """Of a line whose end has not come."""
        return len(self._rest)


def object_of(line: bytes) -> "Dict[str, Any]":
    """The object of a line of the handshake. Raises ValueError for anything else."""
    if len(line) > HANDSHAKE_BYTES:
        raise ValueError("a line of the handshake is too long")
    try:
        found = json.loads(line.decode())
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("a line of the handshake is no object")
    return found


class Wire:
    """A TCP connection to the engine. Raises OSError when it has ended, or can't be made."""

    handshake_s = HANDSHAKE_S

    def __init__(self, poller: "select.poll", host: str, port: int) -> None:
        # Addresses are numbers: nobody waits for a name server.
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        self._address: "Any" = found[4]
        self._poller = poller
        self._socket = socket.socket(*found[:3])
        self.fd = self._socket.fileno()
        self.due_s: "Optional[float]" = time.monotonic() + CONNECT_S
        self._connected = False
        self._ended = False
        self._mask = 0
        self.unsent = bytearray()
        try:
            self._socket.setblocking(False)
            self._connect()
        except OSError:
            self._socket.close()
            raise
        self._listen()

    def _connect(self) -> None:
        number = self._socket.connect_ex(self._address)
        if number in (errno.EINPROGRESS, errno.EALREADY, errno.EINTR):
            if self.due_s is not None and time.monotonic() >= self.due_s:
                raise OSError(errno.EHOSTUNREACH, "no answer")
            return
        if number not in (0, errno.EISCONN):
            raise OSError(number, os.strerror(number))
        self._connected = True
        self.due_s = None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _listen(self) -> None:
        mask = select.POLLIN if self._connected else 0
        if self.unsent or not self._connected:
            mask |= select.POLLOUT
        if mask != self._mask:
            self._mask = mask
            self._poller.register(self.fd, mask)

    def turn(self) -> bytes:
        """What has come. Raises OSError, once all that came was given."""
        if not self._connected:
            self._connect()
        if self._ended:
            raise OSError(errno.ECONNRESET, "the engine has closed the connection")
        pieces = []
        size = 0
        while self._connected and size < TURN_BYTES:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._ended = True
                self.due_s = time.monotonic()
                break
            pieces.append(data)
            size += len(data)
        self.send()
        return b"".join(pieces)

    def send(self) -> None:
        while self.unsent and self._connected:
            try:
                with memoryview(self.unsent) as view:
                    sent = self._socket.send(view[:READ_BYTES])
            except BlockingIOError:
                break
            del self.unsent[:sent]
        self._listen()

    def drain(self) -> None:
        """Wait a while until all is sent."""
        mine = select.poll()
        mine.register(self.fd, select.POLLOUT)
        end_s = time.monotonic() + DRAIN_S
        while self.unsent and time.monotonic() < end_s:
            mine.poll(100)
            self.send()

    def close(self, is_good: bool) -> None:
        """A good end waits until the engine has read all: to close a socket with something unread
        would take back what was sent."""
        if is_good and self._connected:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
                self._socket.settimeout(LINGER_S)
                end_s = time.monotonic() + LINGER_S
                while time.monotonic() < end_s and self._socket.recv(READ_BYTES):
                    pass
        if self._mask:
            self._poller.unregister(self.fd)
        self._socket.close()


class Spool:
    """Files instead of a connection. Raises OSError when it has ended, or the directory can't be
    used."""

    fd = -1
    handshake_s = SPOOL_HANDSHAKE_S

    def __init__(
        self, directory: str, launcher: str, node: int, session: int, connection: int
    ) -> None:
        self._in = "%s/launchers/in/%s.%d" % (directory, launcher, node)
        self._out = directory + "/launchers/out"
        self._stem = "%d.%d" % (session, connection)
        self._name = "%s.%d.%s" % (launcher, node, self._stem)
        self._read = 1
        self._written = 1
        self._outstanding: "List[str]" = []
        self._ended = False
        self._pause_s = QUICK_S
        self.due_s: "Optional[float]" = time.monotonic()
        self.unsent = bytearray()
        for path in (self._in, self._out):
            os.makedirs(path, 0o700, exist_ok=True)
        self._clear()

    def turn(self) -> bytes:
        """What has come. Raises OSError, once all that came was given."""
        if self._ended:
            raise OSError(errno.ECONNRESET, "the engine has closed the connection")
        if self.due_s is not None and time.monotonic() < self.due_s:
            return b""
        pieces = []
        size = 0
        if self._pause_s >= SLOW_S:
            # Whoever changes a directory is shown it anew by NFS, which may else show it as it was
            # half a minute ago.
            os.utime(self._in)
        while size < TURN_BYTES:
            path = "%s/%s.%d" % (self._in, self._stem, self._read)
            try:
                with open(path, "rb") as file:
                    pieces.append(file.read())
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise
                break
            if not pieces[-1]:
                self._ended = True
            size += len(pieces[-1])
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self._read += 1
        self._pause_s = QUICK_S if pieces else min(SLOW_S, self._pause_s * 1.25)
        is_due = self._ended or size >= TURN_BYTES
        self.due_s = time.monotonic() + (0.0 if is_due else self._pause_s)
        self.send()
        return b"".join(pieces)

    def send(self, anyway: bool = False) -> None:
        while self._outstanding and not os.path.exists(self._outstanding[0]):
            self._outstanding.pop(0)
        while self.unsent and (anyway or len(self._outstanding) < OUTSTANDING):
            size = min(len(self.unsent), FILE_BYTES)
            self._write(bytes(self.unsent[:size]))
            del self.unsent[:size]
            # There may soon be an answer.
            self._pause_s = QUICK_S
            self.due_s = min(self.due_s or 0.0, time.monotonic() + QUICK_S)

    def _write(self, data: bytes) -> None:
        name = "%s.%d" % (self._name, self._written)
        path = "%s/%s" % (self._out, name)
        temporary = "%s/.%s" % (self._out, name)
        with open(temporary, "wb") as file:
            file.write(data)
        os.rename(temporary, path)
        self._written += 1
        self._outstanding.append(path)

    def drain(self) -> None:
        """Write all of it."""
        self.send(anyway=True)

    def close(self, is_good: bool) -> None:
        """After a good end the engine reads what is left; otherwise nobody shall."""
        with contextlib.suppress(OSError):
            if is_good:
                self._write(b"")
            else:
                for path in self._outstanding:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
            self._clear()

    def _clear(self) -> None:
        """Remove what is there of connections before."""
        for name in os.listdir(self._in):
            if not name.startswith("."):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink("%s/%s" % (self._in, name))


class Channel:
    """One connection to the engine at a time, by the first of the kinds that works.

    ``directory`` is that of the run, ``kinds`` some of "tcp", "ssh" and "spool" in the order in
    which they are tried, again and again, and ``poller`` is where its file descriptors are
    registered, as often as they change. It never waits and never raises: call ``turn`` when
    ``poller`` reports a descriptor of its own and when ``due_s`` is past.
    Pings of the engine are answered here and are not among the lines.
    """

    def __init__(
        self,
        directory: str,
        launcher_key: str,
        node: int,
        kinds: "Sequence[str]",
        poller: "select.poll",
    ) -> None:
        self.session = 0
        """The number of the connection, from 1; a new one begins with a hello, which is for the
        launcher to say. What was said before, and has not been sent, is dropped: the engine asks
        about it all."""
        self.is_open = False
        """Whether there is a connection to an engine that has proved that it is ours."""
        self.kind = ""
        """Of the connection that is open, or is being tried."""
        self._directory = directory
        self._launcher = launcher_key
        self._node = node
        self._kinds = tuple(kinds)
        self._poller = poller
        self._carrier: "Optional[Union[Wire, Spool]]" = None
        self._splitter = Splitter()
        self._nonce = ""
        self._secret = b""
        self._seal: "Optional[Seal]" = None
        self._check: "Optional[Seal]" = None
        self._quiet_s = 0.0
        """Time that ran since this connection was begun or heard of last."""
        self._turned_s = self._retry_s = self._looked_s = time.monotonic()
        self._engine = 0
        """The session of the engine that is tried."""
        self._choices: "List[Choice]" = []
        self._good: "Choice" = ("", "", 0)
        """The address that worked last."""
        self._choice = self._good
        self._failures = 0
        self._dials = 0
        self._said: "List[str]" = []

    # -- for the launcher

    def due_s(self) -> "Optional[float]":
        """When, on time.monotonic, it wants its next turn, whatever the poller says; None after
        ``close``."""
        if not self._kinds:
            return None
        due_s = self._looked_s + self._look_s
        if self._carrier is None:
            return min(self._retry_s, due_s)
        return due_s if self._carrier.due_s is None else min(due_s, self._carrier.due_s)

    def owns(self, fd: int) -> bool:
        """Whether a descriptor that the poller reported is one of its own."""
        return self._carrier is not None and fd == self._carrier.fd

    def turn(self) -> "List[bytes]":
        """Do what is due: connect, prove, read, write, look for files, go on to the next kind.
        Returns the lines that came, whole, in order and without their ends; all of them are of
        the connection ``session``, also where it has been closed by now."""
        now_s = time.monotonic()
        self._quiet_s += min(now_s - self._turned_s, STEP_S)
        self._turned_s = now_s
        lines: "List[bytes]" = []
        if self._carrier is not None:
            try:
                self._converse(self._carrier, lines)
                if self._listens_anew(now_s):
                    raise OSError(errno.ECONNRESET, "the engine listens anew")
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in UNREACHABLE:
                    # Nor will it be by another kind, and each would take seconds.
                    gone = self._choice[1]
                    self._choices = [choice for choice in self._choices if choice[1] != gone]
                self._drop(str(error))
        if self._carrier is None and self._kinds and self._is_time_to_dial(now_s):
            self._dial(now_s)
        return lines

    def say(self, text: str) -> None:
        """A line for the engine, without its end; dropped where none is connected."""
        if self.is_open and self._seal is not None and self._carrier is not None:
            self._carrier.unsent += self._seal.sealed(text.encode())

    def send(self) -> None:
        """Send what was said, as far as that can be done without waiting; the rest goes by
        itself."""
        if self._carrier is not None and self._carrier.unsent:
            try:
                self._carrier.send()
                if len(self._carrier.unsent) > UNSENT_BYTES:
                    raise OSError(errno.ENOBUFS, "the engine reads too slowly")
            except OSError as error:
                self._drop(str(error))

    def drain(self) -> None:
        """Wait up to 5 s until all that was said is on its way: for the last words."""
        if self._carrier is not None:
            try:
                self._carrier.drain()
            except OSError as error:
                self._drop(str(error))

    def close(self) -> None:
        """Let go of the connection, for good. The engine still gets what is on its way; that is
        waited for, for a second at most."""
        self._kinds = ()
        if self._carrier is not None:
            self._carrier.close(is_good=self.is_open)
            self._carrier = None
        self.is_open = False

    # -- one connection

    def _converse(self, carrier: "Union[Wire, Spool]", lines: "List[bytes]") -> None:
        """Take what has come. Raises OSError and ValueError where this connection is no more."""
        data = carrier.turn()
        if data and self._check is not None:
            self._quiet_s = 0.0
        for line in self._splitter.feed(data):
            if self._check is None:
                self._prove(carrier, object_of(line))
                continue
            line = self._check.opened(line)
            if line.startswith(b'{"ping": '):
                self.say(line.decode().replace("ping", "pong"))
            else:
                lines.append(line)
        if self._check is None and self._splitter.rest_bytes > HANDSHAKE_BYTES:
            raise ValueError("a line of the handshake is too long")
        self.send()
        limit_s = carrier.handshake_s if self._check is None else SILENCE_S
        if self._quiet_s > limit_s:
            raise OSError(errno.ETIMEDOUT, "the engine says nothing")

    def _prove(self, carrier: "Union[Wire, Spool]", answer: "Dict[str, Any]") -> None:
        def proof(who: str) -> str:
            nonces = self._nonce, str(answer.get("nonce"))
            return proof_of(self._secret, who, self._launcher, self._node, *nonces)

        if not is_equal(answer.get("proof"), proof("engine")):
            raise ValueError("who answered does not know the secret of the run")
        text = json.dumps({"proof": proof("launcher")})
        carrier.unsent += text.encode() + b"\n"
        self._seal = Seal(proof("to-engine"))
        self._check = Seal(proof("to-launcher"))
        self.is_open = True
        self.session += 1
        self._quiet_s = 0.0
        self._failures = 0
        self._good = self._choice
        self._said.clear()

    @property
    def _look_s(self) -> float:
        """The end of an engine is seen by who has a connection to it."""
        return STEP_S if self.is_open and self.kind != "spool" else LOOK_S

    def _is_time_to_dial(self, now_s: float) -> bool:
        return now_s >= self._retry_s or self._listens_anew(now_s)

    def _listens_anew(self, now_s: float) -> bool:
        """Whether another engine, or the same with another agent, listens now; looked for now and
        then."""
        if now_s - self._looked_s < self._look_s:
            return False
        self._looked_s = now_s
        try:
            session = int(self._address()["session"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        if session == self._engine:
            return False
        self._choices = []
        self._failures = 0
        return True

    def _drop(self, reason: str) -> None:
        if self._carrier is not None:
            self._carrier.close(is_good=False)
        self._carrier = None
        if self.is_open:  # All kinds are tried anew.
            self._choices = []
        self._retry_s = time.monotonic() + (0.0 if self._choices else self._delay_s())
        self.is_open = False
        self._seal = self._check = None
        self._say_why("%s: %s" % (self.kind, reason))

    def _say_why(self, text: str) -> None:
        """Into the log of the batch job, not again and again."""
        if text not in self._said:
            self._said.append(text)
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("no connection to the engine by %s\n" % text)
                sys.stderr.flush()

    # -- the next connection

    def _address(self) -> "Dict[str, Any]":
        with open(self._directory + "/launchers/address.json", "rb") as file:
            found = json.loads(file.read().decode())
        if not isinstance(found, dict):
            raise ValueError("address.json is no object")
        return found

    def _find_choices(self) -> None:
        """All addresses of all kinds, in order. Raises OSError and ValueError."""
        with open(self._directory + "/launchers/secret", "rb") as file:
            self._secret = file.read().strip()
        address = self._address()
        session = int(address.get("session", 0))
        if session != self._engine:
            self._engine = session
            self._failures = 0
        choices: "List[Choice]" = []
        for kind in self._kinds:
            if kind == "spool":
                choices.append((kind, "", 0))
                continue
            found = [(kind, str(host), int(port)) for host, port in address.get(kind, [])]
            choices += sorted(found, key=lambda each: each[:2] != self._good[:2])
        self._choices = choices

    def _dial(self, now_s: float) -> None:
        self._looked_s = now_s
        try:
            if not self._choices:
                self._find_choices()
            if not self._choices:
                raise ValueError("the engine does not listen in any way that is wanted")
            self._choice = kind, host, port = self._choices.pop(0)
            self.kind = kind
            if kind == "spool":
                self._dials += 1
                self._carrier = Spool(
                    self._directory, self._launcher, self._node, self._engine, self._dials
                )
            else:
                self._carrier = Wire(self._poller, host, port)
            self._quiet_s = 0.0
            self._splitter = Splitter()
            self._nonce = "%032x" % random.SystemRandom().getrandbits(128)
            hello = {
                "wfrun": PROTOCOL,
                "launcher": self._launcher,
                "node": self._node,
                "nonce": self._nonce,
            }
            self._carrier.unsent += json.dumps(hello).encode() + b"\n"
            self._carrier.send()
        except (OSError, ValueError, TypeError, KeyError) as error:
            self._drop(str(error))

    def _delay_s(self) -> float:
        delay_s = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        return delay_s * random.uniform(0.5, 1.5)
