"""Concurrent requests share a message, and each fails for its own fault alone."""

from __future__ import annotations

import asyncio

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.transfers.request_batcher import MAX_BATCH, RequestBatcher


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
