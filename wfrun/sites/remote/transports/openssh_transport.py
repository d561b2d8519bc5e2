"""Transport by the system's ``ssh``, for Kerberos, hardware tokens, and logins that the user gives
once and shares (``ControlMaster`` in ssh_config(5))."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import re
import shlex
import stat
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.files import cat
from wfrun.sites.remote.files.shell_files import ShellFiles
from wfrun.sites.remote.incoming import Listener, OnConnection, StreamConnection
from wfrun.sites.remote.transports.host_keys import changed_key, unknown_key
from wfrun.sites.remote.transports.local_transport import PIPE_BYTES, LocalProcess
from wfrun.sites.remote.transports.login_shell import portable
from wfrun.sites.remote.transports.socket_directory import SocketDirectory
from wfrun.sites.remote.transports.ssh_agent import check_agent
from wfrun.sites.remote.transports.transport import Address, NeedsLoginError

_ANSWER_BYTES = 1 << 20
"""Maximum output, in bytes, of an ssh command whose output is read whole."""
_LIMIT_S = 30.0
"""Timeout of requests that a live connection answers at once."""
_CHECK_INTERVAL_S = 5.0
"""Interval between checks of the user's own master connection."""
_DEFAULT_CIPHERS = "chacha20-poly1305@openssh.com,aes128-ctr,"
"""The beginning of OpenSSH's own list of ciphers."""
_FAST_CIPHER = "aes128-gcm@openssh.com"
"""The cipher that is tried first, unless the user has configured ciphers. Processors have
instructions for it, and with less processor time at both ends large files are faster."""
_READY = b"\x02wfrun: connected\x03"
_serial = itertools.count()

_STRICT = {
    "BatchMode": "yes",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "StrictHostKeyChecking": "yes",
    "Tunnel": "no",
}
_SSH_ERRORS = re.compile(
    r"^(mux_client|Control socket|ControlSocket|Connection (to|closed|reset)|Shared connection"
    r"|Session open refused|client_loop|kex_exchange|Timeout, server)",
    re.MULTILINE,
)
"""Messages of ssh itself. They show that an exit code 255 is that of ssh, not of the command."""


class _Session(LocalProcess):
    """A command over the shared connection."""

    def __init__(self, process: asyncio.subprocess.Process, owner: OpensshTransport) -> None:
        super().__init__(process)
        self._owner = owner

    async def wait(self) -> int | None:
        code = await super().wait()
        if code != 255:
            return code
        lost = _SSH_ERRORS.search(self.errors()) or not await self._owner.is_alive()
        return None if lost else code

    async def close(self) -> None:
        self._owner.sessions.discard(self)
        await super().close()


class _Forward:
    """Implements ``Listener``: a port of the host that leads to a local socket."""

    def __init__(
        self,
        owner: OpensshTransport,
        server: asyncio.AbstractServer,
        directory: SocketDirectory,
        control: str,
        spec: str,
    ) -> None:
        self.port = 0
        self._owner = owner
        self._server = server
        self._directory = directory
        self._control = control
        self._spec = spec

    async def control(self, command: str) -> tuple[int | None, str, str]:
        """Send a command to the master connection; returns exit code, stdout and stderr. The user's
        configuration is not read, since it may forward other ports."""
        argv = ["ssh", "-F", "/dev/null", "-S", self._control, "-O", command, "-R", self._spec]
        child = LocalProcess(await self._owner.spawn([*argv, "--", self._owner.host]))
        child.end_input()
        try:
            code, said = await asyncio.wait_for(_answer(child), _LIMIT_S)
        except asyncio.TimeoutError:
            code, said = None, "no answer"
        finally:
            await child.close()
        return code, said, child.errors()

    async def close(self) -> None:
        await self.control("cancel")
        self.end()

    def end(self) -> None:
        """Close the local server and remove its socket."""
        self._server.close()
        self._directory.remove()


