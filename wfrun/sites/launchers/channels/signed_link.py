"""The link to a launcher over one connection: does the handshake, signs and verifies lines.
``wfrun/sites/node/channels/signing.py`` describes the handshake and the signatures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from wfrun.engine.errors import WfrunError
from wfrun.sites.launchers.channels.handshake import (
    Credentials,
    EngineHandshake,
    HandshakeRefusedError,
)
from wfrun.sites.node.channels.encryption import Encryption
from wfrun.sites.node.channels.signing import (
    HANDSHAKE_S,
    LineSigner,
    LineSplitter,
    object_of,
)
from wfrun.sites.remote.incoming import IncomingConnection
from wfrun.sites.tasks import end_tasks

WRITE_BYTES = 1 << 20
"""Maximum size in bytes of one write to a launcher."""
DRAINED_BYTES = 1 << 18
"""Maximum size in bytes of the unsent data of a drained link."""
MAX_UNSENT_BYTES = 1 << 28
"""Maximum size in bytes of unsent data. A link with more unsent data is ended, since its launcher
does not read."""
MAX_LINE_BYTES = 1 << 26
"""Maximum length of a line from a launcher, in bytes. A launcher never keeps more unsent data than
this (``wfrun/sites/node/channels/channels.py``)."""
MAX_EARLY_BYTES = 1 << 24
"""Maximum total length in bytes of the lines kept for a launcher that is not expected yet."""
EXPECTED_S = 60.0
"""Time in seconds after which a launcher that has proved its identity is refused if the engine does
not expect it. A resumed engine needs the time to learn which launchers earlier engines started."""
MAX_UNANSWERED_PINGS = 4
"""Number of consecutive unanswered pings after which a link ends. It is a count and not a time,
because this machine may have been suspended."""


class LinkOwner(Protocol):
    """The callbacks by which links report to their owner."""

    def on_proved(self, link: SignedLink) -> None:
        """Called when the launcher has proved its identity and is expected."""

    def on_lines(self, link: SignedLink, lines: list[bytes]) -> None:
        """Called with verified lines of the launcher, after ``on_proved``."""

    def on_ended(self, link: SignedLink, reason: str) -> None:
        """Called once when a link has ended after ``on_proved``, except by ``close``."""

    def on_refused(self, link: SignedLink, reason: str) -> None:
        """Called when a link is refused, so that the owner logs a warning that names the other
        end."""


class SignedLink:
    """Implements ``Link`` and ``ConnectionHandler`` for one incoming connection.

    If the other end does not prove within ``limit_s`` seconds that it knows the run's secret, it is
    refused: disconnected, with a warning. ``is_expected`` takes the key of a launcher. A launcher
    that has proved its identity but is not expected waits up to EXPECTED_S for ``admit``; its lines
    are kept until then.
    """

    def __init__(
        self,
        connection: IncomingConnection,
        channel: str,
        credentials: Credentials,
        owner: LinkOwner,
        is_expected: Callable[[str], bool],
        *,
        limit_s: float = HANDSHAKE_S,
        write_bytes: int = WRITE_BYTES,
    ) -> None:
        self.channel = channel
        self.latency_s = 0.0
        self.launcher = ""
        """Key of the launcher; empty until it has proved its identity and is expected."""
        self.node_number = 0
        self.since_s = time.monotonic()
        self.address = connection.address
        self._connection = connection
        self._owner = owner
        self._is_expected = is_expected
        self._write_bytes = write_bytes
        self._splitter = LineSplitter()
        self._handshake = EngineHandshake(credentials)
        self._encryption: Encryption | None = None
        self._signer: LineSigner | None = None
        """Signs outgoing lines. This and ``_verifier`` are None until the handshake is complete."""
        self._verifier: LineSigner | None = None
        self._early_lines: list[bytes] = []
        """Lines received before the launcher was expected."""
        self._early_bytes = 0
        self._unsent = bytearray()
        self._has_unsent = asyncio.Event()
        self._is_drained = asyncio.Event()
        """Set while at most DRAINED_BYTES are unsent, and after the end of the link."""
        self._is_drained.set()
        self._ping_times_s: dict[int, float] = {}
        self._pings = 0
        self._unanswered = 0
        self._is_over = False
        self._sender = asyncio.create_task(self._send_on())
        self._limit = asyncio.get_running_loop().call_later(limit_s, self._on_timeout)

    # -- for the site

    def send(self, line: bytes) -> None:
        if self._signer is not None and not self._is_over:
            self._put(self._signer.sign(line))

    async def drained(self) -> None:
        await self._is_drained.wait()

    def close(self) -> None:
        if not self._is_over:
            self._release()
            self._connection.disconnect()

    # -- for the owner

    @property
    def claimed(self) -> str:
        """Key of the launcher that the other end claims to be; empty before its hello."""
        return self._handshake.launcher

    @property
    def is_stranger(self) -> bool:
        """Whether the other end has not shown yet that it knows the secret."""
        # One valid line shows it, or hundreds of launchers at once would look like an attack.
        return not self._handshake.has_answered

    @property
    def is_over(self) -> bool:
        """Whether the link has ended."""
        return self._is_over

    def refuse(self, reason: str) -> None:
        """Disconnect the other end; the owner logs a warning with ``reason``."""
        if not self._is_over:
            self._owner.on_refused(self, reason)
            self._fail(reason)

    def admit(self) -> None:
        """Call ``on_proved`` and pass on the kept lines if the launcher has proved its identity and
        is expected by now; else do nothing."""
        if self._is_over or self._verifier is None or self.launcher:
            return
        if not self._is_expected(self.claimed):
            return
        self.launcher = self.claimed
        self._limit.cancel()
        self._owner.on_proved(self)
        self.ping()
        self._pass_on([])

    def ping(self) -> None:
        """Send a ping, or end the link if MAX_UNANSWERED_PINGS pings are unanswered."""
        if self._signer is None:
            return
        if self._unanswered >= MAX_UNANSWERED_PINGS:
            self._fail("the launcher does not answer")
            return
        self._unanswered += 1
        self._pings += 1
        self._ping_times_s[self._pings] = time.monotonic()
        self.send(b'{"ping": %d}' % self._pings)

    async def closed(self) -> None:
        """Close the link, and return when its task has ended."""
        self.close()
        await end_tasks([self._sender])

    # -- receiving

    def received(self, data: bytes) -> None:
        if self._is_over:
            return
        lines: list[bytes] = []
        try:
            if self._encryption is not None:
                data = self._encryption.receive(data)
                self._put_raw(self._encryption.outgoing())
            self._take(self._splitter.feed(data), lines)
        except (HandshakeRefusedError, ValueError) as error:
            self._pass_on(lines)
            is_named = isinstance(error, HandshakeRefusedError) or self._verifier is not None
            self.refuse(str(error) if is_named else "its handshake is invalid")
            return
        self._pass_on(lines)

    def _take(self, received: list[bytes], lines: list[bytes]) -> None:
        """Handle received lines. Verified lines for the owner are appended to ``lines``. Raises
        HandshakeRefusedError, or ValueError for a line with an invalid signature."""
        for line in received:
            if self._verifier is not None:
                line = self._verifier.verify(line)
                self._unanswered = 0  # any line is a sign of life
                if not self._is_pong(line):
                    lines.append(line)
            elif self._handshake.has_answered:
                self._on_proof(line)
            else:
                if len(received) > 1 or self._splitter.rest_bytes:
                    raise HandshakeRefusedError(
                        "its handshake is invalid"
                    )  # it has to wait for our answer
                self._on_hello(line)

    def ended(self, reason: str) -> None:
        if not self._is_over:
            self._release()
            if self.launcher:
                self._owner.on_ended(self, reason)

    def _pass_on(self, lines: list[bytes]) -> None:
        if self._early_lines or not self.launcher:
            self._early_lines += lines
            self._early_bytes += sum(map(len, lines))
            lines = []
            if self._early_bytes > MAX_EARLY_BYTES and not self.launcher:
                self.refuse("it has sent too much before the run has asked for it")
                return
        if self.launcher and self._early_lines:
            lines, self._early_lines = self._early_lines, []
        if lines:
            self._owner.on_lines(self, lines)

    def _on_hello(self, line: bytes) -> None:
        answer = self._handshake.answer(line)
        self.node_number = self._handshake.node
        self._connection.admit()
        self._put_raw(answer + b"\n")
        self._encryption = self._handshake.encryption()

    def _on_proof(self, line: bytes) -> None:
        self._signer, self._verifier = self._handshake.complete(line)
        self._splitter.max_bytes = MAX_LINE_BYTES
        self._limit.cancel()
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(
            EXPECTED_S, self.refuse, "the run has no launcher of this name"
        )
        self.admit()

    def _is_pong(self, line: bytes) -> bool:
        """Whether a line answers a ping. If it does, update ``latency_s``."""
        if not line.startswith(b'{"pong": '):
            return False
        number = object_of(line).get("pong")
        sent_s = self._ping_times_s.get(number) if isinstance(number, int) else None
        if sent_s is not None:
            self.latency_s = time.monotonic() - sent_s
        self._ping_times_s.clear()
        return True

    # -- sending

    def _put(self, data: bytes) -> None:
        if self._encryption is not None:
            self._encryption.send(data)
            data = self._encryption.outgoing()
        self._put_raw(data)

    def _put_raw(self, data: bytes) -> None:
        if not data:
            return
        self._unsent += data
        self._has_unsent.set()
        if len(self._unsent) > DRAINED_BYTES:
            self._is_drained.clear()
        if len(self._unsent) > MAX_UNSENT_BYTES:
            self._fail("the launcher reads too slowly")

    async def _send_on(self) -> None:
        try:
            # Not for ever: asyncio.wait_for of Python 3.11 and older, with which the agent's
            # connection writes, ignores a cancellation that arrives together with the answer.
            while not self._is_over:
                await self._has_unsent.wait()
                data = bytes(self._unsent[: self._write_bytes])
                del self._unsent[: self._write_bytes]
                if not self._unsent:
                    self._has_unsent.clear()
                await self._connection.write(data)
                if len(self._unsent) <= DRAINED_BYTES:
                    self._is_drained.set()
        except WfrunError as error:
            self._fail(error.message)

    # -- the end

    def _on_timeout(self) -> None:
        self.refuse("it did not identify itself in time")

    def _fail(self, reason: str) -> None:
        if not self._is_over:
            self._connection.disconnect()
            self.ended(reason)

    def _release(self) -> None:
        self._is_over = True
        self._limit.cancel()
        self._is_drained.set()
        self._unsent.clear()
        if asyncio.current_task() is not self._sender:  # which ends by itself
            self._sender.cancel()
