"""The program's side of the protocol of malleable jobs: grow and shrink while it runs.

It needs the standard library alone (Python 3.6 or later), and may be copied beside a program as one
file. A program joins when it starts, and looks for messages where it can change its size:

    from wfrun.malleable import Malleable

    with Malleable() as job:
        for step in range(steps):
            message = job.poll()
            if message is not None and message.kind == "offer":
                job.take(2)                           # the first 2 of message.nodes
            elif message is not None:
                job.give_back(job.nodes[-message.processors:])
            work(step, job.nodes)

Protocol, version 1. ``WFRUN_MALLEABLE`` names a Unix socket. Messages are lines of ASCII text, of
at most 65,536 bytes, words separated by one space. A node is named once for each processor of it.

    manager   have N NODE...    first message: the nodes of the program
    manager   offer N NODE...   these nodes are free
    program   take K            it uses the first K of them, 0 to N
    manager   shrink N          N nodes have to be given back within 30 s
    program   done K NODE...    it uses these no more: at least N, unless its minimum is reached
    program   release K NODE... it gives nodes back unasked

The manager has one question open at a time. A program that does not answer within 30 s, or not by
these rules, is ended. It keeps the nodes of the first message to its end.
"""

import os
import socket
from typing import Iterable, List, NamedTuple, Optional, Sequence

LONGEST = 65536
"""Maximum length of a line, in bytes with its end."""

Message = NamedTuple("Message", [("kind", str), ("processors", int), ("nodes", List[str])])
"""``kind`` is ``offer`` or ``shrink``; ``nodes`` those of an offer."""


class Malleable:
    """The connection of a program to its manager, and the nodes that it has.

    Without ``WFRUN_MALLEABLE`` in the environment, it has ``nodes`` and never gets a message.
    Raises OSError if the manager cannot be reached, ValueError if it breaks the protocol. A manager
    that is gone sends nothing more, and the program keeps its nodes.
    """

    def __init__(self, path: Optional[str] = None, nodes: Sequence[str] = ("localhost",)) -> None:
        self.nodes = list(nodes)
        self._asked = None  # type: Optional[Message]
        self._read = b""
        self._socket = None  # type: Optional[socket.socket]
        path = os.environ.get("WFRUN_MALLEABLE") if path is None else path
        if path:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                self._socket.connect(path)
                first = self._message(None, ("have",))
                if first is None:
                    raise ConnectionResetError("the manager has closed the connection")
                self.nodes = first.nodes
            except BaseException:
                self.close()
                raise

    def poll(self, timeout_s: Optional[float] = 0.0) -> Optional[Message]:
        """The next message, or None if there is none within this time (None: wait for one). It has
        to be answered before the next is read."""
        if self._socket is None:
            return None
        if self._asked is not None:
            raise ValueError("the last message is not answered yet")
        self._asked = self._message(timeout_s, ("offer", "shrink"))
        return self._asked

    def take(self, count: int) -> List[str]:
        """Use the first ``count`` nodes of an offer. Returns them."""
        if self._asked is None or self._asked.kind != "offer":
            raise ValueError("nothing is offered")
        if not 0 <= count <= self._asked.processors:
            raise ValueError("{} of {} nodes cannot be taken".format(count, self._asked.processors))
        taken, self._asked = self._asked.nodes[:count], None
        self.nodes += taken
        self._send("take {}".format(count))
        return taken

    def give_back(self, nodes: Iterable[str]) -> None:
        """Give nodes back, which the program uses no more: the answer to ``shrink``, and otherwise
        a release of its own."""
        given = list(nodes)
        if self._asked is not None and self._asked.kind != "shrink":
            raise ValueError("an offer is open: take first")
        left = list(self.nodes)
        for node in given:
            left.remove(node)
        word = "release" if self._asked is None else "done"
        self.nodes, self._asked = left, None
        self._send(" ".join([word, str(len(given)), *given]))

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> "Malleable":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Of the socket, for select; -1 without a manager."""
        return -1 if self._socket is None else self._socket.fileno()

    def _send(self, line: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.settimeout(None)
            self._socket.sendall((line + "\n").encode("ascii"))
        except (BrokenPipeError, ConnectionResetError):
            self.close()

    def _message(self, timeout_s: Optional[float], kinds: Sequence[str]) -> Optional[Message]:
        if self._socket is None:
            return None
        while b"\n" not in self._read:
            if len(self._read) > LONGEST:
                raise ValueError("the manager sends too long a line")
            self._socket.settimeout(timeout_s)
            try:
                part = self._socket.recv(LONGEST)
            except (socket.timeout, BlockingIOError):
                return None
            except ConnectionResetError:
                part = b""
            if not part:
                self.close()
                return None
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        words = line.decode("ascii", "replace").split(" ")
        if len(words) < 2 or words[0] not in kinds or not words[1].isdigit():
            raise ValueError("the manager sends {!r}".format(line[:80]))
        if len(words) - 2 != (0 if words[0] == "shrink" else int(words[1])):
            raise ValueError("the manager sends {!r}".format(line[:80]))
        return Message(words[0], int(words[1]), words[2:])
