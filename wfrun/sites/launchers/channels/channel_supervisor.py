"""Keeps the channels of a site open while its engine runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.cluster.head_node import HeadRequests, delay_s
from wfrun.sites.launchers.channels.link import LauncherChannels, LinkHandler

_LOGGER = logging.getLogger(__name__)


class ChannelSupervisor:
    """Opens the channels after each connection to the head node, and retries with back-off.

    ``make`` takes the run's directory, which is known after the first connection, and returns the
    channels. ``known`` has the keys of the launchers that may connect. The site is paused while the
    channels cannot be opened, unless the cause is a lost connection (TransientError).
    """

    def __init__(
        self,
        head: HeadRequests,
        make: Callable[[str], LauncherChannels],
        handler: LinkHandler,
        known: Iterable[str],
    ) -> None:
        self.reached = asyncio.Event()
        """Set after each connection to the head node. A new connection has no listeners yet."""
        self._head = head
        self._make = make
        self._handler = handler
        self._known = known
        self._channels: LauncherChannels | None = None
        self._has_opened = asyncio.Event()

    async def run(self) -> None:
        """Open the channels whenever ``reached`` is set, until cancelled."""
        failures = 0
        while True:
            await self.reached.wait()
            self.reached.clear()
            if self._channels is None:
                self._channels = self._make(self._head.directory)
            try:
                await self._channels.open(self._handler)
                await self._channels.expect(list(self._known))
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
            self._has_opened.set()

    async def expect(self, launchers: Sequence[str]) -> None:
        """Let these launchers connect; waits until channels have been opened once."""
        await self._has_opened.wait()
        channels = self._channels
        assert channels is not None
        await self._head.retry_until_space(lambda _: channels.expect(launchers))

    async def forget(self, launchers: Sequence[str]) -> None:
        """Close the links of ended launchers and remove their channels' files."""
        channels = self._channels
        if channels is not None:
            await self._head.retry_until_space(lambda _: channels.forget(launchers))

    async def dismiss(self) -> None:
        """Let all launchers of the run end, also those that are not connected."""
        channels = self._channels
        if channels is not None:
            await self._head.retry_until_space(lambda _: channels.dismiss())

    async def close(self) -> None:
        """Close all channels."""
        if self._channels is not None:
            await self._channels.close()
