"""The malleable programs of a launcher: passes the engine's questions to them, and reports their
nodes.

The first launcher of a job's claim runs the job's program, and speaks with it over a socket
(``malleable_end.py``), also while no engine is connected: an answer that one engine has not
received is reported to the next engine. ``batch_launcher.py`` describes the messages.
"""

import contextlib
import json
import os
import select
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Callable, Dict, Iterator, List, Set

    from wfrun.sites.node.launchers.malleable_end import (
        SHRINK_S,
        ProgramGoneError,
        ProtocolError,
        SocketEnd,
    )

    Request = Dict[str, Any]
    Message = Dict[str, Any]
else:
    from malleable_end import SHRINK_S, ProgramGoneError, ProtocolError, SocketEnd

SOCKET = ".wfrun-malleable"
"""Name of the socket in the sandbox."""
LONGEST_PATH = 107
"""Maximum length of the path of a Unix socket, in bytes."""


class JoinedProgram:
    """The program of a malleable attempt, and its open question."""

    def __init__(self, request: "Request", end: SocketEnd, folder: str) -> None:
        self.request = request
        self.end = end
        self.folder = folder
        """Directory of the socket; empty: the socket is in the sandbox."""
        self.fd = end.fileno()
        """File descriptor that is polled; -1: none any more."""
        self.has_joined = False
        self.is_gone = False
        """Whether the program has closed its connection: it has ended, or keeps its nodes."""
        self.number = 0
        """Number of the latest question."""
        self.answered = 0
        """Number of the latest question that was answered."""
        self.offered: "List[Dict[str, Any]]" = []
        """Nodes (ClaimedNode) of the open offer."""
        self.deadline_s = 0.0
        """Time on time.monotonic at which the program is given up if it has not answered."""
        self.failure = ""
        """Why the program was given up; empty: it was not."""

    @property
    def is_asked(self) -> bool:
        """Whether a question is unanswered."""
        return self.answered < self.number and not self.failure

    def claimed(self) -> "List[Dict[str, Any]]":
        """The nodes (ClaimedNode) on which the program has at least one processor."""
        has = set(self.end.nodes)
        return [node for node in self.request["claimed"] + self.offered if node["name"] in has]

    def report(self) -> str:
        """The message "resized" for the engine, with the program's nodes."""
        first = self.request["claimed"][0]["launcher"]
        held = [node["launcher"] for node in self.claimed() if node["launcher"] != first]
        text = {"attempt": self.request["key"], "number": self.answered, "nodes": held}
        return json.dumps({"resized": dict(text, gone=self.is_gone, failure=self.failure)})


