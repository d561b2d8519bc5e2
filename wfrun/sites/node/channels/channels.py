"""The launcher's end of the channels by which it reaches its engine.

It is copied beside ``batch_launcher.py`` into the directory of a run at a cluster and needs only
the standard library of Python >= 3.6. The engine's end is in ``wfrun/sites/launchers``.

In the directory of a run:
    launchers/secret         key for proofs of identity: 32 random bytes in hex, mode 0600
    launchers/address.json   {"session": n, "tcp": [[host, port], ...], "ssh": [[host, port], ...]},
                             written whenever an engine begins to listen, with a higher n; with
                             "over": true when the run has ended and its launchers have to end
    launchers/out/<launcher>.<node>.<session>.<connection>.<n>      spool files to the engine
    launchers/in/<launcher>.<node>/<session>.<connection>.<n>       spool files from the engine

Each channel carries one stream of bytes in each direction. On the spool, a stream is the
concatenation of the files 1, 2, 3, ... of a connection, in whatever order they become visible. The
writer gives a file a temporary name that begins with a dot, then renames it; the reader removes it.
An empty file ends the stream. The launcher numbers its connections. Files of other sessions are
ignored. ``signing.py`` describes the handshake and the lines that follow it.
"""

import contextlib
import errno
import json
import random
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

    from wfrun.sites.node.channels.connections import (
        SpoolConnection,
        TcpConnection,
        read_own,
    )
    from wfrun.sites.node.channels.encryption import Encryption, encryption_of_launcher
    from wfrun.sites.node.channels.signing import (
        PROTOCOL,
        LineSigner,
        LineSplitter,
        is_equal,
        object_of,
        proof_of,
    )

    Target = Tuple[str, str, int]
    """Kind of channel, host, port."""
else:
    from connections import SpoolConnection, TcpConnection, read_own
    from encryption import Encryption, encryption_of_launcher
    from signing import (
        PROTOCOL,
        LineSigner,
        LineSplitter,
        is_equal,
        object_of,
        proof_of,
    )

