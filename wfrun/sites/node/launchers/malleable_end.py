"""The manager's end of the protocol of malleable programs (see ``wfrun/malleable.py``).

It runs on the first node of the program's job. The program is not trusted: if it sends a line that
is too long, does not answer the question, or names nodes that it does not have, ProtocolError is
raised with the reason, and the caller ends the program.
"""

import contextlib
import os
import select
import socket
import time
from typing import Dict, Iterable, List, Optional, Sequence, Tuple, Type

LONGEST = 65536
"""Maximum length of a line with its newline, in bytes."""
SHRINK_S = 30.0
"""Timeout of the answer to an offer or a mandatory shrink, in seconds."""


class ProtocolError(Exception):
    """The program has violated the protocol, has not answered in time, or has not connected."""


class ProgramGoneError(ProtocolError):
    """The program has closed its connection, as it does at its end."""


class SocketEnd:
    """Speaks with one program over a Unix socket, which it creates at ``path``.

    ``nodes`` are the nodes that the program has, ``least`` is the minimum number that it can run
    on, ``fixed`` are the nodes that it never gives back. After a `ProtocolError` each further call
    raises the same error.
    """

    def __init__(
        self, path: str, nodes: Iterable[str], least: int = 1, fixed: Iterable[str] = ()
    ) -> None:
        self.path = path
        self.nodes = list(nodes)
        self.least = least
        self.fixed = frozenset(fixed)
        self._asked = None  # type: Optional[Tuple[List[str], int]]
        """The open question: the offered nodes, and the number of nodes to give back. One of them
        is empty or 0. None: no question is open."""
        self.failed = None  # type: Optional[ProtocolError]
        self.released = []  # type: List[str]
        """Nodes that the program has given back unasked. The caller removes them from this list."""
        self._read = b""
        self._program = None  # type: Optional[socket.socket]
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(path)
            os.chmod(path, 0o600)
            self._listener.listen(1)
        except BaseException:
            self._listener.close()
            raise

    @property
    def environment(self) -> Dict[str, str]:
        """Environment variables that the program needs."""
        return {"WFRUN_MALLEABLE": self.path}

    def accept(self, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` for the program to connect, and send it its nodes. Returns
        whether it has connected; a program that never connects is rigid."""
        if self._program is None and select.select([self._listener], [], [], timeout_s)[0]:
            self._program = self._listener.accept()[0]
            self._program.setblocking(False)
            self._send("have", self.nodes)
        return self._program is not None

    def fileno(self) -> int:
        """File descriptor that becomes readable when the program connects or sends a message."""
        return (self._program or self._listener).fileno()

    def offer(self, nodes: Sequence[str], timeout_s: float = SHRINK_S) -> List[str]:
        """Offer nodes and wait for the answer. Returns the nodes that the program takes, a prefix
        of ``nodes``."""
        self.ask_offer(nodes)
        return self._wait(timeout_s)

    def shrink(self, count: int, timeout_s: float = SHRINK_S) -> List[str]:
        """Reclaim ``count`` nodes, or fewer so that the program keeps ``least``, and wait for the
        answer. Returns the nodes that it gives back, which may be more."""
        return self._wait(timeout_s) if self.ask_shrink(count) else []

    def ask_offer(self, nodes: Sequence[str]) -> None:
        """Offer nodes without waiting; `answer` returns those that the program takes."""
        self._send("offer", nodes)
        self._asked = list(nodes), 0

    def ask_shrink(self, count: int) -> int:
        """Reclaim nodes as `shrink` does, without waiting; `answer` returns the nodes given back.
        Returns the number of nodes to give back; 0: none can be reclaimed, no question is sent."""
        count = min(count, len(self.nodes) - self.least)
        if count <= 0:
            return 0
        self._send("shrink", [], count)
        self._asked = [], count
        return count

    @property
    def is_asked(self) -> bool:
        """Whether a question is open."""
        return self._asked is not None

    def answer(self, timeout_s: float = 0.0) -> Optional[List[str]]:
        """Wait for the answer to the open question. Returns the nodes that the program takes or
        gives back; None: no answer within ``timeout_s``."""
        assert self._asked is not None, "something was asked"
        offered, count = self._asked
        word = "done" if count else "take"
        ends_s = time.monotonic() + timeout_s
        while self._fill(ends_s - time.monotonic()):
            said, number, named = self._next()
            if said == "release":
                self._give_back(named, number, self.released)
            elif said != word:
                raise self._fail("answers {!r} instead of {}".format(said[:40], word))
            elif count:
                return self._given(count, number, named)
            else:
                return self._taken(offered, number, named)
        return None

    def late(self, timeout_s: float = SHRINK_S) -> ProtocolError:
        """The error to raise for a program that has not answered within ``timeout_s``."""
        return self._fail("has not answered within {:g} s".format(timeout_s))

    def _wait(self, timeout_s: float) -> List[str]:
        found = self.answer(timeout_s)
        if found is None:
            raise self.late(timeout_s)
        return found

    def _taken(self, offered: List[str], count: int, named: Sequence[str]) -> List[str]:
        if named or count > len(offered):
            raise self._fail("takes {} of {} nodes".format(count, len(offered)))
        self._asked = None
        taken = offered[:count]
        self.nodes += taken
        return taken

    def _given(self, count: int, number: int, named: Sequence[str]) -> List[str]:
        given = []  # type: List[str]
        self._give_back(named, number, given)
        if number < count:
            raise self._fail("gives back {} of {} nodes".format(number, count))
        self._asked = None
        return given

    def poll(self) -> None:
        """Read the messages that the program has sent unasked, and add the nodes that it gives back
        to ``released``."""
        while self._fill(0.0):
            self._release_first()

    def close(self) -> None:
        """Close the connection, and delete the socket's file."""
        for one in (self._program, self._listener):
            if one is not None:
                one.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _fail(self, what: str, kind: "Type[ProtocolError]" = ProtocolError) -> ProtocolError:
        if self.failed is None:
            self.failed = kind("the program " + what)
        return self.failed

    def _send(self, word: str, nodes: Sequence[str], count: Optional[int] = None) -> None:
        if self.failed is not None:
            raise self.failed
        if self._program is None:
            raise self._fail("has not connected")
        words = [word, str(len(nodes) if count is None else count), *nodes]
        line = (" ".join(words) + "\n").encode("ascii")
        if len(line) > LONGEST:
            raise ValueError("too many nodes for one message")
        try:  # One question is open at a time, so that a line always fits the buffer.
            self._program.sendall(line)
        except OSError as error:
            raise self._fail("is gone: {}".format(error), ProgramGoneError) from error

    def _release_first(self) -> None:
        word, count, nodes = self._next()
        if word != "release":
            raise self._fail("says {!r} unasked".format(word[:40]))
        self._give_back(nodes, count, self.released)

    def _fill(self, timeout_s: float) -> bool:
        """Read until there is a complete line or ``timeout_s`` is over. Returns whether there is
        one."""
        if self.failed is not None:
            raise self.failed
        if self._program is None:
            return False
        ends_s = time.monotonic() + max(0.0, timeout_s)
        while b"\n" not in self._read:
            if len(self._read) >= LONGEST:
                raise self._fail("sends a line of more than {} bytes".format(LONGEST))
            left_s = max(0.0, ends_s - time.monotonic())
            if not select.select([self._program], [], [], left_s)[0]:
                return False
            try:
                part = self._program.recv(LONGEST)
            except OSError as error:
                raise self._fail("is gone: {}".format(error), ProgramGoneError) from error
            if not part:
                raise self._fail("has closed its connection", ProgramGoneError)
            self._read += part
        return True

    def _next(self) -> Tuple[str, int, List[str]]:
        line, _, self._read = self._read.partition(b"\n")
        if len(line) >= LONGEST:
            raise self._fail("sends a line of more than {} bytes".format(LONGEST))
        try:
            words = line.decode("ascii").split(" ")
        except UnicodeDecodeError:
            words = []
        if len(words) < 2 or not words[1].isdigit() or len(words[1]) > 9:
            raise self._fail("sends {!r}".format(line[:40].decode("ascii", "replace")))
        return words[0], int(words[1]), words[2:]

    def _give_back(self, named: Sequence[str], number: int, given: List[str]) -> None:
        left = list(self.nodes)
        for node in named:
            if node not in left:
                raise self._fail("gives back a node that it does not have: {!r}".format(node[:40]))
            if node in self.fixed:
                raise self._fail("gives back its first node {!r}, which it keeps".format(node[:40]))
            left.remove(node)
        if len(named) != number or len(left) < self.least:
            raise self._fail("gives back {} nodes and keeps {}".format(number, len(left)))
        self.nodes = left
        given += named
