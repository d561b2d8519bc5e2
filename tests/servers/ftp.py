"""A plain FTP server (RFC 959) whose faults a test chooses, for the client of GridFTP.

The real GridFTP server tells no lies. This one serves files of this machine to ``globus-url-copy``,
one thread for each connection, by the commands that it uses with anonymous servers.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

from tests.servers.faults import Fault, Faults, Kind, Operation, Request, changed
from tests.waiting import PATIENCE_S

BLOCK = 1 << 15
"""Number of bytes of a file that are moved at a time."""
NO_SPACE = "No space left on device"
_GRANTED = {"TYPE", "MODE", "STRU", "ALLO", "NOOP", "OPTS", "DCAU", "SITE", "SBUF"}
"""Commands that are answered and have no effect."""


class _RefusedError(Exception):
    """A command is answered with this text."""


class FaultyFTP:
    """A server on a free port of loopback. Paths are those of the machine.

    Faults of ``read``, ``write`` and ``open`` are those of a file, of ``stat`` that of ``SIZE``, of
    ``channel`` that of a login: ``denied`` refuses it, ``no-channel`` ends the connection.
    """

    def __init__(self) -> None:
        self.faults = Faults()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ftp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sessions: list[_Session] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                control, _ = self._listener.accept()
            except OSError:
                return
            session = _Session(self.faults, control)
            self._sessions.append(session)
            session.start()

    def close(self) -> None:
        """End all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.faults.heal()
        for session in self._sessions:
            session.reset()
            session.join(PATIENCE_S)


class _Session(threading.Thread):
    """A control connection, and its data connection."""

    def __init__(self, faults: Faults, control: socket.socket) -> None:
        super().__init__(daemon=True)
        self._faults = faults
        self._sockets = [control]
        """The control connection, and then that of the data."""
        self._passive: socket.socket | None = None
        self._active: tuple[str, int] | None = None
        self._start = 0
        self._is_welcome = False

    def run(self) -> None:
        control = self._sockets[0]
        try:
            with contextlib.suppress(OSError), control, control.makefile("rb") as lines:
                self._answer("220 ready")
                for line in lines:
                    answer = self._answer_to(line.decode().strip())
                    self._answer(answer)
                    if answer.startswith(("221", "421")):
                        return
        finally:
            self._listen_no_more()

    def _answer_to(self, line: str) -> str:
        command, _, argument = line.partition(" ")
        try:
            return self._do(command.upper(), argument)
        except _RefusedError as refused:
            return str(refused)
        except FileNotFoundError:
            return "550 No such file or directory"

    def _listen_no_more(self) -> None:
        if self._passive is not None:
            self._passive.close()
            self._passive = None

    def reset(self) -> None:
        """Close all connections as a crashed host does, and the listener, in which a thread waits
        for a client that went away before its data came."""
        passive = self._passive
        if passive is not None:
            with contextlib.suppress(OSError):  # the other thread has closed it
                passive.shutdown(socket.SHUT_RDWR)
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # Another thread may wait in it: closing alone would not wake that one.
                each.shutdown(socket.SHUT_RDWR)
                each.close()

    def _answer(self, text: str) -> None:
        self._sockets[0].sendall(f"{text}\r\n".encode())

    def _do(self, command: str, argument: str) -> str:
        if not self._is_welcome and command not in ("USER", "PASS", "QUIT"):
            return "530 Please log in"  # The client goes on after a login that failed.
        if command in _GRANTED:
            return "200 done"
        handler = getattr(self, f"_do_{command.lower()}", None)
        return "502 not implemented" if handler is None else str(handler(argument))

    def _do_user(self, name: str) -> str:
        return "331 any password"

    def _do_pass(self, password: str) -> str:
        is_full = "no-channel" in self._strike("channel", "login")
        self._is_welcome = not is_full
        return "421 Too many connections" if is_full else "230 logged in"

    def _do_feat(self, argument: str) -> str:
        return "211-Extensions supported\r\n SIZE\r\n REST STREAM\r\n211 End"

    def _do_quit(self, argument: str) -> str:
        return "221 bye"

    def _do_size(self, path: str) -> str:
        found = self._faults.strike(Request("stat", path))
        more = found["wrong-size"].amount if "wrong-size" in found else 0
        return f"213 {os.stat(path).st_size + more}"

    def _do_rest(self, position: str) -> str:
        self._start = int(position)
        return "350 go on"

    def _do_pasv(self, argument: str) -> str:
        self._listen_no_more()
        self._passive = socket.create_server(("127.0.0.1", 0))
        port = self._passive.getsockname()[1]
        return f"227 Entering Passive Mode (127,0,0,1,{port // 256},{port % 256})"

    def _do_port(self, address: str) -> str:
        *host, high, low = address.split(",")
        self._active = ".".join(host), int(high) * 256 + int(low)
        return "200 done"

    def _do_retr(self, path: str) -> str:
        self._strike("open", path)
        with open(path, "rb") as file, self._data() as data:
            offset, self._start = file.seek(self._start), 0
            while block := file.read(BLOCK):
                found = self._strike("read", path, offset, len(block))
                if "cut-short" in found:
                    break
                data.sendall(changed(block) if "wrong-bytes" in found else block)
                offset += len(block)
        return "226 Transfer complete"

    def _do_stor(self, path: str) -> str:
        self._strike("open", path)
        with open(path, "r+b" if self._start else "wb") as file, self._data() as data:
            offset, self._start = file.seek(self._start), 0
            while block := data.recv(BLOCK):
                found = self._strike("write", path, offset, len(block))
                if "lost-write" not in found:
                    file.seek(offset)
                    file.write(changed(block) if "wrong-bytes" in found else block)
                offset += len(block)
        return "226 Transfer complete"

    @contextlib.contextmanager
    def _data(self) -> Iterator[socket.socket]:
        """The data connection, which ends with the file."""
        if self._passive is not None:
            self._answer("150 Beginning transfer")
            self._passive.settimeout(PATIENCE_S)
            data, _ = self._passive.accept()
            data.settimeout(None)
            self._listen_no_more()
        else:
            assert self._active is not None
            data = socket.create_connection(self._active)
            self._answer("150 Beginning transfer")
        self._active = None
        self._sockets[1:] = [data]
        with data:
            yield data

    def _strike(
        self, operation: Operation, path: str, offset: int = 0, size: int = 0
    ) -> dict[Kind, Fault]:
        """Apply faults; returns those that are the caller's. Raises what is answered."""
        found = self._faults.strike(Request(operation, path, offset, size))
        if "stall" in found:
            self._faults.stall(found["stall"])
        if "slow" in found:
            time.sleep(size / found["slow"].amount)
        if "reset" in found:
            self.reset()
            raise ConnectionResetError
        if "denied" in found:
            is_login = operation == "channel"
            raise _RefusedError("530 Login incorrect" if is_login else "550 Permission denied")
        if "vanish" in found:
            os.unlink(path)
            raise _RefusedError("551 No such file or directory")
        if "no-space" in found:
            raise _RefusedError(f"552 {NO_SPACE}")
        return found
