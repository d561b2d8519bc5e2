"""Concurrent requests to a head node share messages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from wfrun.engine.errors import InfeasibleError

Q = TypeVar("Q")
A = TypeVar("A")

BATCH_DELAY_S = 0.02
"""Delay of the first request of a batch, during which other requests join the batch."""
MAX_BATCH = 256
"""Maximum number of requests in one message."""
BATCH_BYTES = 1 << 20
"""Size in bytes from which a message takes no further requests. Other messages, such as submissions
of tasks, wait until it has been sent."""
PARALLEL_FILES = 2
"""Maximum number of messages with files under way: one is stored while the next one travels."""


class RequestBatcher(Generic[Q, A]):
    """Passes concurrent requests to ``send`` together.

    ``send`` takes a list of requests and returns their answers in the same order. A batch is full
    with MAX_BATCH requests, or when the total of their ``size_of`` is BATCH_BYTES. Requests that
    arrive while a batch is under way form the next batch. A batch is sent when no other is under
    way; a full batch is sent when fewer than ``parallel`` are under way. If ``send`` raises
    InfeasibleError, each request of the batch is sent alone, so that one bad request does not fail
    the others. Any other error is raised by all requests of the batch.
    """

    def __init__(
        self,
        send: Callable[[list[Q]], Awaitable[Sequence[A]]],
        *,
        delay_s: float = BATCH_DELAY_S,
        size_of: Callable[[Q], int] = lambda _: 0,
        parallel: int = 1,
    ) -> None:
        self._send = send
        self._delay_s = delay_s
        self._size_of = size_of
        self._parallel = parallel
        self._pending: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._pending_bytes = 0
        self._delay: asyncio.TimerHandle | None = None
        """Timer from the first request of a batch on; None while a batch is under way."""
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, request: Q) -> A:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        self._pending.append((request, answer))
        self._pending_bytes += self._size_of(request)
        if self._is_full():
            self._start()
        elif self._delay is None and not self._under_way:
            self._delay = loop.call_later(self._delay_s, self._start)
        return await answer

    def _is_full(self) -> bool:
        return len(self._pending) >= MAX_BATCH or self._pending_bytes >= BATCH_BYTES

    def _start(self) -> None:
        """Send as many batches as may be under way."""
        while self._pending and len(self._under_way) < (self._parallel if self._is_full() else 1):
            # The caller of a request that is done already was cancelled.
            if batch := [pair for pair in self._take() if not pair[1].done()]:
                task = asyncio.create_task(self._answer(batch))
                self._under_way.add(task)
                task.add_done_callback(self._ended)
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None

    def _take(self) -> list[tuple[Q, asyncio.Future[A]]]:
        """Remove the next batch."""
        batch: list[tuple[Q, asyncio.Future[A]]] = []
        size_bytes = 0
        while self._pending and len(batch) < MAX_BATCH and size_bytes < BATCH_BYTES:
            batch.append(self._pending.popleft())
            size_bytes += self._size_of(batch[-1][0])
        self._pending_bytes -= size_bytes
        return batch

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._start()

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
