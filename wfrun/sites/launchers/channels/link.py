"""The protocols between a site with launchers and the channels by which launchers connect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Link(Protocol):
    """A connection from one node of a launcher. A node that connects again gets another link."""

    channel: str
    """Kind of channel: tcp, ssh or spool."""
    node_number: int
    """Number of the launcher's node at the other end, from 0. Each node has a link of its own."""
    latency_s: float
    """Round-trip time of the last ping; 0 before the first answer."""

    def send(self, line: bytes) -> None:
        """Send a line, given without its newline. Never waits. Lines arrive in the order of the
        calls; they may be lost if the link breaks."""

    async def drained(self) -> None:
        """Wait until the amount of unsent data is small, or the link has ended."""

    def close(self) -> None:
        """End the link; the launcher may connect again."""


class LinkHandler(Protocol):
    """The callbacks by which the channels report links and lines to the site."""

    def on_connected(self, launcher: str, link: Link) -> None:
        """Called when a launcher has proved its identity and is expected. ``link`` replaces an
        earlier link to the same node, for which ``on_disconnected`` is not called."""

    def on_lines(self, link: Link, lines: Sequence[bytes]) -> None:
        """Called with lines from the launcher, in order and without their newlines. Answers to the
        link's own pings are left out."""

    def on_disconnected(self, link: Link, reason: str) -> None:
        """Called when a link has ended, except by ``Link.close``."""


class LauncherChannels(Protocol):
    """All channels of one site: tcp, ssh and spool."""

    async def open(self, handler: LinkHandler) -> None:
        """Listen on every channel that the catalog allows and the site supports.

        Call it again after each new connection to the head node; it ends all links first. Raises
        TransientError if the head node cannot be reached, InfeasibleError if the engine cannot
        listen on any of the channels.
        """

    async def expect(self, launchers: Sequence[str]) -> None:
        """Let these launchers connect from now on."""

    async def forget(self, launchers: Sequence[str]) -> None:
        """Close the links of ended launchers, and remove their spool files."""

    async def dismiss(self) -> None:
        """Write in ``address.json`` that the run is over, so that all its launchers end, including
        those that are not connected and those that outlive their batch jobs. Raises TransientError
        if the head node cannot be reached."""

    async def close(self) -> None:
        """Close all links and stop listening."""
