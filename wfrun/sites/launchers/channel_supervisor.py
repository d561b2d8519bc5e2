"""Keeping the channels of a site open, for as long as it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.cluster.head_node import HeadNode, delay_s
from wfrun.sites.launchers.link import LauncherChannels, LinkHandler

_LOGGER = logging.getLogger(__name__)


class ChannelSupervisor:
    """``make`` makes the channels of the run's directory, which is known once the head node was
    reached. ``known`` are the launchers that may connect."""

    def __init__(
        self,
        head: HeadNode,
        make: Callable[[str], LauncherChannels],
        taker: LinkHandler,
        known: Iterable[str],
    ) -> None:
        self.reached = asyncio.Event()
        """The head node can be asked anew."""
        self._head = head
        self._make = make
        self._taker = taker
        self._known = known
        self._links: LauncherChannels | None = None
        self._listens = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        failures = 0
        while True:
            await self.reached.wait()
            self.reached.clear()
            if self._links is None:
                self._links = self._make(self._head.directory)
            try:
                await self._links.open(self._taker)
                await self._links.expect(list(self._known))
            except (TransientError, InfeasibleError) as error:
                _LOGGER.info("site %s: %s", self._head.site, error)
                if isinstance(error, InfeasibleError):
                    self._head.pause("channels", str(error))
                await asyncio.sleep(delay_s(failures))
                failures += 1
                self.reached.set()
                continue
            failures = 0
            self._head.reopen("channels")
            self._listens.set()

    async def expect(self, launchers: Sequence[str]) -> None:
        """These may connect, now or when there are channels again."""
        await self._listens.wait()
        links = self._links
        assert links is not None
        await self._head.insist_on_room(lambda _: links.expect(launchers))

    async def forget(self, launchers: Sequence[str]) -> None:
        """These have ended."""
        links = self._links
        if links is not None:
            await self._head.insist_on_room(lambda _: links.forget(launchers))

    async def close(self) -> None:
        if self._links is not None:
            await self._links.close()
