"""Reading a file while what was read before is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress

import pytest

from wfrun.engine.errors import TransientError
from wfrun.sites.transfers.endpoints.endpoint import CHUNK_BYTES
from wfrun.sites.transfers.relay.read_ahead import AHEAD_BYTES, read_ahead
from wfrun.sites.transfers.relay.stall import StallGuard

LIMIT_S = 60.0


async def _pieces(*pieces: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if then is not None:
        raise then


async def test_the_source_is_read_while_a_piece_is_written() -> None:
    asked, taken = asyncio.Event(), asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield b"first"
        asked.set()
        await taken.wait()
        yield b"second"

    async with aclosing(read_ahead(source())) as ahead:
        assert await anext(ahead) == b"first"
        await asyncio.wait_for(asked.wait(), LIMIT_S)
        taken.set()
        assert [piece async for piece in ahead] == [b"second"]


async def test_all_bytes_pass_in_order_in_pieces_of_bounded_size() -> None:
    given = [bytes([number % 251]) * 3000 for number in range(2000)]
    got = []
    async with aclosing(read_ahead(_pieces(*given))) as ahead:
        async for piece in ahead:
            await asyncio.sleep(0)
            got.append(piece)
    assert b"".join(got) == b"".join(given)
    assert max(map(len, got)) <= CHUNK_BYTES
    assert len(got) < len(given)


async def test_reading_pauses_when_nothing_is_written() -> None:
    read = 0
    piece = bytes(1 << 18)

    async def source() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += len(piece)
            yield piece

    async with aclosing(read_ahead(source())) as ahead:
        await anext(ahead)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert read <= AHEAD_BYTES + len(piece) + CHUNK_BYTES


async def test_an_error_comes_behind_the_pieces_before_it() -> None:
    failing = read_ahead(_pieces(b"good", then=TransientError("lost")))
    async with aclosing(failing) as ahead:
        assert await anext(ahead) == b"good"
        with pytest.raises(TransientError, match="lost"):
            await anext(ahead)


async def test_a_closed_one_leaves_its_source_free_to_close() -> None:
    closed = asyncio.Event()

    async def source() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with aclosing(source()) as data, aclosing(read_ahead(data)) as ahead:
        assert await anext(ahead) == b"first"
    assert closed.is_set()


async def _deaf() -> AsyncGenerator[bytes, None]:
    """Ignores a cancellation, as ``asyncio.wait_for`` of Python 3.11 does when the result that it
    waits for arrives with it."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        yield bytes(AHEAD_BYTES)


async def test_it_ends_although_its_source_ignores_the_cancellation() -> None:
    ahead = read_ahead(_deaf())
    taking = asyncio.create_task(anext(ahead))
    await asyncio.sleep(0.05)
    taking.cancel()
    await asyncio.wait([taking], timeout=30)
    assert taking.cancelled()


async def test_a_guarded_copy_ends_although_its_writer_ignores_the_cancellation() -> None:
    guard = StallGuard("here", "there")
    pieces = guard.pieces(_endless())
    written = 0

    async def write() -> None:
        nonlocal written
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        async for _ in pieces:
            written += 1
            await asyncio.sleep(0)

    copying = asyncio.create_task(guard.watch(write()))
    await asyncio.sleep(0.05)
    copying.cancel()
    await asyncio.wait([copying], timeout=30)
    assert copying.cancelled()
    assert written == 0


async def _endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"x"
