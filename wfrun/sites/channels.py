"""How a launcher on a node reaches its engine: the node's end of the channels.

A file of the standard library alone for Python >= 3.6, that stands beside ``launcher.py`` in the
directory of a run at its cluster. The engine's end is in ``wfrun/sites/pool``.
"""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence


class Channel:
    """One connection to the engine at a time, by the first of the kinds that works.

    ``directory`` is that of the run, ``kinds`` some of "tcp", "ssh" and "spool" in the order in
    which they are tried, again and again, and ``poller`` is where its file descriptors are
    registered, as often as they change. It never waits and never raises: call ``turn`` when
    ``poller`` reports a descriptor of its own and when ``due_s`` is past.
    Pings of the engine are answered here and are not among the lines.
    """

    def __init__(
        self,
        directory: str,
        launcher_key: str,
        node: int,
        kinds: "Sequence[str]",
        poller: "select.poll",
    ) -> None:
        self.session = 0
        """The number of the connection, from 1; a new one begins with a hello, which is for the
        launcher to say. What was said before, and has not been sent, is dropped: the engine asks
        about it all."""
        self.is_open = False
        """Whether there is a connection to an engine that has proved that it is ours."""
        self.kind = ""
        """Of the connection that is open, or is being tried."""
        self.silent_s = 0.0
        """How long this process has run, pauses of the whole machine not counted, since an engine
        was last heard."""

    def due_s(self) -> "Optional[float]":
        """When, on time.monotonic, it wants its next turn, whatever the poller says."""

    def owns(self, fd: int) -> bool:
        """Whether a descriptor that the poller reported is one of its own."""

    def turn(self) -> "List[bytes]":
        """Do what is due: connect, prove, read, write, look for files, go on to the next kind.
        Returns the lines that came, whole, in order and without their ends; all of them are of
        the connection ``session``, also where it has been closed by now."""

    def say(self, text: str) -> None:
        """A line for the engine, without its end; dropped where none is connected."""

    def send(self) -> None:
        """Send what was said, as far as that can be done without waiting; the rest goes by
        itself."""

    def drain(self) -> None:
        """Wait up to 5 s until all that was said is on its way: for the last words."""

    def close(self) -> None:
        """Let go of the connection, for good."""
