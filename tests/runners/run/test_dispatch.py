"""The dispatcher: the end of a run while sites still answer, and the cancellation of copies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from wfrun.engine.core import actions as act
from wfrun.engine.events import TransferEnded, TransferFailed
from wfrun.engine.exchange import ANYTHING, Content
from wfrun.engine.model import LinkSpec, SiteSpec
from wfrun.runners.run.clock import WallClock
from wfrun.runners.run.dispatch import Dispatcher
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.router import TransferRouter


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


@pytest.mark.parametrize("error", [ValueError, KeyError, OverflowError, RecursionError, TypeError])
async def test_an_unexpected_answer_fails_the_copy(error: type[Exception]) -> None:
    """And not the run, which goes on with other sites."""
    clock, nothing = WallClock(), cast(Any, None)
    transfer = cast(Any, SimpleNamespace(copy=AsyncMock(side_effect=error("said"))))
    dispatcher = Dispatcher(clock, [nothing] * 3, transfer, cast(Any, Requests()), nothing)
    async with dispatcher:
        dispatcher.dispatch(act.CopyFile(0, 0, 0, 1))
        (failed,) = await asyncio.wait_for(clock.next(), 100)
    assert isinstance(failed, TransferFailed)
    assert failed.transient
    assert "is not understood" in failed.message
    assert error.__name__ in failed.message


class Requests:
    """The file of every copy is ``f`` at sites."""

    def path(self, workflow: int, file: int, site: int) -> str:
        return "f"

    source_path = path

    def content(self, workflow: int, file: int) -> Content:
        return ANYTHING


async def test_a_cancelled_copy_ends_without_an_event(tmp_path: Path) -> None:
    """Another copy of the same file goes on."""
    stores = [tmp_path / name for name in ("a", "b", "c")]
    for store in stores:
        store.mkdir()
    for store in stores[:2]:
        (store / "f").write_bytes(b"content")
    router = TransferRouter(
        [LocalEndpoint(i, SiteSpec(store.name, 1), store) for i, store in enumerate(stores)],
        {"copy": LocalCopy([LinkSpec("a", "c", None, latency_s=600.0)])},
        tmp_path,
    )
    clock = WallClock()
    nothing = cast(Any, None)
    dispatcher = Dispatcher(clock, [nothing] * 3, router, cast(Any, Requests()), nothing)
    async with dispatcher:
        dispatcher.dispatch(act.CopyFile(0, 0, 0, 2))
        await asyncio.sleep(0)
        dispatcher.dispatch(act.CancelCopy(0, 0, 0, 2))
        dispatcher.dispatch(act.CopyFile(0, 0, 1, 2))
        (event,) = await asyncio.wait_for(clock.next(), 600)
        assert isinstance(event, TransferEnded)
        assert event.source == 1
        assert [path.name for path in stores[2].iterdir()] == ["f"]
        dispatcher.dispatch(act.CancelCopy(0, 0, 1, 2))  # it has ended
    router.close()


class Hanging:
    """A transfer whose copies do not end."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0

    async def copy(self, *what: object) -> None:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1


async def test_a_copy_that_begins_again_can_be_cancelled_again() -> None:
    """The first one ends after the second one has begun."""
    transfer, nothing = Hanging(), cast(Any, None)
    dispatcher = Dispatcher(
        WallClock(), [nothing] * 3, cast(Any, transfer), cast(Any, Requests()), nothing
    )
    copy, cancel = act.CopyFile(0, 0, 0, -1), act.CancelCopy(0, 0, 0, -1)
    async with dispatcher:
        dispatcher.dispatch(copy)
        while transfer.begun < 1:
            await asyncio.sleep(0)
        dispatcher.dispatch(cancel)
        dispatcher.dispatch(copy)
        while (transfer.begun, transfer.cancelled) != (2, 1):
            await asyncio.sleep(0)
        for _ in range(10):  # turns of the loop: its callbacks have been called
            await asyncio.sleep(0)
        dispatcher.dispatch(cancel)
        for _ in range(10):
            await asyncio.sleep(0)
        assert transfer.cancelled == 2
