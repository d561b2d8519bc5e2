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
    program   take K            the program uses the first K offered nodes, 0 to N
    manager   shrink N          the program has to give back N nodes within 30 s
    program   done K NODE...    nodes given back: at least N, unless its minimum is reached
    program   release K NODE... nodes given back unasked

The manager has one question open at a time. A program that does not answer within 30 s, or not by
these rules, is ended. A program never gives back the nodes of the first message.

A program that does not implement the protocol is run by ``python3 malleable.py PROGRAM
ARGUMENT...``. ``WFRUN_MALLEABLE_NODES`` names a file with the nodes that the program may use, one a
line. The program joins by writing a copy of the file, with ``.taken`` after the name. It gets
SIGUSR1 when the file has changed, and answers by writing a copy with all nodes that it uses from
then on. When the copy has been removed, new nodes can be used. A copy must be written under another
name and then renamed.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from typing import Iterable, List, NamedTuple, Optional, Sequence

LONGEST = 65536
"""Maximum length of a line, in bytes with its end."""
ANSWER_S = 25.0
"""Timeout in seconds of a program's answer by a file to an offer. Then the offer counts as
declined. The manager waits for 30 s."""
LOOK_S = 0.1
"""Interval in seconds between checks whether a program has answered or ended."""

Message = NamedTuple("Message", [("kind", str), ("processors", int), ("nodes", List[str])])
"""``kind`` is ``offer`` or ``shrink``, ``processors`` the number of nodes offered or to give back.
``nodes`` are the offered nodes; empty for ``shrink``."""


class Malleable:
    """The connection of a program to its manager, and the nodes that the program has.

    Without ``WFRUN_MALLEABLE`` in the environment, the program keeps ``nodes`` and gets no message.
    Raises OSError if the manager cannot be reached, ValueError if it breaks the protocol.
    If the manager ends, no further message comes, and the program keeps its nodes.
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
        """Return the next message; None if none comes within ``timeout_s`` seconds (None: no
        timeout). Raises ValueError if the last message has not been answered."""
        if self._socket is None:
            return None
        if self._asked is not None:
            raise ValueError("the last message is not answered yet")
        self._asked = self._message(timeout_s, ("offer", "shrink"))
        return self._asked

    def take(self, count: int) -> List[str]:
        """Take the first ``count`` nodes of the open offer, and return them."""
        if self._asked is None or self._asked.kind != "offer":
            raise ValueError("nothing is offered")
        if not 0 <= count <= self._asked.processors:
            raise ValueError("{} of {} nodes cannot be taken".format(count, self._asked.processors))
        taken, self._asked = self._asked.nodes[:count], None
        self.nodes += taken
        self._send("take {}".format(count))
        return taken

    def give_back(self, nodes: Iterable[str]) -> None:
        """Give back nodes that the program does not use any more, as the answer to ``shrink`` or of
        its own accord. Raises ValueError if an offer is open or the program does not have the
        nodes."""
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
        """Return the socket's file descriptor, for select; -1 without a manager."""
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


class _FileProgram:
    """A program that reads its nodes from a file, and gets a signal when the file has changed."""

    def __init__(self, argv: Sequence[str], path: str) -> None:
        self._path = os.path.abspath(path)
        self._answer = self._path + ".taken"
        self._remove_answer()
        self._write(_first_nodes())
        environment = {k: v for k, v in os.environ.items() if k != "WFRUN_MALLEABLE"}
        environment["WFRUN_MALLEABLE_NODES"] = self._path
        self._program = subprocess.Popen(argv, env=environment)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._program.send_signal(number))

    def run(self) -> int:
        """Run the program to its end; returns its exit status."""
        # Before it has joined it may not expect the signal, which would end it.
        if self._used(None) is not None:
            with Malleable(nodes=_first_nodes()) as job:
                self._remove_answer()
                while self._program.poll() is None:
                    message = job.poll(LOOK_S)
                    if message is not None:
                        self._change(job, message)
                    elif job.fileno() < 0:
                        break
        status = self._program.wait()
        return status if status >= 0 else 128 - status

    def _change(self, job: Malleable, message: Message) -> None:
        """Pass an offer or a shrink to the program, and its answer to the manager. Raises
        ValueError if the answer has nodes that are not in the program's file, or if the answer to
        an offer drops a node or skips an offered one."""
        has = list(job.nodes)
        is_offer = message.kind == "offer"
        may = has + message.nodes if is_offer else has[: len(has) - message.processors]
        self._remove_answer()
        self._write(may)
        self._program.send_signal(signal.SIGUSR1)
        used = self._used(ANSWER_S if is_offer else None)
        declines = used is None and is_offer
        if used is None and is_offer:
            used = has
        elif used is None:
            return  # It has ended, which is the answer.
        elif Counter(used) - Counter(may) or (is_offer and used != may[: max(len(used), len(has))]):
            raise ValueError("the program uses other nodes than those in its file")
        if is_offer:
            job.take(len(used) - len(has))
        else:
            job.give_back((Counter(has) - Counter(used)).elements())
        self._write(job.nodes)
        self._remove_answer()
        if declines:  # It may have read the offer, and answer later.
            self._program.send_signal(signal.SIGUSR1)

    def _used(self, timeout_s: Optional[float]) -> Optional[List[str]]:
        """Wait for the program's answer, and return its nodes. Returns None if the program ends, or
        after ``timeout_s`` seconds (None: no timeout)."""
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        while ends_s is None or time.monotonic() < ends_s:
            with contextlib.suppress(OSError), open(self._answer, "rb") as stream:
                return stream.read(LONGEST).decode("ascii", "replace").split()
            if self._program.poll() is not None:
                return None
            time.sleep(LOOK_S)
        return None

    def _remove_answer(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._answer)

    def _write(self, nodes: Sequence[str]) -> None:
        draft = self._path + ".part"
        with open(draft, "w", encoding="ascii") as stream:
            stream.write("".join(node + "\n" for node in nodes))
        os.rename(draft, self._path)

    def end(self) -> None:
        """End the program, and remove the files."""
        if self._program.poll() is None:
            self._program.kill()
            self._program.wait()
        self._remove_answer()
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def _first_nodes() -> List[str]:
    """The nodes that the job starts with."""
    path = os.environ.get("WFRUN_NODEFILE")
    if not path:
        return ["localhost"]
    with open(path, encoding="ascii") as stream:
        return stream.read().split()


def main(argv: Sequence[str]) -> int:
    """Run a program that reads its nodes from a file; returns its exit status."""
    if not argv:
        sys.stderr.write("usage: python3 malleable.py PROGRAM ARGUMENT...\n")
        return 2
    try:
        program = _FileProgram(argv, ".wfrun-malleable-nodes")
    except OSError as error:
        sys.stderr.write("malleable.py: {}: {}\n".format(argv[0], error.strerror))
        return 127
    try:
        return program.run()
    except (OSError, ValueError) as error:
        sys.stderr.write("malleable.py: {}\n".format(error))
        return 1
    finally:
        program.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
