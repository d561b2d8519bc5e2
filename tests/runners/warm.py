"""Processes of the command that start at once: a server that has imported wfrun forks them.

Such a process has a pid, a session, an environment, limits and standard files of its own; signals,
kills and exits end it as they end any other. It differs from ``wfrun`` at a shell in this: its
modules are imported already, and /proc shows the environment and the command line of the server.
Processes that it starts have the right ones.

The start of an interpreter that imports wfrun takes half a second of processor time, which was a
third of the time of all tests.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES = (
    "wfrun.runners.cli.main",
    "wfrun.runners.cli.run.running",
    "wfrun.runners.cli.run.driving",
    "wfrun.runners.cli.inspect.looking",
)
"""What the server imports: what the commands use that tests start most."""
READ_AT_START = ("LANG", "LC_ALL", "LC_CTYPE", "LD_", "PYTHON")
"""Beginnings of the names of variables that a program or an interpreter reads when it starts."""
MAX_BYTES = 1 << 18
"""Maximum size of a message."""


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in environment if name.startswith(READ_AT_START)}


class WarmProcess:
    """A process that the server has forked, with what tests use of ``subprocess.Popen``."""

    def __init__(self, server: Server, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.status: int | None = None
        """The exit status, as ``subprocess`` has it; None: it runs, or the server has not told."""

    def poll(self) -> int | None:
        self._server.await_end(self, 0.0)
        return self.status

    def wait(self, timeout: float | None = None) -> int:
        self._server.await_end(self, timeout)
        if self.status is None:
            raise subprocess.TimeoutExpired("wfrun", timeout or 0.0)
        return self.status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Server:
    """The server, as its parent sees it. It ends with its parent."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environment = _read_at_start(os.environ)
        self._running: dict[int, WarmProcess] = {}
        """By pid. The system gives the pid of an ended process to another one later."""
        self._lock = threading.Lock()
        with theirs:
            subprocess.Popen(
                [sys.executable, "-m", "tests.runners.warm", str(theirs.fileno())],
                cwd=Path(__file__).parents[2],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            ).returncode = 0  # Nobody waits for it.

    def close(self) -> None:
        """End the server. Its processes go on."""
        self._socket.close()

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter would start in this environment as that of the server did."""
        return self._environment == _read_at_start(environment)

    def start(
        self, argv: list[str], folder: Path, environment: dict[str, str], out: Path, err: Path
    ) -> WarmProcess:
        limits = {
            name: resource.getrlimit(getattr(resource, name))
            for name in dir(resource)
            if name.startswith("RLIMIT_")
        }
        umask = os.umask(0)
        os.umask(umask)
        order = {"argv": argv, "folder": str(folder), "environment": environment, "out": str(out),
                 "err": str(err), "limits": limits, "umask": umask,
                 "cores": list(os.sched_getaffinity(0))}  # fmt: skip
        with self._lock:
            self._socket.sendall(json.dumps(order).encode())
            while (process := self._receive()) is None:
                pass
        return process

    def await_end(self, process: WarmProcess, patience_s: float | None) -> None:
        """Wait for the end of a process, at most this time; None: without a limit."""
        end_s = None if patience_s is None else time.monotonic() + patience_s
        with self._lock:
            while process.status is None:
                left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
                if not select.select([self._socket], [], [], left_s)[0]:
                    return
                self._receive()

    def _receive(self) -> WarmProcess | None:
        """Receive a message; returns the process that was started, None: one has ended."""
        message = self._socket.recv(MAX_BYTES)
        assert message, "the server that forks wfrun has ended"
        pid, status = json.loads(message)
        if status is None:
            self._running[pid] = WarmProcess(self, pid)
            return self._running[pid]
        self._running.pop(pid).status = status
        return None


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Fork a process for each order, in which this function returns the order. Ends when the other
    side is gone."""
    awake, wakes = socket.socketpair()
    for each in (awake, wakes):
        each.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        ready = select.select([connection, awake], [], [])[0]
        if awake in ready:
            awake.recv(MAX_BYTES)
            with contextlib.suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    status = os.waitstatus_to_exitcode(ended[1])
                    connection.sendall(json.dumps([ended[0], status]).encode())
        if connection in ready:
            message = connection.recv(MAX_BYTES)
            if not message:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (awake, wakes, connection):
                    each.close()
                order: dict[str, Any] = json.loads(message)
                return order
            connection.sendall(json.dumps([pid, None]).encode())


def _become(order: dict[str, Any]) -> None:
    """Take on what a process has from its start."""
    os.setsid()
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(order[name], os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
    for name, limits in order["limits"].items():
        resource.setrlimit(getattr(resource, name), tuple(limits))
    os.sched_setaffinity(0, order["cores"])
    os.umask(order["umask"])
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = order["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    # Processes of multiprocessing import the main module again.
    this = sys.modules["__main__"]
    this.__spec__ = None
    this.__file__ = sys.argv[0]


if __name__ == "__main__":
    for module in MODULES:
        import_module(module)
    gc.collect()
    gc.freeze()  # Collections in the processes would copy the pages that they share.
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
    from wfrun.runners.cli.main import main

    main()