class MalleablePrograms:
    """The connections to the programs of malleable attempts; each has at most one open question."""

    def __init__(
        self,
        poller: "select.poll",
        say: "Callable[[str], None]",
        end_attempt: "Callable[[str], None]",
        forget_nodes: "Callable[[str, Set[str]], None]",
    ) -> None:
        """``say`` sends a line to the engine. ``end_attempt`` ends the attempt with a given key,
        with the cause ``reclaimed``. ``forget_nodes`` is called with an attempt's key and the
        launchers whose nodes the attempt has given back."""
        self._poller = poller
        self._say = say
        self._end_attempt = end_attempt
        self._forget_nodes = forget_nodes
        self._programs: "Dict[str, JoinedProgram]" = {}
        """Programs by key of the attempt."""

    def variables(self, request: "Request", sandbox: str) -> "Dict[str, str]":
        """Make the socket for an attempt before its start. Returns the environment variables that
        its program needs."""
        self.forget(request["key"])
        names = [node["name"] for node in request["claimed"] for _ in range(node["processes"])]
        path, folder = sandbox + "/" + SOCKET, ""
        if len(os.fsencode(path)) > LONGEST_PATH:
            folder = tempfile.mkdtemp(prefix="wfrun-")
            path = folder + "/" + SOCKET
        end = SocketEnd(path, names, len(names), fixed=names)
        program = self._programs[request["key"]] = JoinedProgram(request, end, folder)
        self._poller.register(program.fd, select.POLLIN)
        return end.environment

    def owns(self, fd: int) -> bool:
        """Whether a file descriptor reported by the poller belongs to a program."""
        return any(program.fd == fd for program in self._programs.values())

    def turn(self, fd: int) -> None:
        """Receive from the program with this file descriptor."""
        for program in self._programs.values():
            if program.fd == fd:
                with self._failing(program):
                    self._hear(program)

    def resize(self, message: "Message") -> None:
        """Pass a question of the engine to a program. A repeated question is not passed: if it is
        answered, the program's nodes are reported again."""
        program = self._programs.get(message["attempt"])
        if program is None or not program.has_joined:
            return  # it has ended, which is reported
        if message["number"] <= program.number:
            if not program.is_asked:
                self._say(program.report())
            return
        program.number = message["number"]
        program.deadline_s = time.monotonic() + SHRINK_S
        with self._failing(program):
            if message["nodes"]:
                program.offered = message["nodes"]
                names = [n["name"] for n in program.offered for _ in range(n["processes"])]
                program.end.ask_offer(names)
            elif not program.end.ask_shrink(message["shrink"]):
                self._answer(program)

    def due_s(self) -> "List[float]":
        """Deadlines of unanswered questions, on time.monotonic."""
        return [each.deadline_s for each in self._programs.values() if each.is_asked]

    def check(self) -> None:
        """Give up programs that have not answered by the deadline, and end their attempts."""
        now = time.monotonic()
        for program in self._programs.values():
            if program.is_asked and now >= program.deadline_s:
                self._give_up(program, str(program.end.late()))

    def say_again(self) -> None:
        """Report the nodes of all programs to a newly connected engine."""
        for program in self._programs.values():
            if program.has_joined:
                self._say(program.report())

    def forget(self, attempt: str) -> None:
        """Close the socket of an attempt that has ended."""
        program = self._programs.pop(attempt, None)
        if program is None:
            return
        self._unwatch(program)
        program.end.close()
        if program.folder:
            with contextlib.suppress(OSError):
                os.rmdir(program.folder)

    def close(self) -> None:
        """Close all sockets."""
        for attempt in list(self._programs):
            self.forget(attempt)

    def _hear(self, program: JoinedProgram) -> None:
        end = program.end
        if not program.has_joined:
            if end.accept(0.0):
                self._poller.unregister(program.fd)
                program.fd = end.fileno()
                self._poller.register(program.fd, select.POLLIN)
                program.has_joined = True
                self._say(program.report())
        elif end.is_asked:
            if end.answer() is not None:
                self._answer(program)
        else:
            end.poll()
            if end.released:
                self._answer(program)

    def _answer(self, program: JoinedProgram) -> None:
        """Update the nodes of a program after its answer or release, and report them."""
        program.answered = program.number
        before = {node["launcher"] for node in program.request["claimed"]}
        program.request["claimed"] = program.claimed()
        program.offered = []
        program.end.released = []
        left = before - {node["launcher"] for node in program.request["claimed"]}
        if left:
            self._forget_nodes(program.request["key"], left)
        self._say(program.report())

    @contextlib.contextmanager
    def _failing(self, program: JoinedProgram) -> "Iterator[None]":
        """Context that handles errors of a program. A program that violates the protocol is given
        up. If it has closed its connection, an open offer counts as declined; after an open reclaim
        it has to end by the deadline, and may have ended already."""
        try:
            yield
        except ProgramGoneError:
            self._unwatch(program)
            program.is_gone = True
            if program.offered or not program.is_asked:
                self._answer(program)
        except ProtocolError as error:
            self._give_up(program, str(error))

    def _give_up(self, program: JoinedProgram, why: str) -> None:
        self._unwatch(program)
        program.failure = why
        self._say(program.report())
        self._end_attempt(program.request["key"])

    def _unwatch(self, program: JoinedProgram) -> None:
        if program.fd >= 0:
            self._poller.unregister(program.fd)
            program.fd = -1
