"""Questions that come together are asked together, and fail for their own faults."""

from __future__ import annotations

import asyncio

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.transfers.gather import TOGETHER, Gather


class Oracle:
    """Doubles numbers. Negative ones are impossible; zero loses the connection."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        """How many questions came at once."""

    async def __call__(self, numbers: list[int]) -> list[int]:
        self.asked.append(len(numbers))
        await asyncio.sleep(0)
        if min(numbers) < 0:
            raise InfeasibleError(f"{min(numbers)} is negative")
        if 0 in numbers:
            raise TransientError("the connection was lost")
        return [2 * number for number in numbers]


async def test_each_gets_the_answer_to_its_own_question() -> None:
    oracle = Oracle()
    gather = Gather(oracle)
    numbers = range(1, 2 * TOGETHER + 11)
    assert await asyncio.gather(*map(gather, numbers)) == [2 * n for n in numbers]
    assert oracle.asked == [TOGETHER, TOGETHER, 10]
    assert await gather(5) == 10


async def test_what_is_impossible_fails_alone() -> None:
    answers = await asyncio.gather(*map(Gather(Oracle()), (1, -2, 3)), return_exceptions=True)
    assert answers[0] == 2
    assert isinstance(answers[1], InfeasibleError)
    assert answers[2] == 6


async def test_a_lost_connection_fails_all_of_them_at_once() -> None:
    oracle = Oracle()
    gather = Gather(oracle)
    answers = await asyncio.gather(*map(gather, (1, 0, 3)), return_exceptions=True)
    assert all(isinstance(answer, TransientError) for answer in answers)
    assert oracle.asked == [3]
    with pytest.raises(WfrunError):
        await gather(0)
    assert await gather(4) == 8


async def test_who_gave_up_is_not_asked_for() -> None:
    oracle = Oracle()
    gather = Gather(oracle)
    first, second = asyncio.create_task(gather(-1)), asyncio.create_task(gather(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 4
    assert oracle.asked == [1]
