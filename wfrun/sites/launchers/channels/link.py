"""The protocols between a site with launchers and the channels by which launchers connect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Link(Protocol):
    """A connection from one node of a launcher. A node that connects again gets another link."""

    channel: str
    """tcp, ssh or spool."""
    node_number: int
    """Which of the launcher's nodes it leads to; each has a link of its own, 0 is the first."""
    latency_s: float
    """Round-trip time of the last ping; 0 before the first answer."""

    def send(self, line: bytes) -> None:
        """Send a line, given without its end, after those sent before. Never waits. What is sent
        over a link that breaks may be lost."""

    async def drained(self) -> None:
        """Return when little is left to send, or the link has ended."""

    def close(self) -> None:
        """End the link; the launcher may connect again."""


class LinkHandler(Protocol):
    """The user of the links: called by the channels."""

    def on_connected(self, launcher: str, link: Link) -> None:
        """Called when a launcher has proved its identity. It replaces an earlier link to the same
        node, for which ``on_disconnected`` is not called."""

    def on_lines(self, link: Link, lines: Sequence[bytes]) -> None:
        """Called with lines from the launcher, in order and without their ends. Answers to pings,
        which the link itself sends, are not among them."""

    def on_disconnected(self, link: Link, reason: str) -> None:
        """Called when a link has ended; not after ``Link.close``."""


class LauncherChannels(Protocol):
    """All channels of one site: tcp, ssh and spool."""

    async def open(self, handler: LinkHandler) -> None:
        """Listen on every channel that the catalog allows and the site supports.

        Called again with every new connection to the head node, which ends all links. Raises
        TransientError when the head node cannot be asked, InfeasibleError when no channel is left.
        """

    async def expect(self, launchers: Sequence[str]) -> None:
        """Let these launchers connect from now on."""

    async def forget(self, launchers: Sequence[str]) -> None:
        """These launchers have ended: close their links and remove their files."""

    async def dismiss(self) -> None:
        """Let all launchers of the run end, including those that are not connected or not known: a
        launcher may outlive its batch job. Raises TransientError if the head node cannot be
        reached."""

    async def close(self) -> None:
        """Close all links and stop listening."""
