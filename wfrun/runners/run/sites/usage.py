"""Counts the load that a run puts on the head nodes of its clusters, as events."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping

from wfrun.engine.errors import WfrunError
from wfrun.engine.events import SiteCounted
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.host import AgentCounts

_LOGGER = logging.getLogger(__name__)
EVERY_S = 60.0
"""Interval between two counts, in seconds."""
ANSWER_S = 5.0
"""Timeout of the request for the counts of a site, in seconds."""
_NOTHING = AgentCounts(commands={}, cpu_s=0.0, agents=0)


class HeadNodeUsage:
    """Counts connections, commands and CPU time by site. Connections are given by site number."""

    def __init__(self, connections: Mapping[int, Connection], now: Callable[[], float]) -> None:
        self._connections = connections
        self._now = now
        self._reported = dict.fromkeys(connections, (0, _NOTHING))

    async def watch(self, on_counted: Callable[[SiteCounted], None]) -> None:
        """Report new counts every `EVERY_S`, until cancelled. If an agent is killed, commands that
        it ran after its last answer are not counted."""
        while True:
            await asyncio.sleep(EVERY_S)
            for event in await self.new_counts():
                on_counted(event)

    async def new_counts(self) -> list[SiteCounted]:
        """The counts since the last report, for each site with new connections or commands. A site
        that does not answer in time is left out until the next report."""
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
        made, before = self._reported[number]
        commands = dict(Counter(counts.commands) - Counter(before.commands))
        connections = connection.made - made
        if not commands and not connections:
            return None  # CPU time alone is reported with the next commands
        self._reported[number] = (connection.made, counts)
        return SiteCounted(
            self._now(), number, connections, commands, round(counts.cpu_s - before.cpu_s, 3)
        )
