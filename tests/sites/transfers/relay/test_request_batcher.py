"""Concurrent requests share a message, and each fails for its own fault alone."""

from __future__ import annotations

import asyncio

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.transfers.endpoints.request_batcher import (
    BATCH_BYTES,
    MAX_BATCH,
    RequestBatcher,
)


class Oracle:
    """Doubles numbers. Negative ones are impossible; zero loses the connection."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        """Number of requests in each batch."""

    async def __call__(self, numbers: list[int]) -> list[int]:
        self.asked.append(len(numbers))
        await asyncio.sleep(0)
        if min(numbers) < 0:
            raise InfeasibleError(f"{min(numbers)} is negative")
        if 0 in numbers:
            raise TransientError("the connection was lost")
        return [2 * number for number in numbers]


async def test_each_request_gets_its_own_answer() -> None:
    oracle = Oracle()
    double = RequestBatcher(oracle)
    numbers = range(1, 2 * MAX_BATCH + 11)
    assert await asyncio.gather(*map(double, numbers)) == [2 * n for n in numbers]
    assert oracle.asked == [MAX_BATCH, MAX_BATCH, 10]
    assert await double(5) == 10


async def test_an_infeasible_request_fails_alone() -> None:
    answers = await asyncio.gather(
        *map(RequestBatcher(Oracle()), (1, -2, 3)), return_exceptions=True
    )
    assert answers[0] == 2
    assert isinstance(answers[1], InfeasibleError)
    assert answers[2] == 6


async def test_a_lost_connection_fails_the_whole_batch_at_once() -> None:
    oracle = Oracle()
    double = RequestBatcher(oracle)
    answers = await asyncio.gather(*map(double, (1, 0, 3)), return_exceptions=True)
    assert all(isinstance(answer, TransientError) for answer in answers)
    assert oracle.asked == [3]
    with pytest.raises(WfrunError):
        await double(0)
    assert await double(4) == 8


async def test_a_cancelled_request_is_not_sent() -> None:
    oracle = Oracle()
    double = RequestBatcher(oracle)
    first, second = asyncio.create_task(double(-1)), asyncio.create_task(double(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 4
    assert oracle.asked == [1]


class Gate:
    """Answers when it is opened."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.opened = asyncio.Event()

    async def __call__(self, numbers: list[int]) -> list[int]:
        self.asked.append(numbers)
        await self.opened.wait()
        return numbers


async def test_a_batch_ends_with_the_request_that_fills_it() -> None:
    oracle = Oracle()
    double = RequestBatcher(oracle, size_of=lambda number: number)
    half, quarter = BATCH_BYTES // 2, BATCH_BYTES // 4
    numbers = [2 * BATCH_BYTES, half, quarter, half, quarter]
    assert await asyncio.gather(*map(double, numbers)) == [2 * number for number in numbers]
    assert oracle.asked == [1, 3, 1]


async def test_only_full_batches_are_under_way_at_the_same_time() -> None:
    """Otherwise requests that come one by one would share nothing."""
    gate = Gate()
    ask = RequestBatcher(gate, size_of=lambda number: number, parallel=2)
    full = [asyncio.create_task(ask(BATCH_BYTES)) for _ in range(3)]
    small = asyncio.create_task(ask(1))
    while len(gate.asked) < 2:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert gate.asked == [[BATCH_BYTES]] * 2
    gate.opened.set()
    await asyncio.gather(*full, small)
    assert gate.asked == [[BATCH_BYTES]] * 3 + [[1]]

    gate.opened.clear()
    first = asyncio.create_task(ask(1))
    while len(gate.asked) < 5:
        await asyncio.sleep(0.001)
    second = asyncio.create_task(ask(2))
    for _ in range(20):
        await asyncio.sleep(0)
    assert gate.asked[4:] == [[1]]
    gate.opened.set()
    assert [await first, await second] == [1, 2]
