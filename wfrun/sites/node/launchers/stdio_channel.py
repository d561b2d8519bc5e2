"""The connection of a launcher to the engine that started it: its standard streams."""

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import List

    from wfrun.sites.node.tasks.runner import READ_BYTES
else:
    from runner import READ_BYTES


class StdioChannel:
    """JSON lines on stdin and stdout. No method waits, except ``drain``."""

    def __init__(self, poller: "select.poll") -> None:
        self._poller = poller
        self._partial = b""
        self._unsent = b""
        self._waits = False
        self.is_open = True
        """False after the end of stdin."""
        for fd in (0, 1):
            os.set_blocking(fd, False)
        poller.register(0, select.POLLIN)

    def receive(self) -> "List[bytes]":
        """Read from stdin; returns the complete lines, without newlines."""
        try:
            data = os.read(0, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            self._poller.unregister(0)
            return []
        lines = (self._partial + data).split(b"\n")
        self._partial = lines.pop()
        return lines

    def say(self, text: str) -> None:
        """Queue a line, to be sent by ``send``."""
        self._unsent += text.encode() + b"\n"

    def send(self) -> None:
        """Send as much as the engine accepts without waiting. If it has closed the stream, the rest
        is dropped, since the journal has all ends."""
        while self._unsent:
            try:
                self._unsent = self._unsent[os.write(1, self._unsent) :]
            except BlockingIOError:
                break
            except OSError:
                self._unsent = b""
        if self._waits != bool(self._unsent):
            self._waits = bool(self._unsent)
            if self._waits:
                self._poller.register(1, select.POLLOUT)
            else:
                self._poller.unregister(1)

    def drain(self) -> None:
        """Wait up to 5 s until all queued lines are sent."""
        for _ in range(50):
            self.send()
            if not self._unsent:
                return
            self._poller.poll(100)
