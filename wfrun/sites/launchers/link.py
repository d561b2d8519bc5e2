"""The seam between a pool of launchers and the channels through which they reach their engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Link(Protocol):
    """A launcher that is connected now. A launcher that connects anew gets another link."""

    channel: str
    """tcp, ssh or spool."""
    node_number: int
    """Which of the launcher's nodes it leads to. Each has a link of its own; node 0 leads."""
    latency_s: float
    """How long a line takes there and its answer back, as far as it was measured."""

    def send(self, line: bytes) -> None:
        """Send a line, now or when what was sent before is on its way. What is sent over a link
        that breaks may be lost."""

    async def drained(self) -> None:
        """Return when little enough is still to be sent."""

    def close(self) -> None:
        """Let go of it; the launcher may connect anew."""


class LinkHandler(Protocol):
    """Who works with the launchers that connect."""

    def connected(self, launcher: str, link: Link) -> None:
        """This launcher has proved who it is. An earlier link of it to the same node is of no more
        use; nothing else is said of that one."""

    def lines(self, link: Link, lines: Sequence[bytes]) -> None:
        """What it says, in order, without the line ends. Answers to pings, which the link itself
        sends, are not among them."""

    def disconnected(self, link: Link, reason: str) -> None:
        """The link is of no more use. Not told after ``Link.close``."""


class LauncherChannels(Protocol):
    """All channels of one site."""

    async def open(self, taker: LinkHandler) -> None:
        """Listen, in all ways that the catalog allows and this site has; ways that it has not are
        passed over. Called anew with every connection to the head node. Raises TransientError
        when it can't be asked, InfeasibleError where no way is left."""

    async def expect(self, launchers: Sequence[str]) -> None:
        """These may connect from now on."""

    async def forget(self, launchers: Sequence[str]) -> None:
        """These have ended: remove what they have left of their channels."""

    async def close(self) -> None:
        """Close all links, and listen no more."""
