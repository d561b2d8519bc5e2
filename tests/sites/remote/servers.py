"""SSH servers of the tests, on loopback: the real sshd, one by paramiko that misbehaves on demand,
and a line between client and server that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import paramiko
import pytest
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_RESOURCE_SHORTAGE,
    OPEN_SUCCEEDED,
)
from paramiko.server import InteractiveQuery

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_key(path: Path, passphrase: str = "", comment: str = "test") -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", comment, "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )
    return path


def public(key: Path) -> str:
    """Return type and key, without the comment."""
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def descendants(pid: int) -> list[int]:
    """Return a process and all its descendants, from /proc."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                text = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found += [int(word) for word in text.split()]
    return found


class Sshd:
    """A real sshd; ``stop`` ends it with all its connections, ``start`` restarts it."""

    def __init__(self, directory: Path, key: Path, options: Sequence[str] = ()) -> None:
        if SSHD is None:
            pytest.skip("no sshd on this machine")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.directory = directory
        self.host_key = directory / "host_key"
        if not self.host_key.exists():
            new_key(self.host_key)
        self.authorized = directory / "authorized_keys"
        self.authorized.write_text(public(key) + "\n")
        # A home of its own: the user's profile is not part of the tests, and a killed login must
        # not leave files there.
        self.home = directory / "home"
        self.home.mkdir(exist_ok=True)
        self._config = directory / "sshd_config"
        self._config.write_text(
            "\n".join(
                [
                    f"Port {self.port}",
                    "ListenAddress 127.0.0.1",
                    f"HostKey {self.host_key}",
                    f"AuthorizedKeysFile {self.authorized}",
                    f"PidFile {directory / 'pid'}",
                    "StrictModes no",
                    "UsePAM no",
                    "PermitRootLogin yes",
                    f"SetEnv HOME={self.home}",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    *(options or ["Subsystem sftp internal-sftp"]),
                ]
            )
            + "\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        assert SSHD is not None
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError((self.directory / "log").read_text())

    def stop(self) -> None:
        if self._process is not None:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(100)
            self._process = None

    def processes(self) -> list[int]:
        """Return its processes and those of its connections."""
        return descendants(self._process.pid) if self._process is not None else []

    def connections(self) -> int:
        """Return the present number of connections."""
        assert self._process is not None
        task = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        return len(Path(task).read_text().split())

    def logins(self) -> int:
        return (self.directory / "log").read_text().count("Accepted publickey")


def config_of(
    path: Path, port: int, key: Path, known_hosts: Path, *, name: str = "cluster", more: str = ""
) -> str:
    """Add a host to an SSH configuration that is independent of this machine's."""
    text = f"""Host {name}
  HostName 127.0.0.1
  Port {port}
  User {getpass.getuser()}
  IdentityFile {key}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {known_hosts}
  GlobalKnownHostsFile /dev/null
{more}
"""
    with open(path, "a") as file:
        file.write(text)
    return name


class Line:
    """Forwards TCP to a port, until it is cut, goes silent or corrupts what it forwards."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False
        self._until_flip: int | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        self._writers.add(far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                if not self._silent:
                    sink.write(self._flipped(data))
                    await sink.drain()
        sink.close()

    def flip_after(self, size_bytes: int) -> None:
        """Flip one bit after ``size_bytes`` more bytes. A router with bad memory does that if it
        also computes TCP's checksum again."""
        self._until_flip = size_bytes

    @property
    def has_flipped(self) -> bool:
        """Whether a bit was flipped."""
        return self._until_flip is None

    def _flipped(self, data: bytes) -> bytes:
        if self._until_flip is None:
            return data
        if self._until_flip >= len(data):
            self._until_flip -= len(data)
            return data
        at, self._until_flip = self._until_flip, None
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]

    def go_silent(self) -> None:
        """Drop all data, like a firewall that has forgotten the connection."""
        self._silent = True

    def cut(self) -> None:
        self._silent = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Misbehaving(paramiko.ServerInterface):
    """An SSH server by paramiko, whose faults are chosen by its attributes."""

    def __init__(self, directory: Path) -> None:
        self.key = paramiko.Ed25519Key.from_private_key_file(str(new_key(directory / "key")))
        self.password: str | None = None
        self.code: str | None = None
        """The answer to a second question."""
        self.title, self.instructions = "Two steps", "as every morning"
        self.question = "Password: "
        self.banner: str | None = None
        self.accepts_sessions = True
        self.answers = True
        """False: accept TCP connections and stay silent."""
        self.bytes_until_drop: int | None = None
        self.questions = 0
        self.connections = 0
        self._asked: list[str] = []
        self._transports: list[paramiko.Transport] = []
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def known_hosts_line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(client)
            if self.answers:
                transport = paramiko.Transport(client)
                transport.add_server_key(self.key)
                self._transports.append(transport)
                with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                    transport.start_server(server=self)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        for transport in self._transports:
            transport.close()
        for client in self._sockets:
            client.close()

    def get_allowed_auths(self, username: str) -> str:
        if self.code:
            return "keyboard-interactive"
        return "password" if self.password else "publickey"

    def check_auth_password(self, username: str, password: str) -> int:
        self.questions += 1
        right = self.password is not None and password == self.password
        return AUTH_SUCCESSFUL if right else AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_FAILED if self.password else AUTH_SUCCESSFUL

    def check_auth_interactive(self, username: str, submethods: str) -> int | InteractiveQuery:
        if self.code is None:
            return AUTH_FAILED
        self._asked = [self.password or ""]
        return self._query(self.question)

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        self.questions += 1
        if responses != self._asked:
            return AUTH_FAILED
        if self._asked == [self.code]:
            return AUTH_SUCCESSFUL
        self._asked = [self.code or ""]
        return self._query("One-time code: ")

    def _query(self, question: str) -> InteractiveQuery:
        query = InteractiveQuery(self.title, self.instructions)
        query.add_prompt(question, False)
        return query

    def get_banner(self) -> tuple[str | None, str | None]:
        return self.banner, "en-US"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if not self.accepts_sessions:
            return OPEN_FAILED_RESOURCE_SHORTAGE
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._run, args=(channel, command), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: bytes) -> None:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException), process.stdout:
            sent = 0
            while data := os.read(process.stdout.fileno(), 4096):
                channel.sendall(data)
                sent += len(data)
                if self.bytes_until_drop is not None and sent >= self.bytes_until_drop:
                    process.kill()
                    process.wait()
                    channel.get_transport().close()
                    return
            channel.send_exit_status(process.wait())
            channel.close()
        process.wait()
