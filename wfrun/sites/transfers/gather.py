"""Many small questions to a head node, asked within a moment of each other, become one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from wfrun.engine.errors import InfeasibleError

Q = TypeVar("Q")
A = TypeVar("A")

GATHER_S = 0.02
"""For others to come, before a question is asked."""
TOGETHER = 256
"""Most questions that are asked at once."""


class Gather(Generic[Q, A]):
    """Asks ``ask``, which is given some questions and returns an answer to each, in order.

    While an answer is awaited, further questions wait for their turn. What ``ask`` raises all
    of its questions raise; after an InfeasibleError each is asked by itself, so that one does
    not fail for another's fault.
    """

    def __init__(self, ask: Callable[[list[Q]], Awaitable[Sequence[A]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._asker: asyncio.Task[None] | None = None

    async def __call__(self, question: Q) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._asker is None or self._asker.done():
            self._asker = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        await asyncio.sleep(GATHER_S)
        while self._waiting:
            some, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            if left := [pair for pair in some if not pair[1].done()]:
                await self._answer(left)

    async def _answer(self, some: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._ask([question for question, _ in some])
        except Exception as error:
            if isinstance(error, InfeasibleError) and len(some) > 1:
                for pair in some:
                    await self._answer([pair])
                return
            for _, answer in some:
                if not answer.done():
                    answer.set_exception(error)
        else:
            for (_, answer), found in zip(some, answers, strict=True):
                if not answer.done():
                    answer.set_result(found)