def _accept_with(
    on_connection: OnConnection, host: str
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await StreamConnection(f"a machine behind {host}", reader.read, writer).serve(on_connection)

    return accept


class OpensshTransport:
    """Implements ``Transport`` by processes of the system's ``ssh`` that share one connection.

    ``host`` is a name of ``~/.ssh/config`` or of a machine. ``user`` and ``port`` override the
    configuration; ``config`` and ``known_hosts`` replace its files. A live master connection of the
    user is used and never ended: that of the configuration's ControlPath, or the one that the hint
    of a NeedsLoginError describes. Otherwise a master is started that ends at ``close`` or with
    this process. ssh never prompts, and host keys must be known. The connection counts as lost when
    the host is silent for three times ``keep_alive_s``. Sockets are in ``sockets``, a private
    directory.
    """

    def __init__(
        self,
        host: str,
        user: str | None = None,
        port: int | None = None,
        *,
        config: Path | None = None,
        known_hosts: Path | None = None,
        sockets: Path | None = None,
        keep_alive_s: float = 30.0,
        limit_s: float = _LIMIT_S,
    ) -> None:
        self.host = host
        self._flags = ["-F", str(config)] if config else []
        self._flags += ["-l", user] if user else []
        self._flags += ["-p", str(port)] if port else []
        if known_hosts is not None:
            for option in ("UserKnownHostsFile", "GlobalKnownHostsFile"):
                self._flags += ["-o", f'{option}="{known_hosts}"']
        self._sockets = sockets
        self._keep_alive_s = keep_alive_s
        self._limit_s = limit_s
        self._master: LocalProcess | None = None
        """The master connection; None if it is the user's."""
        self._ended: asyncio.Task[int | None] | None = None
        """Done when our master has ended."""
        self._socket: list[str] = []
        """The ssh option that names the socket of the master."""
        self._connected = False
        self.sessions: set[_Session] = set()

    async def connect(self) -> None:
        directory = _private_directory(self._sockets)
        name = hashlib.sha256("\0".join([*self._flags, self.host]).encode()).hexdigest()[:12]
        login = ["-S", str(directory / name)]
        for socket in ([], login):
            if await self._check(socket):
                self._socket = socket
                self._connected = True
                return
        self._socket = ["-S", str(directory / f"{os.getpid()}-{next(_serial)}")]
        try:
            await self._make_master(login)
        except BaseException:
            await self.close()
            raise
        self._connected = True

    async def _make_master(self, login: list[str]) -> None:
        """Start a master that runs ``cat`` at the host. When this process ends, the input of
        ``cat`` ends, and so do ``cat``, the master and the login."""
        ciphers = (await self._settings()).get("ciphers", "")
        if ciphers.startswith(_DEFAULT_CIPHERS) and _FAST_CIPHER in ciphers:
            ciphers = f"{_FAST_CIPHER},{ciphers}"  # ssh uses the first one that both ends have.
        options = {
            **_STRICT,
            **({"Ciphers": ciphers} if ciphers else {}),
            "ControlMaster": "yes",
            "ControlPersist": "no",
            "ConnectTimeout": str(max(1, round(self._limit_s))),
            # in seconds; 0 would disable it
            "ServerAliveInterval": str(max(1, round(self._keep_alive_s))),
            "ServerAliveCountMax": "3",
            "LogLevel": "DEBUG1",  # shows the fingerprint of an unknown host key
        }
        command = f"printf '\\002{_READY[1:-1].decode()}\\003'; exec cat > /dev/null"
        self._master = LocalProcess(await self.spawn(self._argv(options, command)))
        self._ended = asyncio.create_task(self._master.wait())
        try:
            ready = await asyncio.wait_for(_printed(self._master, _READY), self._limit_s)
        except asyncio.TimeoutError as error:
            raise TransientError(
                f"{self.host} cannot be reached: no answer in {self._limit_s:.0f} s"
            ) from error
        if not ready:
            await self._ended
            raise await self._explain(self._master.errors(), login)

    def _argv(
        self, options: dict[str, str], *command: str, socket: list[str] | None = None
    ) -> list[str]:
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        shared = self._socket if socket is None else socket
        return [
            "ssh", *self._flags, *shared, "-T", *words, "--", self.host,
            *(portable(line) for line in command),
        ]  # fmt: skip

    async def spawn(self, argv: list[str]) -> asyncio.subprocess.Process:
        """Start ssh in a session of its own, which neither Ctrl-C nor the terminal reaches."""
        try:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=PIPE_BYTES,
            )
        except FileNotFoundError as error:
            raise InfeasibleError(
                f"{self.host}: there is no ssh on this machine",
                hint="Install OpenSSH's client, or use transport: asyncssh.",
            ) from error
        except OSError as error:
            raise TransientError(f"{self.host}: ssh cannot be started: {error}") from error

    async def _ask(self, *words: str) -> tuple[int | None, str]:
        """Run ssh with an option that queries it; returns its exit code and output."""
        child = LocalProcess(await self.spawn(["ssh", *self._flags, *words, "--", self.host]))
        child.end_input()
        try:
            return await asyncio.wait_for(_answer(child), self._limit_s)
        except asyncio.TimeoutError:
            return None, ""
        finally:
            await child.close()

    async def _check(self, socket: list[str]) -> bool:
        """Whether a live master answers at this socket."""
        code, _ = await self._ask(*socket, "-o", "BatchMode=yes", "-O", "check")
        return code == 0

    async def is_alive(self) -> bool:
        """Whether the master connection is open."""
        return self._is_open() and await self._check(self._socket)

    def _is_open(self) -> bool:
        return self._connected and not (self._ended is not None and self._ended.done())

    async def start(self, command: str) -> _Session:
        if not self._is_open():
            raise TransientError(f"{self.host}: the connection was lost")
        # If the master has ended, ssh would connect by itself: ProxyCommand makes that fail.
        options = {**_STRICT, "ControlMaster": "no", "ProxyCommand": "exit 255"}
        argv = self._argv({**options, "LogLevel": "ERROR"}, command)
        session = _Session(await self.spawn(argv), self)
        if not self._connected:  # meanwhile
            await session.close()
            raise TransientError(f"{self.host}: the connection is closed")
        self.sessions.add(session)
        return session

    async def start_with_agent(self, command: str) -> LocalProcess:
        """Start a command over a connection of its own. A shared connection would go on to forward
        the user's agent after the command has ended."""
        settings = await self._settings()
        agent = settings.get("identityagent", "SSH_AUTH_SOCK")
        check_agent(self.host, None if agent == "SSH_AUTH_SOCK" else agent)
        options = {
            **_STRICT,
            "ForwardAgent": "yes",
            "ControlMaster": "no",
            "ControlPath": "none",
            "ConnectTimeout": str(max(1, round(self._limit_s))),
            "ServerAliveInterval": str(max(1, round(self._keep_alive_s))),
            "ServerAliveCountMax": "3",
            "LogLevel": "ERROR",
        }
        # Not a session of the shared connection: its end is no sign of a lost one.
        return LocalProcess(await self.spawn(self._argv(options, command, socket=[])))

    async def address(self) -> Address | None:
        settings = await self._settings()
        host, port = settings.get("hostname", self.host), settings.get("port", "22")
        name = settings.get("hostkeyalias", host if port == "22" else f"[{host}]:{port}")
        keys = []
        for option in ("userknownhostsfile", "globalknownhostsfile"):
            for file in shlex.split(settings.get(option, "")):
                keys += await self._known_keys(name, os.path.expanduser(file))
        user, known = settings.get("user", ""), tuple(dict.fromkeys(keys))
        return Address(host, number_of(port, 22), user, known)

    async def _known_keys(self, name: str, file: str) -> list[str]:
        """The keys of a host in a file of known hosts, in the format of ``authorized_keys``."""
        if not os.path.isfile(file):
            return []
        child = LocalProcess(await self.spawn(["ssh-keygen", "-F", name, "-f", file]))
        child.end_input()
        try:
            _, said = await asyncio.wait_for(_answer(child), self._limit_s)
        finally:
            await child.close()
        words = [line.split() for line in said.splitlines() if line[:1] not in ("#", "@", "")]
        return [" ".join(each[1:3]) for each in words if len(each) >= 3]

    async def _settings(self) -> dict[str, str]:
        """The user's configuration for the host: values by option, whose name is in lower case."""
        _, said = await self._ask("-G")
        return dict(line.partition(" ")[::2] for line in said.splitlines())

    def read_file(self, path: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        return cat.read_file(self, path, start)

    async def write_file(
        self, path: str, content: AsyncIterator[bytes], mode: int, start: int = 0
    ) -> int:
        return await cat.write_file(self, path, content, mode, start)

    async def plain_files(self) -> ShellFiles:
        return ShellFiles(self)

    async def forward(self, address: str | None, on_connection: OnConnection) -> Listener:
        path = await self.control_path()
        directory = SocketDirectory(_private_directory(self._sockets))
        where = directory.socket
        server = await asyncio.start_unix_server(_accept_with(on_connection, self.host), where)
        bind = "*" if address is None else f"[{address}]" if ":" in address else address
        forward = _Forward(self, server, directory, path, f"{bind}:0:{where}")
        try:
            code, said, errors = await forward.control("forward")
            opened = number_of(said.strip()) if code == 0 else None
            if opened is not None:
                forward.port = opened
                return forward
            if not self._is_open() or not await self.is_alive():
                raise TransientError(f"{self.host}: the connection was lost")
            raise InfeasibleError(
                f"{self.host} does not forward ports: {errors.strip() or said.strip()}"
            )
        except BaseException:
            forward.end()
            raise

    async def control_path(self) -> str:
        """The path of the master connection's socket. Raises TransientError when the connection was
        lost."""
        if not self._is_open():
            raise TransientError(f"{self.host}: the connection was lost")
        if self._socket:
            return self._socket[1]
        _, settings = await self._ask("-G")
        found = re.search(r"^controlpath (.+)$", settings, re.MULTILINE)
        if found is None:
            raise TransientError(f"{self.host}: the shared connection was lost")
        return found[1]

    async def lost(self) -> None:
        if self._ended is not None:
            await asyncio.wait([self._ended])
            return
        while await self.is_alive():
            await asyncio.sleep(_CHECK_INTERVAL_S)

    async def close(self) -> None:
        self._connected = False
        await asyncio.gather(*(session.close() for session in list(self.sessions)))
        if self._master is not None and self._ended is not None:
            await self._master.close()
            await self._ended
            with contextlib.suppress(OSError):
                os.unlink(self._socket[1])

    async def _explain(self, said: str, login: list[str]) -> WfrunError:
        """Return the error of a master that ended before it was ready."""
        lines = [line for line in said.splitlines() if line and not line.startswith("debug")]
        reason = "; ".join(lines[-3:]) or "ssh ended without a message"
        command = shlex.join(["ssh", *self._flags])
        host = shlex.quote(self.host)
        if "HAS CHANGED" in said or "Host key verification failed" in said:
            return await self._distrusted(said, f"{command} -o StrictHostKeyChecking=ask {host}")
        if "Permission denied" in said or "Too many authentication failures" in said:
            _, settings = await self._ask("-G")
            has_path = re.search(r"^controlpath (?!none$)", settings, re.MULTILINE)
            shared = "" if has_path else f" -S {shlex.quote(login[1])}"
            return NeedsLoginError(
                f"{self.host} needs a login that only you can give: {reason}",
                hint="Log in once; later connections share this login:"
                f"\n  {command} -fNM{shared} {host}",
            )
        if "Bad configuration option" in said or "terminating," in said:
            return InfeasibleError(f"{self.host}: {reason}", hint="Correct ~/.ssh/config.")
        return TransientError(f"{self.host} cannot be reached: {reason}")

    async def _distrusted(self, said: str, accept: str) -> InfeasibleError:
        values = await self._settings()
        name, port = values.get("hostname", self.host), values.get("port", "22")
        where = f"{self.host} ({name}, port {port})"
        shown = re.search(r"Server host key: (\S+ \S+)", said)
        key = shown[1] if shown else "an unknown key"
        offending = re.search(r"^Offending .* in (.+):\d+\s*$", said, re.MULTILINE)
        if offending:
            known_as = values.get("hostkeyalias", name if port == "22" else f"[{name}]:{port}")
            return changed_key(where, key, f"another one in {offending[1]}", known_as, offending[1])
        return unknown_key(where, key, accept)


async def _answer(child: LocalProcess) -> tuple[int | None, str]:
    said = b""
    while data := await child.read(1 << 16):
        said += data
        if len(said) > _ANSWER_BYTES:
            raise TransientError(f"ssh answered more than {_ANSWER_BYTES} bytes")
    return await child.wait(), said.decode(errors="replace")


async def _printed(child: LocalProcess, marker: bytes) -> bool:
    """Whether the command prints ``marker`` before it ends. A profile may print other text
    first."""
    said = b""
    while data := await child.read(1 << 16):
        said = said[-len(marker) :] + data
        if marker in said:
            return True
    return False


def _private_directory(wanted: Path | None) -> Path:
    """Make a directory that only the user can enter. Its path is short, because the path of a
    socket is limited to about 100 bytes. Raises InfeasibleError if none can be made."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if wanted is not None:
        places = [wanted]
    elif runtime and len(runtime) < 50 and os.access(runtime, os.W_OK):
        places = [Path(runtime, "wfrun")]
    else:
        # Anybody can make the first; the second may be on a file system without sockets.
        shared = Path(tempfile.gettempdir(), f"wfrun-{os.getuid()}")
        places = [shared, Path.home() / ".wfrun-ssh"]
    reasons = []
    for directory in places:
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            status = directory.lstat()
        except OSError as error:
            reasons.append(str(error))
            continue
        is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if is_ours and not status.st_mode & 0o077:
            return directory
        reasons.append(f"{directory} must be a directory of yours that nobody else can enter")
    raise InfeasibleError(
        f"no directory for SSH's sockets: {'; '.join(reasons)}",
        hint="Find out who made it, and remove it, or set XDG_RUNTIME_DIR.",
    )
