"""An SSH server by paramiko, independent of OpenSSH and asyncssh: SFTP and real commands, with
faults that a test chooses."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_RESOURCE_SHORTAGE,
    OPEN_SUCCEEDED,
)

from tests.servers.faults import Fault, Faults, Kind, Request
from tests.servers.sftp import Files, Subsystem
from tests.sites.remote.servers import config_of, new_key, public

BLOCK = 1 << 15
"""Bytes moved at a time between a command and its channel."""


class FaultySSH:
    """A server on a free port of loopback, open to the holder of its key.

    ``faults.inject`` lets it misbehave, ``faults.heal`` undoes that; ``faults.requests`` is what it
    was asked for. ``ssh_config`` makes it known as ``name``. Commands run by ``/bin/sh`` as the
    user of the tests, in ``home``.
    """

    def __init__(self, directory: Path, name: str = "faulty") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.faults = Faults()
        self.home = directory / "home"
        self.home.mkdir()
        self.key = new_key(directory / "user_key")
        self.authorized = public(self.key)
        self.host_key = paramiko.Ed25519Key.from_private_key_file(
            str(new_key(directory / "host_key"))
        )
        self._sessions: list[Session] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.write_text(
            f"[127.0.0.1]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"
        )
        self.ssh_config = directory / "ssh_config"
        config_of(self.ssh_config, self.port, self.key, self.known_hosts, name=name)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            session = Session(self, client)
            self._sessions.append(session)
            session.start()

    @property
    def connections(self) -> int:
        """Number of connections accepted so far."""
        return len(self._sessions)

    def lose_connections(self) -> None:
        """Close all connections as a crashed host does; commands go on."""
        for session in tuple(self._sessions):
            session.reset()

    def close(self) -> None:
        """End all connections and commands."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        self.faults.heal()
        for session in self._sessions:
            session.close()


class Session(paramiko.ServerInterface):
    """One connection."""

    def __init__(self, faulty: FaultySSH, client: socket.socket) -> None:
        self.faulty = faulty
        self._client = client
        self._processes: list[subprocess.Popen[bytes]] = []
        self._transport = paramiko.Transport(client)
        self._transport.add_server_key(faulty.host_key)

    def start(self) -> None:
        # The event makes it return at once; a client that goes away meanwhile ends the transport.
        self._transport.start_server(event=threading.Event(), server=self)

    def reset(self) -> None:
        """Close the connection as a crashed host does: the client gets ECONNRESET."""
        linger = struct.pack("ii", 1, 0)
        with contextlib.suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._client.close()

    def close(self) -> None:
        self._transport.close()
        self._client.close()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = f"{key.get_name()} {key.get_base64()}" == self.faulty.authorized
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        refused = self.faulty.faults.strike(Request("channel", kind))
        return OPEN_FAILED_RESOURCE_SHORTAGE if refused else OPEN_SUCCEEDED

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        if name != "sftp" or self.faulty.faults.strike(Request("sftp", name)):
            return False
        Subsystem(channel, name, self, Files).start()
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        text = command.decode(errors="surrogateescape")
        found = self.faulty.faults.strike(Request("exec", text))
        if "denied" in found:
            return False
        threading.Thread(
            target=Command(self, channel, text).run, args=(found,), daemon=True
        ).start()
        return True

    def popen(self, command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=self.faulty.home,
            env={**os.environ, "HOME": str(self.faulty.home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.append(process)
        return process


class Command:
    """A command of an ``exec`` request, its three streams carried by the channel.

    Faults of reads affect what it prints, those of writes what it is sent; their path is the
    command line.
    """

    def __init__(self, session: Session, channel: paramiko.Channel, text: str) -> None:
        self.session = session
        self.channel = channel
        self.text = text

    def run(self, found: dict[Kind, Fault]) -> None:
        with contextlib.suppress(ConnectionResetError):
            self._apply(found)
            self._run()

    def _run(self) -> None:
        process = self.session.popen(self.text)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        threading.Thread(target=self._feed, args=(process.stdin,), daemon=True).start()
        errors = threading.Thread(
            target=self._print, args=(process.stderr, self.channel.sendall_stderr), daemon=True
        )
        errors.start()
        self._print(process.stdout, self.channel.sendall, faulty=True)
        errors.join()
        code = process.wait()
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self.channel.send_exit_status(code if code >= 0 else 128 - code)
            self.channel.close()

    def _feed(self, stdin: IO[bytes]) -> None:
        moved = 0
        with contextlib.suppress(OSError, EOFError), stdin:
            while data := self.channel.recv(BLOCK):
                self._strike("write", moved, len(data))
                moved += len(data)
                stdin.write(data)
                stdin.flush()

    def _print(
        self, source: IO[bytes], send: Callable[[bytes], object], *, faulty: bool = False
    ) -> None:
        moved = 0
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException), source:
            while data := os.read(source.fileno(), BLOCK):
                if faulty:
                    self._strike("read", moved, len(data))
                moved += len(data)
                send(data)

    def _strike(self, operation: Literal["read", "write"], offset: int, size: int) -> None:
        faults = self.session.faulty.faults
        self._apply(faults.strike(Request(operation, self.text, offset, size)), size)

    def _apply(self, found: dict[Kind, Fault], size: int = 0) -> None:
        if "stall" in found:
            self.session.faulty.faults.stall(found["stall"])
        if "slow" in found:
            time.sleep(size / found["slow"].amount)
        if "reset" in found:
            self.session.reset()
            raise ConnectionResetError
