"""The malleable programs of a launcher: what the engine asks them, and what they have.

The first launcher of a job's claim runs its program, and speaks with it over a socket
(``malleable_end.py``). It needs no engine for that: an answer that the engine has not seen is
reported to the next one. ``batch_launcher.py`` describes the messages.
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
    """The program of an attempt."""

    def __init__(self, request: "Request", end: SocketEnd, folder: str) -> None:
        self.request = request
        self.end = end
        self.folder = folder
        """A directory for the socket alone; empty: it is in the sandbox."""
        self.fd = end.fileno()
        """What is polled; -1: nothing any more."""
        self.has_joined = False
        self.is_gone = False
        """Whether it has closed its connection: it has ended, or keeps its nodes."""
        self.number = 0
        """Number of the latest question."""
        self.answered = 0
        """Number of the latest question that was answered."""
        self.offered: "List[Dict[str, Any]]" = []
        """Nodes (ClaimedNode) of the open offer."""
        self.deadline_s = 0.0
        """Time, on time.monotonic, at which the answer is late."""
        self.failure = ""
        """Why it was given up; empty: it was not."""

    @property
    def is_asked(self) -> bool:
        """Whether a question is open."""
        return self.answered < self.number and not self.failure

    def claimed(self) -> "List[Dict[str, Any]]":
        """The nodes of which it has a processor."""
        has = set(self.end.nodes)
        return [node for node in self.request["claimed"] + self.offered if node["name"] in has]

    def report(self) -> str:
        """What it has, as a line for the engine."""
        first = self.request["claimed"][0]["launcher"]
        held = [node["launcher"] for node in self.claimed() if node["launcher"] != first]
        text = {"attempt": self.request["key"], "number": self.answered, "nodes": held}
        return json.dumps({"resized": dict(text, gone=self.is_gone, failure=self.failure)})


class MalleablePrograms:
    """Asks the programs of malleable attempts, one question of each at a time."""

    def __init__(
        self,
        poller: "select.poll",
        say: "Callable[[str], None]",
        end_attempt: "Callable[[str], None]",
        forget_nodes: "Callable[[str, Set[str]], None]",
    ) -> None:
        """``end_attempt`` ends an attempt as reclaimed; ``forget_nodes`` is called with the
        launchers of nodes that an attempt has given back."""
        self._poller = poller
        self._say = say
        self._end_attempt = end_attempt
        self._forget_nodes = forget_nodes
        self._programs: "Dict[str, JoinedProgram]" = {}
        """By key of the attempt."""

    def variables(self, request: "Request", sandbox: str) -> "Dict[str, str]":
        """Make the socket of an attempt that is being started. Returns the environment variables
        that its program needs."""
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
        """Whether a descriptor that the poller reported is one of ours."""
        return any(program.fd == fd for program in self._programs.values())

    def turn(self, fd: int) -> None:
        """Hear a program."""
        for program in self._programs.values():
            if program.fd == fd:
                with self._failing(program):
                    self._hear(program)

    def resize(self, message: "Message") -> None:
        """Pass a question of the engine on to a program. If it was asked already, only report the
        nodes that the program has; while the answer is pending, do nothing."""
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
        """Times at which answers are late."""
        return [each.deadline_s for each in self._programs.values() if each.is_asked]

    def check(self) -> None:
        """Give up programs whose answer is late."""
        now = time.monotonic()
        for program in self._programs.values():
            if program.is_asked and now >= program.deadline_s:
                self._give_up(program, str(program.end.late()))

    def say_again(self) -> None:
        """Report to a new engine what it may not know."""
        for program in self._programs.values():
            if program.has_joined:
                self._say(program.report())

    def failure_of(self, attempt: str) -> str:
        """Why an attempt was given up; empty: it was not."""
        program = self._programs.get(attempt)
        return "" if program is None else program.failure

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
        """Note what a program has now, and report it."""
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
        """Give up a program that breaks the protocol. A program that closed its connection takes no
        offer. If nodes are being reclaimed from it, it must end by the deadline, and may have ended
        already."""
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
