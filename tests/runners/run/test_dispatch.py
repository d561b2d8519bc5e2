"""The end of a run while sites still answer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from wfrun.engine import actions as act
from wfrun.runners.run.clock import WallClock
from wfrun.runners.run.dispatch import Dispatcher


class Waiting:
    """A site that answers when ``answer`` is set."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def cancel(self, keys: object, *, queued_only: bool) -> None:
        self.asked.set()
        await asyncio.wait_for(self.answer, 600)


@pytest.mark.parametrize("turns", range(4))
async def test_an_answer_arrives_as_the_run_ends(turns: int) -> None:
    """``wait_for`` of Python 3.11 ignores a cancellation that arrives together with the answer."""
    site = Waiting()
    nothing = cast(Any, None)
    dispatcher = Dispatcher(WallClock(), [cast(Any, site)], nothing, nothing, nothing)

    async def run() -> None:
        async with dispatcher:
            dispatcher.dispatch(act.CancelAttempts(0, ("k",)))
            await site.asked.wait()
            site.answer.set_result(None)
            for _ in range(turns):
                await asyncio.sleep(0)

    ended = asyncio.create_task(run())
    done, _ = await asyncio.wait([ended], timeout=100)
    assert done, "the run does not end"
