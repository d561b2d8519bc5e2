"""One connection of a launcher: proves its identity and verifies its lines.
``wfrun/sites/node/signing.py`` describes what both ends send."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol

from wfrun.engine.errors import WfrunError
from wfrun.sites.node.signing import (
    HANDSHAKE_BYTES,
    HANDSHAKE_S,
    PROTOCOL,
    LineSigner,
    LineSplitter,
    is_equal,
    object_of,
    proof_of,
)
from wfrun.sites.remote.incoming import IncomingConnection
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)
WRITE_BYTES = 1 << 20
"""Maximum size of one write to a launcher."""
DRAINED_BYTES = 1 << 18
"""Maximum size of unsent data at which a link counts as drained."""
MAX_UNSENT_BYTES = 1 << 28
"""A link with more unsent data than this ends: its launcher does not read."""
EXPECTED_S = 60.0
"""Time for a launcher that was started by an earlier engine until this one has read of it."""
MAX_UNANSWERED_PINGS = 4
"""Consecutive pings without an answer after which a link ends. A count and not a time, because this
machine may have been suspended."""


class RefusedError(Exception):
    """The other end is no launcher of this run."""


class LinkOwner(Protocol):
    """The owner of links: called by them."""

    def on_proved(self, link: SignedLink) -> None:
        """Called when the launcher has proved its identity and is expected."""

    def on_lines(self, link: SignedLink, lines: list[bytes]) -> None:
        """Called with lines of a launcher that has proved its identity."""

    def on_ended(self, link: SignedLink, reason: str) -> None:
        """Called once when a proved link has ended; not after ``close``."""


class SignedLink:
    """Implements ``Link`` and ``ConnectionHandler`` for one incoming connection.

    The other end has to prove within ``limit_s`` that it knows the run's secret, or is
    disconnected, with a warning in the log. A launcher that has proved its identity and that
    ``is_expected`` does not know waits up to EXPECTED_S for ``admit``; what it sends in the
    meantime is kept.
    """

    def __init__(
        self,
        connection: IncomingConnection,
        channel: str,
        secret: bytes,
        owner: LinkOwner,
        is_expected: Callable[[str], bool],
        *,
        where: str = "",
        limit_s: float = HANDSHAKE_S,
        write_bytes: int = WRITE_BYTES,
    ) -> None:
        self.channel = channel
        self.latency_s = 0.0
        self.launcher = ""
        """Key of the launcher; empty until it has proved its identity and is expected."""
        self.node_number = 0
        self.since_s = time.monotonic()
        self._connection = connection
        self._secret = secret
        self._owner = owner
        self._is_expected = is_expected
        self._where = where
        self._write_bytes = write_bytes
        self._splitter = LineSplitter()
        self._claimed = ""
        """Key of the launcher that the other end claims to be."""
        self._nonces = ("", "")
        self._signer: LineSigner | None = None
        """Signs what we send; None until the handshake is complete, as ``_verifier``."""
        self._verifier: LineSigner | None = None
        self._early_lines: list[bytes] = []
        """Lines received before the launcher was expected."""
        self._unsent = bytearray()
        self._has_unsent = asyncio.Event()
        self._is_drained = asyncio.Event()
        """Little is left to send, or the link has ended."""
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
    def is_stranger(self) -> bool:
        """Whether the other end has neither proved that it knows the secret nor claims to be a
        launcher that is expected."""
        # Claims count, or hundreds of launchers that connect at once would look like an attack.
        return self._verifier is None and not self._is_expected(self._claimed)

    @property
    def is_over(self) -> bool:
        """Whether the link has ended."""
        return self._is_over

    def refuse(self, reason: str) -> None:
        """Hang up, with a warning in the log."""
        name = f", as launcher {self._claimed[:80]!r}," if self._claimed else ""
        _LOGGER.warning(
            "%sa connection by %s from %s%s was refused: %s",
            f"{self._where}: " if self._where else "",
            self.channel,
            self._connection.address,
            name,
            reason,
        )
        self._fail(reason)

    def admit(self) -> None:
        """Let a launcher that has proved its identity in if it is expected by now."""
        if self._is_over or self._verifier is None or self.launcher:
            return
        if not self._is_expected(self._claimed):
            return
        self.launcher = self._claimed
        self._limit.cancel()
        self._owner.on_proved(self)
        self.ping()
        self._pass_on([])

    def ping(self) -> None:
        """Send a ping; end the link if several pings have gone unanswered."""
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
        lines = []
        try:
            for line in self._splitter.feed(data):
                if self._verifier is not None:
                    line = self._verifier.verify(line)
                    self._unanswered = 0  # any line is a sign of life
                    if not self._is_pong(line):
                        lines.append(line)
                elif self._claimed:
                    self._on_proof(line)
                else:
                    self._on_hello(line)
            if self._verifier is None and self._splitter.rest_bytes > HANDSHAKE_BYTES:
                raise RefusedError("its handshake is invalid")
        except (RefusedError, ValueError) as error:
            self._pass_on(lines)
            self.refuse(str(error))
            return
        self._pass_on(lines)

    def ended(self, reason: str) -> None:
        if not self._is_over:
            self._release()
            if self.launcher:
                self._owner.on_ended(self, reason)

    def _pass_on(self, lines: list[bytes]) -> None:
        if self._early_lines or not self.launcher:
            self._early_lines += lines
            lines = []
        if self.launcher and self._early_lines:
            lines, self._early_lines = self._early_lines, []
        if lines:
            self._owner.on_lines(self, lines)

    def _on_hello(self, line: bytes) -> None:
        try:
            said = object_of(line)
        except ValueError as error:
            raise RefusedError("its handshake is invalid") from error
        launcher, node, nonce = said.get("launcher"), said.get("node"), said.get("nonce")
        if said.get("wfrun") != PROTOCOL or not (
            isinstance(launcher, str)
            and launcher
            and isinstance(node, int)
            and isinstance(nonce, str)
        ):
            raise RefusedError("its handshake is invalid")
        self._claimed, self.node_number = launcher, node
        self._nonces = (nonce, secrets.token_hex(16))
        self._put_object({"nonce": self._nonces[1], "proof": self._proof("engine")})

    def _on_proof(self, line: bytes) -> None:
        if not is_equal(object_of(line).get("proof"), self._proof("launcher")):
            raise RefusedError("it does not know the secret of this run")
        self._signer = LineSigner(self._proof("to-launcher"))
        self._verifier = LineSigner(self._proof("to-engine"))
        self._limit.cancel()
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(
            EXPECTED_S, self.refuse, "the run has no launcher of this name"
        )
        self.admit()

    def _proof(self, who: str) -> str:
        return proof_of(self._secret, who, self._claimed, self.node_number, *self._nonces)

    def _is_pong(self, line: bytes) -> bool:
        """Whether a line answers a ping; if so, the round trip is measured."""
        if not line.startswith(b'{"pong": '):
            return False
        number = json.loads(line)["pong"]
        sent_s = self._ping_times_s.get(number)
        if sent_s is not None:
            self.latency_s = time.monotonic() - sent_s
        self._ping_times_s.clear()
        return True

    # -- sending

    def _put_object(self, said: dict[str, Any]) -> None:
        self._put(json.dumps(said).encode() + b"\n")

    def _put(self, data: bytes) -> None:
        self._unsent += data
        self._has_unsent.set()
        if len(self._unsent) > DRAINED_BYTES:
            self._is_drained.clear()
        if len(self._unsent) > MAX_UNSENT_BYTES:
            self._fail("the launcher reads too slowly")

    async def _send_on(self) -> None:
        try:
            while True:
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
