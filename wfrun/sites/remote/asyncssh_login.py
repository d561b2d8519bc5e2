"""How a connection of asyncssh comes about: configuration, host keys, and who the user is."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import asyncssh

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.remote.transport import NeedsLoginError

Prompter = Callable[[str, Sequence[tuple[str, bool]]], Awaitable[Sequence[str] | None]]
"""Asks the user at the terminal. It is given what the questions are about and the questions, each
with whether its answer may be seen while it is typed; it returns the answers, or None."""

DEFAULT_PORT = 22
_GLOBAL_CONFIG = "/etc/ssh/ssh_config"
_USER_KNOWN_HOSTS = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
_GLOBAL_KNOWN_HOSTS = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk", "id_dsa")


class Target:
    """One host as ``ssh_config(5)`` has it: the user's file, then the one of the machine, or only
    ``config``; ``known_hosts`` replaces the files that these name. Raises InfeasibleError when one
    can't be understood."""

    def __init__(
        self,
        name: str,
        user: str | None,
        port: int | None,
        config: Path | None,
        known_hosts: Path | None,
    ) -> None:
        self.name = name
        self._known_hosts = known_hosts
        files = [Path("~/.ssh/config").expanduser(), Path(_GLOBAL_CONFIG)]
        self.config = [str(path) for path in ([config] if config else files) if _readable(path)]
        self.given: dict[str, str | int] = {}
        if user is not None:
            self.given["username"] = user
        if port is not None:
            self.given["port"] = port
        try:
            options = asyncssh.SSHClientConnectionOptions(
                host=name, config=self.config, client_keys=None, known_hosts=None, **self.given
            )
        except (ValueError, OSError) as error:
            raise InfeasibleError(
                f"the SSH configuration for {name} can't be used: {error}",
                hint="Correct it, or let the system's ssh read it: transport: openssh",
            ) from error
        self._options = options.config
        self.host, self.port, self.user = options.host, options.port, options.username
        jumps = self._options.get("ProxyJump")
        self.jumps = str(jumps).split(",") if jumps else []
        alias = self._options.get("HostKeyAlias")
        self.key_name = str(alias) if alias else self.host
        if alias is None and self.port != DEFAULT_PORT:
            self.key_name = f"[{self.host}]:{self.port}"

    def _files(self, option: str, default: list[str] | None) -> list[str] | None:
        value = self._options.get(option, default)
        if not isinstance(value, list):
            return default
        return [os.path.expanduser(str(name)) for name in value]

    def known_hosts_files(self) -> list[str]:
        """The user's first: that is where a new key is written to."""
        if self._known_hosts is not None:
            return [str(self._known_hosts)]
        users = self._files("UserKnownHostsFile", _USER_KNOWN_HOSTS) or []
        return users + (self._files("GlobalKnownHostsFile", _GLOBAL_KNOWN_HOSTS) or [])

    def known_hosts(self) -> asyncssh.SSHKnownHosts:
        """Raises InfeasibleError when a file has a line that can't be understood."""
        known = asyncssh.SSHKnownHosts()
        for name in self.known_hosts_files():
            if _readable(Path(name)):
                try:
                    known.load(Path(name).read_text(encoding="utf-8", errors="replace"))
                except ValueError as error:
                    raise InfeasibleError(
                        str(error), source=name, hint="Correct or remove that line."
                    ) from error
        return known

    def keys(self) -> list[str] | None:
        """The configured keys that are there; None: the usual ones."""
        names = self._files("IdentityFile", None)
        return None if names is None else [name for name in names if _readable(Path(name))]

    def encrypted_keys(self) -> list[str]:
        """Keys that would have been tried, had they not a passphrase."""
        names = self.keys()
        if names is None:
            names = [str(Path("~/.ssh").expanduser() / name) for name in _DEFAULT_KEYS]
        return [name for name in names if _is_encrypted(name)]


def _readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)


