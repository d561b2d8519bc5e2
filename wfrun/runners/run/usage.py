"""What a run costs the head nodes of its clusters, as events."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping

from wfrun.engine.errors import WfrunError
from wfrun.engine.events import SiteCounted
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.host import Counts

_LOGGER = logging.getLogger(__name__)
EVERY_S = 60.0
ANSWER_S = 5.0
_NOTHING = Counts(commands={}, cpu_s=0.0, agents=0)


class Usage:
    """Counts what is done over these connections, which are named by the sites' numbers."""

    def __init__(self, connections: Mapping[int, Connection], now: Callable[[], float]) -> None:
        self._connections = connections
        self._now = now
        self._told = dict.fromkeys(connections, (0, _NOTHING))

    async def watch(self, told: Callable[[SiteCounted], None]) -> None:
        """Tell what is new, once a minute, until cancelled. What an agent that is killed did
        after it was last asked stays unknown."""
        while True:
            await asyncio.sleep(EVERY_S)
            for event in await self.news():
                told(event)

    async def news(self) -> list[SiteCounted]:
        """What was done since the last call; nothing of a site that does not answer soon."""
        numbers = list(self._connections)
        found = await asyncio.gather(*(self._count(number) for number in numbers))
        return [event for event in found if event is not None]

    async def _count(self, number: int) -> SiteCounted | None:
        connection = self._connections[number]
        try:
            counts = await asyncio.wait_for(connection.counts(), ANSWER_S)
        except (WfrunError, asyncio.TimeoutError) as error:
            _LOGGER.info("site %d is not counted: %s", number, error or "no answer")
            return None
        made, before = self._told[number]
        commands = dict(Counter(counts.commands) - Counter(before.commands))
        connections = connection.made - made
        if not commands and not connections:
            return None  # CPU time alone is told with the next commands
        self._told[number] = (connection.made, counts)
        return SiteCounted(
            self._now(), number, connections, commands, round(counts.cpu_s - before.cpu_s, 3)
        )
