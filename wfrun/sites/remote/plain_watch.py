"""Exit records by plain commands."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from wfrun.sites.remote.agent import GARBAGE_S, RECORD_BYTES, UNREADABLE_S, as_line

FOLLOW_BYTES = 4 << 20
"""Of ``records.jsonl`` at a time."""
MOVED = 200
"""Records that are moved together."""
NAME_CHARACTERS = 100
"""A record with a longer name stays where it is: the names have to fit a command line."""

Poll: TypeAlias = Callable[[Sequence[str], bytes], Awaitable[tuple[bytes, int, bytes, list[str]]]]
"""``PlainHost.poll``."""
Read: TypeAlias = Callable[[Sequence[str], int], Awaitable[list[bytes | None]]]


class PlainWatch:
    """Does what ``Watch`` of the agent does, from here."""

    def __init__(
        self, poll: Poll, read: Read, directory: str, tell: Callable[[list[bytes]], None]
    ) -> None:
        self._poll = poll
        self._read = read
        self._directory = directory
        self._tell = tell
        self._told: set[bytes] = set()
        self._seen: set[str] = set()
        """Files that were told of and are still there."""
        self._doubtful: dict[str, tuple[bytes | None, float, float]] = {}
        """Files that are no records: as they were, since when, when to look again."""
        self._pending: dict[str, bytes] = {}
        self._movable = True
        self._offset = 0

    async def look(self) -> bool:
        """Whether there was something to do, so that there may be more."""
        moving = dict(list(self._pending.items())[:MOVED])
        verdict, size, data, names = await self._poll(
            [self._directory, str(self._offset), str(FOLLOW_BYTES), *moving],
            b"".join(line + b"\n" for line in moving.values()),
        )
        if verdict == b"moved":
            for name in moving:
                del self._pending[name]
        elif verdict == b"never":
            self._movable = False
            self._pending.clear()
        if size < self._offset:
            self._offset = 0
        end = data.rfind(b"\n") + 1
        self._offset += end or (len(data) if len(data) == FOLLOW_BYTES else 0)
        records = [
            line for line in data[:end].split(b"\n") if as_line(line) and self._is_news(line)
        ]
        self._seen.intersection_update(names)
        now_s = time.monotonic()
        fresh = [
            name
            for name in names
            if name not in self._seen and self._doubtful.get(name, (b"", 0.0, 0.0))[2] <= now_s
        ]
        paths = [f"{self._directory}/{name}" for name in fresh]
        for name, content in zip(fresh, await self._read(paths, RECORD_BYTES), strict=True):
            self._take(name, content, now_s, records)
        if records:
            self._tell(records)
        return bool(records) or len(data) == FOLLOW_BYTES or verdict == b"moved"

    def _is_news(self, line: bytes) -> bool:
        news = line not in self._told
        self._told.add(line)
        return news

    def _take(self, name: str, content: bytes | None, now_s: float, records: list[bytes]) -> None:
        line = None if content is None else as_line(content)
        if line is not None:
            self._doubtful.pop(name, None)
            self._seen.add(name)
            if self._is_news(line):
                records.append(line)
            if self._movable and len(name) < NAME_CHARACTERS:
                self._pending[name] = line
            return
        doubt = self._doubtful.get(name)
        if doubt is None or doubt[0] != content:
            self._doubtful[name] = (content, now_s, now_s)
        elif now_s - doubt[1] >= GARBAGE_S:
            self._doubtful[name] = (content, doubt[1], now_s + UNREADABLE_S)
            if content is not None:
                del self._doubtful[name]
                self._seen.add(name)
                records.append(content)
