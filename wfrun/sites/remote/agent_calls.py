"""Callers and spool files, as the agent tells of them; see ``agent.py``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from wfrun.engine.errors import WfrunError
from wfrun.sites.remote.callers import Answer, Answerer, receive

_LOGGER = logging.getLogger(__name__)
PASS_S = 120.0
"""For a caller that reads nothing; then it counts as gone."""


class Ask(Protocol):
    """How the agent is asked."""

    async def __call__(
        self, verb: str, content: bytes = b"", patience_s: float = 60.0, **request: Any
    ) -> tuple[dict[str, Any], bytes]: ...


class _Caller:
    """Implements ``Caller``."""

    def __init__(self, calls: Calls, number: int, address: str) -> None:
        self.address = address
        self._calls = calls
        self._number = number

    async def write(self, data: bytes) -> None:
        await self._calls.ask("pass", data, PASS_S, caller=self._number)

    def hang_up(self) -> None:
        self._calls.hang_up(self._number)


class _Listener:
    """Implements ``Listener``."""

    def __init__(self, calls: Calls, number: int, port: int) -> None:
        self.port = port
        self._calls = calls
        self._number = number

    async def close(self) -> None:
        await self._calls.unlisten(self._number)


class Calls:
    """Of one agent."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self._answers: dict[int, Answer] = {}
        """By the number of the question that began it."""
        self._files: dict[int, Callable[[str, bytes], None]] = {}
        self._answerers: dict[int, Answerer] = {}
        """By the number of the caller."""
        self._farewells: set[asyncio.Task[None]] = set()
        self._ended = False

    async def listen(self, number: int, address: str | None, answer: Answer) -> _Listener:
        """``number`` is that of the question that this asks."""
        self._answers[number] = answer
        header, _ = await self.ask("listen", address=address)
        return _Listener(self, number, int(header["port"]))

    async def spool(
        self, number: int, directory: str, session: int, told: Callable[[str, bytes], None]
    ) -> _Listener:
        self._files[number] = told
        await self.ask("spool", path=directory, session=session)
        return _Listener(self, number, 0)

    async def unlisten(self, number: int) -> None:
        self._answers.pop(number, None)
        self._files.pop(number, None)
        if not self._ended:
            with contextlib.suppress(WfrunError):  # Then it has ended.
                await self.ask("unlisten", of=number)

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """A frame about a caller."""
        number = int(header["caller"])
        if "of" in header:
            answer = self._answers.get(header["of"])
            if answer is None:
                self.hang_up(number)
                return
            try:
                self._answerers[number] = answer(_Caller(self, number, str(header["address"])))
            except Exception:  # Is no fault of the agent's.
                _LOGGER.exception("a caller could not be answered")
                self.hang_up(number)
        elif "ended" in header:
            answerer = self._answerers.pop(number, None)
            if answerer is not None:
                _tell_end(answerer, str(header["ended"]))
        elif number in self._answerers:
            receive(self._answerers[number], payload)

    def take_files(self, header: dict[str, Any], contents: Sequence[bytes | None]) -> None:
        """A frame with spool files."""
        told = self._files.get(header["told"])
        for name, content in zip(header["names"], contents, strict=True):
            if told is not None:
                try:
                    told(name, content or b"")
                except Exception:  # Is no fault of the agent's.
                    _LOGGER.exception("a spool file could not be taken")

    def hang_up(self, number: int) -> None:
        self._answerers.pop(number, None)
        if not self._ended:
            task = asyncio.create_task(self._farewell(number))
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)

    async def _farewell(self, number: int) -> None:
        with contextlib.suppress(WfrunError):  # Then it has ended with the agent.
            await self.ask("hang_up", caller=number)

    def end(self, reason: str) -> None:
        """The agent has ended, and with it all calls."""
        if self._ended:
            return
        self._ended = True
        answerers, self._answerers = self._answerers, {}
        for answerer in answerers.values():
            _tell_end(answerer, reason)


def _tell_end(answerer: Answerer, reason: str) -> None:
    try:
        answerer.ended(reason)
    except Exception:
        _LOGGER.exception("the end of a call could not be taken")