INVALID = (ValueError, KeyError, TypeError, ArithmeticError, RecursionError)
"""Exceptions that reading an invalid ``address.json`` may raise."""
UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH)
"""Values of errno after which the other kinds of channel to the same host are not tried."""
SILENCE_S = 60.0
"""Time without data from the engine after which the connection ends, in seconds. The engine sends
pings more often (``PING_S`` in ``wfrun/sites/launchers/channels/channels.py``)."""
MAX_STEP_S = 5.0
"""Maximum time between two turns that counts as silence of the engine, in seconds. The rest of a
longer pause is not counted, since this process was suspended. Also the interval between reads of
``address.json`` during a TCP connection, which itself shows when the engine is gone."""
LOOK_S = 1.0
"""Interval in seconds between reads of ``address.json`` while no engine is connected, and during a
connection by spool, which does not show when the engine is gone."""
BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Delays after 1, 2, ... failed rounds through all targets, in seconds. Each is varied randomly by
up to 50%, so that launchers do not all connect at once."""
MAX_UNSENT_BYTES = 1 << 26
"""Maximum amount of unsent data of a connection, in bytes. A connection with more is ended, to
bound the memory of a launcher whose engine does not read."""
MAX_LINE_BYTES = 1 << 28
"""Maximum length of a line from the engine, in bytes. The engine never keeps more unsent data than
this (``signed_link.MAX_UNSENT_BYTES``)."""


class Channel:
    """Keeps the launcher connected to its engine, by the first kind of channel that works.

    ``directory`` is the run's directory. ``kinds`` are some of "tcp", "ssh" and "spool", in the
    order in which each round tries them. File descriptors are registered with ``poller``. Call
    ``turn`` when ``poller`` reports a descriptor that the channel ``owns``, and when ``due_s`` has
    passed. No method raises; only ``drain`` and ``close`` block. ``turn`` answers pings.
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
        """Number of the latest connection that was opened, from 1; 0: none yet. The launcher must
        send its hello first on each connection. Unsent lines of the previous connection are
        dropped: the engine asks for the states of attempts again."""
        self.is_open = False
        """Whether an engine is connected that has proved its identity."""
        self.is_over = False
        """Whether ``address.json`` says that the run is over."""
        self.kind = ""
        """Kind of the latest connection, open or not."""
        self._directory = directory
        self._launcher = launcher_key
        self._node = node
        self._kinds = tuple(kinds)
        self._poller = poller
        self._connection: "Optional[Union[TcpConnection, SpoolConnection]]" = None
        self._splitter = LineSplitter()
        self._encryption: "Optional[Encryption]" = None
        """TLS of the connection; None: not encrypted, or not yet."""
        self._nonce = ""
        self._secret = b""
        self._signer: "Optional[LineSigner]" = None
        """Signs sent lines; None until the handshake is complete."""
        self._verifier: "Optional[LineSigner]" = None
        """Checks the signatures of received lines; None until the handshake is complete."""
        self._silent_s = 0.0
        """Time in seconds since the last data from the engine or the start of the handshake;
        suspensions of this process are not counted."""
        self._turned_s = self._retry_s = self._looked_s = time.monotonic()
        self._engine_session = 0
        """The engine's session in the last read ``address.json``."""
        self._targets: "List[Target]" = []
        """Targets not yet tried in this round."""
        self._target: "Target" = ("", "", 0)
        self._last_good: "Target" = self._target
        """Target of the last open connection; it is tried first among those of its kind."""
        self._failures = 0
        """Number of failed rounds since the last open connection."""
        self._dials = 0
        """Number of the latest spool connection, part of the names of its files."""
        self._logged: "List[str]" = []
        """Failures logged since the last open connection."""

    # -- for the launcher

    def due_s(self) -> "Optional[float]":
        """Latest time of the next turn, on time.monotonic; None after ``close``."""
        if not self._kinds:
            return None
        due_s = self._looked_s + self._look_s
        if self._connection is None:
            return min(self._retry_s, due_s)
        return due_s if self._connection.due_s is None else min(due_s, self._connection.due_s)

    def owns(self, fd: int) -> bool:
        """Whether a descriptor that the poller reported belongs to this channel."""
        return self._connection is not None and fd == self._connection.fd

    def turn(self) -> "List[bytes]":
        """Do what is due: connect, authenticate, read, write, look for files, try the next target.

        Returns the lines received on connection number ``session``, in order and without newlines,
        even if that connection has ended in this turn.
        """
        now_s = time.monotonic()
        self._silent_s += min(now_s - self._turned_s, MAX_STEP_S)
        self._turned_s = now_s
        lines: "List[bytes]" = []
        if self._connection is not None:
            try:
                self._converse(self._connection, lines)
                if self._has_new_engine(now_s):
                    raise OSError(errno.ECONNRESET, "the engine has opened its channels again")
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in UNREACHABLE:
                    # Another kind would not reach this host either, and each takes seconds to try.
                    host = self._target[1]
                    self._targets = [target for target in self._targets if target[1] != host]
                self._drop(str(error))
        if self._connection is None and self._kinds and self._is_time_to_dial(now_s):
            self._dial(now_s)
        return lines

    def say(self, text: str) -> None:
        """Queue a line for the engine, given without its newline. Dropped if no engine is
        connected."""
        if self.is_open and self._signer is not None and self._connection is not None:
            self._put(self._connection, self._signer.sign(text.encode()))

    def send(self) -> None:
        """Send queued lines, as far as possible without waiting; ``turn`` sends the rest."""
        if self._connection is not None and self._connection.unsent:
            try:
                self._connection.send()
                if len(self._connection.unsent) > MAX_UNSENT_BYTES:
                    raise OSError(errno.ENOBUFS, "the engine reads too slowly")
            except OSError as error:
                self._drop(str(error))

    def drain(self) -> None:
        """Wait up to `connections.DRAIN_S` until all queued lines are sent."""
        if self._connection is not None:
            try:
                self._connection.drain()
            except OSError as error:
                self._drop(str(error))

    def close(self) -> None:
        """Close the connection for good. Waits up to `connections.LINGER_S` until the engine has
        read all sent data."""
        self._kinds = ()
        if self._connection is not None:
            self._connection.close(is_orderly=self.is_open)
            self._connection = None
        self.is_open = False

    # -- one connection

    def _converse(
        self, connection: "Union[TcpConnection, SpoolConnection]", lines: "List[bytes]"
    ) -> None:
        """Read and write; received lines are appended to ``lines``. Raises OSError or ValueError if
        the connection has ended or has to be ended."""
        data = connection.turn()
        if data and self.is_open:
            self._silent_s = 0.0
        if self._encryption is not None:
            data = self._encryption.receive(data)
            connection.unsent += self._encryption.outgoing()
            if self._encryption.is_open and not self.is_open:
                self._open()
        for line in self._splitter.feed(data):
            if self._verifier is None:
                self._authenticate(connection, object_of(line))
                continue
            line = self._verifier.verify(line)
            if line.startswith(b'{"ping": '):
                self.say(line.decode().replace("ping", "pong"))
            else:
                lines.append(line)
        self.send()
        limit_s = SILENCE_S if self.is_open else connection.handshake_s
        if self._silent_s > limit_s:
            raise OSError(errno.ETIMEDOUT, "the engine has been silent for too long")

    def _authenticate(
        self, connection: "Union[TcpConnection, SpoolConnection]", answer: "Dict[str, Any]"
    ) -> None:
        """Check the engine's proof and send ours. Raises ValueError for a wrong proof."""
        digest = str(answer.get("certificate"))

        def proof(who: str) -> str:
            return self._proof(who, str(answer.get("nonce")), digest)

        if not is_equal(answer.get("proof"), proof("engine")):
            raise ValueError("the process that answered does not know the secret of the run")
        if digest:
            self._encryption = encryption_of_launcher(digest)
            self._encryption.begin()
        self._put(connection, json.dumps({"proof": proof("launcher")}).encode() + b"\n")
        self._splitter.max_bytes = MAX_LINE_BYTES
        self._signer = LineSigner(proof("to-engine"))
        self._verifier = LineSigner(proof("to-launcher"))
        if self._encryption is None:
            self._open()

    def _open(self) -> None:
        """Begin the exchange of lines, after the engine has proved its identity."""
        self.is_open = True
        self.session += 1
        self._silent_s = 0.0
        self._failures = 0
        self._last_good = self._target
        self._logged.clear()

    def _proof(self, who: str, *fields: str) -> str:
        names = self._launcher, self._node, self._engine_session, self._nonce
        return proof_of(self._secret, who, *names, *fields)

    def _put(self, connection: "Union[TcpConnection, SpoolConnection]", data: bytes) -> None:
        """Queue data to send; encrypt it if the connection is encrypted."""
        if self._encryption is not None:
            self._encryption.send(data)
            data = self._encryption.outgoing()
        connection.unsent += data

    @property
    def _look_s(self) -> float:
        """Interval between reads of ``address.json``, in seconds."""
        return MAX_STEP_S if self.is_open and self.kind != "spool" else LOOK_S

    def _is_time_to_dial(self, now_s: float) -> bool:
        return now_s >= self._retry_s or self._has_new_engine(now_s)

    def _has_new_engine(self, now_s: float) -> bool:
        """Whether ``address.json`` has another session number: a new engine has started, or the
        engine has opened its channels again. False if the next read of the file is not due yet."""
        if now_s - self._looked_s < self._look_s:
            return False
        self._looked_s = now_s
        try:
            session = int(self._address()["session"])
        except (OSError, *INVALID):
            return False
        if session == self._engine_session:
            return False
        self._targets = []
        self._failures = 0
        return True

    def _drop(self, reason: str) -> None:
        """End the connection. The next target is tried at once, or after a delay if this round has
        no more targets."""
        if self._connection is not None:
            self._connection.close(is_orderly=False)
        self._connection = None
        if self.is_open:  # begin a new round, with the preferred kind
            self._targets = []
        self._retry_s = time.monotonic() + (0.0 if self._targets else self._delay_s())
        self.is_open = False
        self._signer = self._verifier = None
        self._log("%s: %s" % (self.kind, reason))

    def _log(self, text: str) -> None:
        """Write a failure to stderr, the log of the batch job. An equal failure is written again
        only if a connection was open in between."""
        if text not in self._logged:
            self._logged.append(text)
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("no connection to the engine by %s\n" % text)
                sys.stderr.flush()

    # -- the next connection

    def _address(self) -> "Dict[str, Any]":
        found = json.loads(read_own(self._directory + "/launchers/address.json").decode())
        if not isinstance(found, dict):
            raise ValueError("address.json is no object")
        self.is_over = found.get("over") is True
        return found

    def _find_targets(self) -> None:
        """Begin a round: read the secret and the targets of all kinds of channel. Raises OSError or
        one of INVALID."""
        self._secret = read_own(self._directory + "/launchers/secret").strip()
        address = self._address()
        session = int(address.get("session", 0))
        if session != self._engine_session:
            self._engine_session = session
            self._failures = 0
        targets: "List[Target]" = []
        for kind in self._kinds:
            if kind == "spool":
                targets.append((kind, "", 0))
                continue
            found = [(kind, str(host), int(port)) for host, port in address.get(kind, [])]
            targets += sorted(found, key=lambda target: target[:2] != self._last_good[:2])
        self._targets = targets

    def _dial(self, now_s: float) -> None:
        """Begin a connection to the next target, and send a hello."""
        self._looked_s = now_s
        try:
            if not self._targets:
                self._find_targets()
            if not self._targets:
                raise ValueError(
                    "the engine listens on none of the channels that this launcher may use"
                )
            self._target = kind, host, port = self._targets.pop(0)
            self.kind = kind
            if kind == "spool":
                self._dials += 1
                self._connection = SpoolConnection(
                    self._directory, self._launcher, self._node, self._engine_session, self._dials
                )
            else:
                self._connection = TcpConnection(self._poller, host, port)
            self._silent_s = 0.0
            self._splitter = LineSplitter()
            self._encryption = None
            self._nonce = "%032x" % random.SystemRandom().getrandbits(128)
            hello = {
                "wfrun": PROTOCOL,
                "launcher": self._launcher,
                "node": self._node,
                "session": self._engine_session,
                "nonce": self._nonce,
                "proof": self._proof("hello"),
            }
            self._connection.unsent += json.dumps(hello).encode() + b"\n"
            self._connection.send()
        except (OSError, *INVALID) as error:
            self._drop(str(error))

    def _delay_s(self) -> float:
        """Count a failed round. Returns the delay before the next one, in seconds."""
        delay_s = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        return delay_s * random.uniform(0.5, 1.5)
