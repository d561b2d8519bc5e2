"""Files that share messages are bounded by the memory they take."""

from __future__ import annotations

import asyncio
from pathlib import Path

from wfrun.engine.exchange import Content
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.engine.model import ORIGIN
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.method import Location
from wfrun.sites.transfers.relay.room import Room
from wfrun.sites.transfers.relay.stream import ROOM_BYTES, Stream


async def _turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_room_is_given_in_order_and_never_twice() -> None:
    room = Room(10)
    inside: list[str] = []
    leave = {name: asyncio.Event() for name in "abcd"}

    async def stay(name: str, size_bytes: int) -> None:
        async with room.hold(size_bytes):
            inside.append(name)
            try:
                await leave[name].wait()
            finally:
                inside.remove(name)

    tasks = {name: asyncio.create_task(stay(name, size)) for name, size in
             (("a", 6), ("b", 6), ("c", 4), ("d", 1))}  # fmt: skip
    await _turns()
    assert inside == ["a"]  # "c" would fit, but "b" has asked before
    tasks["b"].cancel()
    await _turns()
    assert inside == ["a", "c"]
    leave["c"].set()
    await _turns()
    assert inside == ["a", "d"]
    tasks["a"].cancel()
    leave["d"].set()
    await asyncio.wait(tasks.values())
    async with room.hold(10):
        assert not inside


class _Counts(LocalEndpoint):
    """Counts the bytes that were read and are not written yet."""

    held = most = 0

    async def read_small(self, name: str, size_bytes: int) -> bytes:
        content = await super().read_small(name, size_bytes)
        self.held += size_bytes
        self.most = max(self.most, self.held)
        return content

    async def write_small(
        self, name: str, content: bytes, expected: Content, is_executable: bool, key: str
    ) -> None:
        await super().write_small(name, content, expected, is_executable, key)
        self.held -= len(content)


async def test_many_files_at_once_take_bounded_memory(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(12)]
    for name in names:
        (tmp_path / name).write_bytes(bytes(SHARED_BYTES))
    ends = _Counts(ORIGIN, None, tmp_path)
    stream = Stream()
    copies = [
        stream.copy(Location(ends, name), Location(ends, f"to-{name}"), name, Content())
        for name in names
    ]
    await asyncio.gather(*copies)
    assert ends.held == 0
    assert SHARED_BYTES < ends.most <= ROOM_BYTES
    assert all((tmp_path / f"to-{name}").stat().st_size == SHARED_BYTES for name in names)