def _is_encrypted(name: str) -> bool:
    try:
        asyncssh.read_private_key(name)
    except asyncssh.KeyEncryptionError:
        return True
    except asyncssh.KeyImportError as error:
        return "assphrase" in str(error)
    except (OSError, ValueError):
        return False
    return False


class Client(asyncssh.SSHClient):
    """Answers what asyncssh asks while it logs in, and remembers what it saw. Each way to log in
    is tried once: a wrong answer is not asked for again."""

    def __init__(self, target: Target, prompter: Prompter | None) -> None:
        self._target = target
        self._prompter = prompter
        self._password_asked = self._questions_asked = False
        self.wanted_answers = False
        """The server would have taken a password or other answers."""
        self.key: asyncssh.SSHKey | None = None
        """The host key that was not trusted."""
        self.authority: asyncssh.SSHKey | None = None
        """The authority of a host certificate that was not trusted."""
        self.trusts = False
        """The host has shown who it is."""
        self.reason = ""
        """Why the connection was lost."""

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Called for a key that known_hosts does not hold."""
        self.key = key
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for an authority that known_hosts does not hold."""
        self.authority = key
        return False

    def begin_auth(self, username: str) -> None:
        self.trusts = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.reason = str(exc) if exc else "it was closed"

    async def _ask(self, about: str, questions: Sequence[tuple[str, bool]]) -> list[str] | None:
        self.wanted_answers = True
        if self._prompter is None:
            return None
        who = f"{self._target.user}@{self._target.name}"
        answers = await self._prompter(f"{who}: {about}" if about else who, questions)
        return None if answers is None else list(answers)

    async def password_auth_requested(self) -> str | None:
        if self._password_asked:
            return None
        self._password_asked = True
        answers = await self._ask("", [("Password: ", False)])
        return answers[0] if answers else None

    def kbdint_auth_requested(self) -> str | None:
        if self._questions_asked:
            return None
        self._questions_asked = True
        return ""

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        if not prompts:  # It only says something.
            return []
        # A password that was asked for once this way is not asked for again the other way.
        self._password_asked = True
        about = " ".join(part.strip() for part in (name, instructions) if part.strip())
        return await self._ask(about, prompts)


async def log_in(
    target: Target,
    prompter: Prompter | None,
    tunnel: asyncssh.SSHClientConnection | None,
    *,
    keep_alive_s: float,
    limit_s: float,
) -> tuple[asyncssh.SSHClientConnection, Client]:
    """Connect and log in. The errors are those of ``Transport.connect``; host keys are checked
    strictly, whatever the configuration says."""
    client = Client(target, prompter)
    known = target.known_hosts()
    keys = target.keys()
    identities: dict[str, object] = {} if keys is None else {"client_keys": keys}
    common: dict[str, object] = {**target.given, "config": target.config, "tunnel": tunnel}
    try:
        connection = await asyncssh.connect(
            target.name,
            client_factory=lambda: client,
            known_hosts=known,
            ignore_encrypted=True,
            agent_forwarding=False,
            x11_forwarding=False,
            connect_timeout=limit_s,
            login_timeout=300.0 if prompter else limit_s,
            keepalive_interval=keep_alive_s,
            keepalive_count_max=3,
            **common,
            **identities,
        )
    except asyncssh.PermissionDenied as error:
        raise _refused(target, client) from error
    except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
        if client.key is None and "revoked" not in str(error):  # It has a certificate.
            client.key = await _show_key(target, common)
        raise _not_verified(target, known, client, str(error)) from error
    except (OSError, asyncssh.Error, asyncio.TimeoutError) as error:
        ended = isinstance(error, asyncssh.ConnectionLost | ConnectionResetError)
        if ended and not client.trusts and _trusted(target, known):
            # So hosts end it when they have no key of the kinds that are known.
            client.key = await _show_key(target, common)
            if client.key is not None and client.key not in _trusted(target, known):
                raise _not_verified(target, known, client, str(error)) from error
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number and number > 0 else str(error)
        raise TransientError(
            f"{target.name} can't be reached: {reason or 'it took too long'}"
        ) from error
    except ValueError as error:  # Keys that can't be read.
        raise InfeasibleError(f"{target.name}: {error}", hint="Correct ~/.ssh/config.") from error
    return connection, client


