"""The engine's connection to one node of a launcher: orders, questions and answers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import AttemptRequest, Found
from wfrun.sites.launchers.channels.limited_log import LimitedWarnings
from wfrun.sites.launchers.channels.link import Link
from wfrun.sites.launchers.channels.messages import (
    MESSAGE_KEYS,
    QUESTION_KEYS,
    LauncherReport,
    decode,
)
from wfrun.sites.launchers.launcher_nodes import LauncherNode

ANSWER_S = 120.0
"""Timeout in seconds of a launcher's answer to a question. To answer, it may have to read a long
journal from a slow disk."""


class LauncherConnection:
    """Sends messages over the link of one node of a launcher, and matches answers to questions."""

    def __init__(self, launcher: str, link: Link, log: LimitedWarnings) -> None:
        self.launcher = launcher
        self.link = link
        self._log = log
        self.node: LauncherNode | None = None
        """The node at the other end; None until the engine has accepted the node's hello."""
        self._answered_s = 0.0
        self._requests: list[AttemptRequest] = []
        self._questions: dict[int, asyncio.Future[dict[str, Found]]] = {}
        self._numbers = itertools.count(1)

    def on_hello(self, node: LauncherNode, report: LauncherReport, now_s: float) -> None:
        """Set the node's capacity, and the end of its launcher's walltime, from its hello."""
        self.node = node
        node.host, node.cores = report.host, report.slots
        node.memory_bytes, node.gpus = report.memory_bytes, report.gpus
        node.ends_s = None if report.left_s is None else now_s + report.left_s

    def reports(self, lines: Sequence[bytes]) -> Iterator[LauncherReport]:
        """Decode lines into messages. Invalid lines are skipped, each with a warning."""
        for line in lines:
            try:
                yield decode(line)
            except ValueError as error:
                self.warn(f"{error}: {line[:200]!r}")

    def warn(self, text: str) -> None:
        """Log a warning about the launcher."""
        self._log.warn(f"launcher {self.launcher}: {text}")

    def run(self, request: AttemptRequest) -> None:
        """Send an attempt to run. Attempts passed in one turn of the event loop are sent together,
        up to MESSAGE_KEYS in a message."""
        if not self._requests:
            asyncio.get_running_loop().call_soon(self._flush)
        self._requests.append(request)

    def _flush(self) -> None:
        requests, self._requests = self._requests, []
        for start in range(0, len(requests), MESSAGE_KEYS):
            self.link.send(msgspec.json.encode({"run": requests[start : start + MESSAGE_KEYS]}))

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Attempts of earlier calls of ``run`` are sent first, since a cancellation
        must not overtake the attempt that it cancels."""
        self._flush()
        self.link.send(msgspec.json.encode(message))

    def send_keys(self, what: str, keys: Sequence[str], **more: Any) -> None:
        """Send ``{what: keys, **more}``, split into messages of at most MESSAGE_KEYS keys."""
        for start in range(0, len(keys), MESSAGE_KEYS):
            self.send({what: keys[start : start + MESSAGE_KEYS], **more})

    @property
    def latency_s(self) -> float:
        """Round-trip time of the link's last ping; before the first answered ping, that of the
        first answered question; 0: unknown."""
        return self.link.latency_s or self._answered_s

    async def ask(self, keys: Sequence[str]) -> dict[str, Found]:
        """Ask the launcher for the states of attempts, by key. Without keys an empty question is
        sent, which measures the round-trip time. Raises TransientError if the link ends before the
        answer, or after ANSWER_S.
        """
        answers: dict[str, Found] = {}
        asked_s = time.monotonic()
        for start in range(0, len(keys) or 1, QUESTION_KEYS):
            number = next(self._numbers)
            answer: asyncio.Future[dict[str, Found]] = asyncio.get_running_loop().create_future()
            self._questions[number] = answer
            asked = keys[start : start + QUESTION_KEYS]
            self.send({"find": asked, "id": number})
            try:
                found = await asyncio.wait_for(answer, ANSWER_S)
            except asyncio.TimeoutError:
                self._questions.pop(number, None)
                raise TransientError(f"launcher {self.launcher}: no answer") from None
            answers.update((key, found[key]) for key in asked if key in found)
            self._answered_s = self._answered_s or time.monotonic() - asked_s
        return answers

    def on_answer(self, number: int, found: dict[str, Found]) -> None:
        """Pass the answer to question ``number`` to the caller of ``ask`` that waits for it."""
        future = self._questions.pop(number, None)
        if future is not None and not future.done():
            future.set_result(found)

    def end(self) -> None:
        """Called when the link has ended: drop unsent attempts, and raise TransientError in all
        callers that wait for an answer."""
        self._requests.clear()
        for future in self._questions.values():
            if not future.done():
                future.set_exception(TransientError(f"launcher {self.launcher}: no connection"))
                future.exception()  # else asyncio logs it where the question was given up
        self._questions.clear()
