"""What launchers and the engine say to each other, as JSON lines, on every channel alike."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import AttemptRequest, Found, Outcome
from wfrun.sites.launchers.assigner import LauncherNode
from wfrun.sites.launchers.link import Link

PROTOCOL = 1
"""Of launchers; those that an older wfrun has started may speak another."""
CHUNK = 100
"""Attempts or keys in a message, so that neither side works on one for long."""
ASKED = 5000
"""Keys in a question: for each question a launcher may read all of its journal."""


class Report(msgspec.Struct):
    """Any message of a launcher.

    {"hello": 1, "launcher": key, "pid", "host", "slots", "memory_bytes", "gpus", "left_s": seconds
        or null, "node": i, "nodes": n}      first of all on each new connection
    {"started": [key ...], "ended": [[key, outcome] ...]}
    {"returned": [key ...]}                  not started and not going to be
    {"contested": [key ...]}                 somebody else has their claims
    {"found": {key: {"state", "outcome"}}, "id": n}
    {"ending": reason}                       it takes no more
    {"failing": text} {"recovered": true} {"error": text}
    """

    hello: int | None = None
    host: str = ""
    slots: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    left_s: float | None = None
    nodes: int = 1
    started: tuple[str, ...] = ()
    ended: tuple[tuple[str, Outcome], ...] = ()
    returned: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    found: dict[str, Found] | None = None
    id: int = 0
    ending: str | None = None
    failing: str | None = None
    recovered: bool = False
    error: str | None = None


decode = msgspec.json.Decoder(Report).decode


class LauncherConnection:
    """A node of a launcher at the other end of a link."""

    def __init__(self, launcher: str, link: Link) -> None:
        self.launcher = launcher
        self.link = link
        self.node: LauncherNode | None = None
        """Known since it said hello."""
        self._answered_s = 0.0
        self._requests: list[AttemptRequest] = []
        self._questions: dict[int, asyncio.Future[dict[str, Found]]] = {}
        self._numbers = itertools.count(1)

    def run(self, request: AttemptRequest) -> None:
        """Have it run an attempt; it goes out together with others of this moment."""
        if not self._requests:
            asyncio.get_running_loop().call_soon(self._flush)
        self._requests.append(request)

    def _flush(self) -> None:
        requests, self._requests = self._requests, []
        for start in range(0, len(requests), CHUNK):
            self.link.send(msgspec.json.encode({"run": requests[start : start + CHUNK]}))

    def say(self, message: dict[str, Any]) -> None:
        """Send it, after what was said before."""
        self._flush()
        self.link.send(msgspec.json.encode(message))

    def say_of(self, what: str, keys: Sequence[str], **more: Any) -> None:
        """A message that lists attempts."""
        for start in range(0, len(keys), CHUNK):
            self.say({what: keys[start : start + CHUNK], **more})

    @property
    def latency_s(self) -> float:
        """There and back, as far as it is known."""
        return self.link.latency_s or self._answered_s

    async def ask(self, keys: Sequence[str]) -> dict[str, Found]:
        """What it knows of these. Raises TransientError when the link ends over it."""
        answers: dict[str, Found] = {}
        asked_s = time.monotonic()
        for start in range(0, len(keys) or 1, ASKED):
            number = next(self._numbers)
            answer: asyncio.Future[dict[str, Found]] = asyncio.get_running_loop().create_future()
            self._questions[number] = answer
            self.say({"find": keys[start : start + ASKED], "id": number})
            answers.update(await answer)
            self._answered_s = self._answered_s or time.monotonic() - asked_s
        return answers

    def answer(self, number: int, found: dict[str, Found]) -> None:
        future = self._questions.pop(number, None)
        if future is not None and not future.done():
            future.set_result(found)

    def end(self) -> None:
        """The link is of no more use."""
        self._requests.clear()
        for future in self._questions.values():
            if not future.done():
                future.set_exception(TransientError(f"launcher {self.launcher}: no connection"))
                future.exception()  # perhaps nobody waits any more
        self._questions.clear()