async def _show_key(target: Target, options: dict[str, object]) -> asyncssh.SSHKey | None:
    """The host's key, whatever its kind; nothing is sent to the host."""
    try:
        return await asyncssh.get_server_host_key(
            target.name,
            server_host_key_algs=_plain_algorithms(),
            **options,  # type: ignore[arg-type]
        )
    except (OSError, asyncssh.Error, asyncio.TimeoutError):
        return None


def _trusted(target: Target, known: asyncssh.SSHKnownHosts) -> Sequence[asyncssh.SSHKey]:
    alias = target.key_name if not target.key_name.startswith("[") else target.host
    port = target.port if target.port != DEFAULT_PORT else None
    return known.match(alias, "", port)[0]


def _plain_algorithms() -> list[str]:
    return ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
            "rsa-sha2-512", "rsa-sha2-256"]  # fmt: skip


def _refused(target: Target, client: Client) -> NeedsLoginError:
    who = f"{target.user}@{target.name}"
    encrypted = target.encrypted_keys()
    if encrypted:
        names = ", ".join(encrypted)
        return NeedsLoginError(
            f"{who} refused the login; not tried, because there is a passphrase on it: {names}",
            hint="Give it to your agent: ssh-add " + " ".join(map(shlex.quote, encrypted)),
        )
    if client.wanted_answers:
        return NeedsLoginError(
            f"{who} wants a password or a code that was not given, or not the right one",
            hint="Answer it at a terminal (end the run, then wfrun resume); or have a key accepted "
            "there (ssh-copy-id).",
        )
    return NeedsLoginError(
        f"{who} refused the login: it takes none of the keys of your agent and your configuration",
        hint=f"Have a key accepted there (ssh-copy-id {shlex.quote(target.name)}), or name another "
        "with IdentityFile in ~/.ssh/config.",
    )


def _not_verified(
    target: Target, known: asyncssh.SSHKnownHosts, client: Client, reason: str
) -> WfrunError:
    where = f"{target.name} ({target.host}, port {target.port})"
    trusted = _trusted(target, known)
    file = target.known_hosts_files()[0] if target.known_hosts_files() else ""
    if client.key is None:
        return InfeasibleError(
            f"the host key of {where} can't be trusted: {reason}",
            hint="Ask the people who run it.",
        )
    # Both are host keys, and public.
    text = client.key.export_public_key().decode().split()
    shown = f"{text[0]} {client.key.get_fingerprint()}"
    if trusted:
        known_as = ", ".join(f"{key.get_algorithm()} {key.get_fingerprint()}" for key in trusted)
        return InfeasibleError(
            f"THE HOST KEY OF {where} HAS CHANGED: it shows {shown}, known is {known_as}. Either "
            "somebody is between you and the host, or its administrators have changed the key",
            hint="Ask them; if they have: "
            f"ssh-keygen -R {shlex.quote(target.key_name)} -f {shlex.quote(file)}",
        )
    line = f"{target.key_name} {text[0]} {text[1]}"
    return InfeasibleError(
        f"the host key of {where} is not known: {shown}",
        hint="Compare the fingerprint with what its administrators publish. If it is theirs, accept"
        f" it:\n  {_accept(line, file)}",
    )


def _accept(line: str, file: str) -> str:
    """The command that accepts exactly this key."""
    file = file or os.path.expanduser(_USER_KNOWN_HOSTS[0])
    directory = os.path.dirname(file)
    make = "" if os.path.isdir(directory) else f"mkdir -p -m 700 {shlex.quote(directory)} && "
    return f"{make}echo {shlex.quote(line)} >> {shlex.quote(file)}"
