"""Concurrent requests to a head node share messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from wfrun.engine.errors import InfeasibleError

Q = TypeVar("Q")
A = TypeVar("A")

BATCH_DELAY_S = 0.02
"""Delay of the first request of a batch, within which others join it."""
MAX_BATCH = 256
"""Maximum number of requests in one message."""


class RequestBatcher(Generic[Q, A]):
    """Passes concurrent requests to ``send`` together.

    ``send`` takes a list of requests and returns their answers in the same order. One batch is
    under way at a time; requests that come meanwhile form the next one. If ``send`` raises, all
    requests of the batch raise the same error, except that after an InfeasibleError each is sent
    alone, so that one bad request does not fail the others.
    """

    def __init__(
        self,
        send: Callable[[list[Q]], Awaitable[Sequence[A]]],
        *,
        delay_s: float = BATCH_DELAY_S,
    ) -> None:
        self._send = send
        self._delay_s = delay_s
        self._pending: list[tuple[Q, asyncio.Future[A]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def __call__(self, request: Q) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._pending.append((request, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        await asyncio.sleep(self._delay_s)
        while self._pending:
            batch, self._pending = self._pending[:MAX_BATCH], self._pending[MAX_BATCH:]
            # The caller of a request that is done already was cancelled.
            if remaining := [pair for pair in batch if not pair[1].done()]:
                await self._answer(remaining)

    async def _answer(self, batch: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._send([request for request, _ in batch])
        except Exception as error:
            if isinstance(error, InfeasibleError) and len(batch) > 1:
                for pair in batch:
                    await self._answer([pair])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
