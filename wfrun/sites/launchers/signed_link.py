"""One connection of a launcher: who it is, and its lines. What both ends say is described in
``wfrun/sites/node/channels.py``."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol

from wfrun.engine.errors import WfrunError
from wfrun.sites.node.channels import (
    HANDSHAKE_BYTES,
    HANDSHAKE_S,
    PROTOCOL,
    Seal,
    Splitter,
    is_equal,
    object_of,
    proof_of,
)
from wfrun.sites.remote.callers import Caller
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)
WRITE_BYTES = 1 << 20
"""On the way to a launcher at once."""
LITTLE_BYTES = 1 << 18
"""Less than so much to be sent is little."""
UNSENT_BYTES = 1 << 28
"""A launcher that has so much to read has not read for long."""
EXPECTED_S = 60.0
"""For a launcher that was there before its engine: until that has read of it."""
SILENT_PINGS = 4
"""In a row without an answer; counted, and not timed, since we may have been asleep."""


class RefusedError(Exception):
    """Whoever called is no launcher of this run."""


class LinkOwner(Protocol):
    """Who has the links."""

    def proved(self, link: SignedLink) -> None:
        """It has proved which launcher it is."""

    def said(self, link: SignedLink, lines: list[bytes]) -> None:
        """Lines of a launcher that has proved itself."""

    def ended(self, link: SignedLink, reason: str) -> None:
        """It has ended by itself. Told once, not after ``close``."""


class SignedLink:
    """Implements ``Link`` and ``Answerer``: a caller, who has to prove in ``limit_s`` that it is a
    launcher of this run, or is hung up on, with a warning in the log. One that has, and that
    ``is_expected`` does not know, waits a while to be expected."""

    def __init__(
        self,
        caller: Caller,
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
        """Empty until it is proved."""
        self.node_number = 0
        self.since_s = time.monotonic()
        self._caller = caller
        self._secret = secret
        self._owner = owner
        self._is_expected = is_expected
        self._where = where
        self._write_bytes = write_bytes
        self._splitter = Splitter()
        self._claimed = ""
        """Which launcher it says it is."""
        self._nonces = ("", "")
        self._seal: Seal | None = None
        self._check: Seal | None = None
        self._early: list[bytes] = []
        """What it said before it was expected."""
        self._unsent = bytearray()
        self._stirred = asyncio.Event()
        """There is something to send."""
        self._settled = asyncio.Event()
        """There is little to send, or nobody to send it to."""
        self._settled.set()
        self._pinged: dict[int, float] = {}
        self._pings = 0
        self._unanswered = 0
        self._is_over = False
        self._sender = asyncio.create_task(self._send_on())
        self._limit = asyncio.get_running_loop().call_later(limit_s, self._is_late)

    # -- for the site

    def send(self, line: bytes) -> None:
        if self._seal is not None and not self._is_over:
            self._put(self._seal.sealed(line))

    async def drained(self) -> None:
        await self._settled.wait()

    def close(self) -> None:
        if not self._is_over:
            self._let_go()
            self._caller.hang_up()

    # -- for the owner

    @property
    def is_stranger(self) -> bool:
        """Whether it has not even said that it is a launcher which is expected. Hundreds of those
        may come at once."""
        return self._check is None and not self._is_expected(self._claimed)

    @property
    def is_over(self) -> bool:
        return self._is_over

    def refuse(self, reason: str) -> None:
        """Hang up, and say why in the log."""
        name = f", as launcher {self._claimed[:80]!r}," if self._claimed else ""
        _LOGGER.warning(
            "%sa connection by %s from %s%s was refused: %s",
            f"{self._where}: " if self._where else "",
            self.channel,
            self._caller.address,
            name,
            reason,
        )
        self._fail(reason)

    def admit(self) -> None:
        """It may be expected now."""
        if self._is_over or self._check is None or self.launcher:
            return
        if not self._is_expected(self._claimed):
            return
        self.launcher = self._claimed
        self._limit.cancel()
        self._owner.proved(self)
        self.ping()
        self._pass_on([])

    def ping(self) -> None:
        """Ask for a sign of life; a link that has given none for several times ends."""
        if self._seal is None:
            return
        if self._unanswered >= SILENT_PINGS:
            self._fail("the launcher does not answer")
            return
        self._unanswered += 1
        self._pings += 1
        self._pinged[self._pings] = time.monotonic()
        self.send(b'{"ping": %d}' % self._pings)

    async def closed(self) -> None:
        """Close it, and return when nothing of it runs any more."""
        self.close()
        await end_tasks([self._sender])

    # -- what the caller says

    def received(self, data: bytes) -> None:
        if self._is_over:
            return
        lines = []
        try:
            for line in self._splitter.feed(data):
                if self._check is not None:
                    line = self._check.opened(line)
                    self._unanswered = 0  # As good as an answer.
                    if not self._is_pong(line):
                        lines.append(line)
                elif self._claimed:
                    self._take_proof(line)
                else:
                    self._take_name(line)
            if self._check is None and self._splitter.rest_bytes > HANDSHAKE_BYTES:
                raise RefusedError("what it says is no handshake")
        except (RefusedError, ValueError) as error:
            self._pass_on(lines)
            self.refuse(str(error))
            return
        self._pass_on(lines)

    def ended(self, reason: str) -> None:
        if not self._is_over:
            self._let_go()
            if self.launcher:
                self._owner.ended(self, reason)

    def _pass_on(self, lines: list[bytes]) -> None:
        if self._early or not self.launcher:
            self._early += lines
            lines = []
        if self.launcher and self._early:
            lines, self._early = self._early, []
        if lines:
            self._owner.said(self, lines)

    def _take_name(self, line: bytes) -> None:
        try:
            said = object_of(line)
        except ValueError as error:
            raise RefusedError("what it says is no handshake") from error
        launcher, node, nonce = said.get("launcher"), said.get("node"), said.get("nonce")
        if said.get("wfrun") != PROTOCOL or not (
            isinstance(launcher, str)
            and launcher
            and isinstance(node, int)
            and isinstance(nonce, str)
        ):
            raise RefusedError("what it says is no handshake")
        self._claimed, self.node_number = launcher, node
        self._nonces = (nonce, secrets.token_hex(16))
        self._put_object({"nonce": self._nonces[1], "proof": self._proof("engine")})

    def _take_proof(self, line: bytes) -> None:
        if not is_equal(object_of(line).get("proof"), self._proof("launcher")):
            raise RefusedError("it does not know the secret of this run")
        self._seal = Seal(self._proof("to-launcher"))
        self._check = Seal(self._proof("to-engine"))
        self._limit.cancel()
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(EXPECTED_S, self.refuse, "nobody expects it")
        self.admit()

    def _proof(self, who: str) -> str:
        return proof_of(self._secret, who, self._claimed, self.node_number, *self._nonces)

    def _is_pong(self, line: bytes) -> bool:
        if not line.startswith(b'{"pong": '):
            return False
        number = json.loads(line)["pong"]
        asked_s = self._pinged.get(number)
        if asked_s is not None:
            self.latency_s = time.monotonic() - asked_s
        self._pinged.clear()
        return True

    # -- what it is told

    def _put_object(self, said: dict[str, Any]) -> None:
        self._put(json.dumps(said).encode() + b"\n")

    def _put(self, data: bytes) -> None:
        self._unsent += data
        self._stirred.set()
        if len(self._unsent) > LITTLE_BYTES:
            self._settled.clear()
        if len(self._unsent) > UNSENT_BYTES:
            self._fail("the launcher reads too slowly")

    async def _send_on(self) -> None:
        try:
            while True:
                await self._stirred.wait()
                data = bytes(self._unsent[: self._write_bytes])
                del self._unsent[: self._write_bytes]
                if not self._unsent:
                    self._stirred.clear()
                await self._caller.write(data)
                if len(self._unsent) <= LITTLE_BYTES:
                    self._settled.set()
        except WfrunError as error:
            self._fail(error.message)

    # -- its end

    def _is_late(self) -> None:
        self.refuse("it has not said in time who it is")

    def _fail(self, reason: str) -> None:
        if not self._is_over:
            self._caller.hang_up()
            self.ended(reason)

    def _let_go(self) -> None:
        self._is_over = True
        self._limit.cancel()
        self._settled.set()
        self._unsent.clear()
        if asyncio.current_task() is not self._sender:
            self._sender.cancel()
