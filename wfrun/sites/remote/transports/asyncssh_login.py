"""Logins by asyncssh: configuration, host keys, and authentication."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import asyncssh

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.transports.host_keys import changed_key, unknown_key
from wfrun.sites.remote.transports.transport import NeedsLoginError
from wfrun.sites.tasks import end_tasks

Prompter = Callable[[str, Sequence[tuple[str, bool]]], Awaitable[Sequence[str] | None]]
"""Asks the user at the terminal. Arguments: the subject, and the questions, each with a flag that
says whether its answer may be visible. Returns the answers; None: the user gives none."""

_ANSWERS_S = 300.0
"""Timeout, in seconds, of a login that asks the user: long enough to find a token."""
_STEP_S = 0.25
"""Interval, in seconds, between checks whether the user is being asked."""
_CIPHERS = "^aes128-gcm@openssh.com"
"""The cipher that is tried first, unless the user has configured ciphers: processors have
instructions for it. For ChaCha20-Poly1305, which OpenSSH prefers, asyncssh sets up the cipher four
times for each packet."""
_PACKET_BYTES = 1 << 17
"""Maximum payload of a packet that a host may send. Each packet costs Python some time. OpenSSH
sends no packets of more than 256 KiB (packet.c)."""
_T = TypeVar("_T")

DEFAULT_PORT = 22
_GLOBAL_CONFIG = "/etc/ssh/ssh_config"
_USER_KNOWN_HOSTS = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
_GLOBAL_KNOWN_HOSTS = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk", "id_dsa")


class Target:
    """One host as configured by ``ssh_config(5)``.

    The user's file is read first, then the system's; or ``config`` alone. ``known_hosts`` replaces
    the files of known hosts that the configuration names. Raises InfeasibleError for an invalid
    configuration.
    """

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
                f"the SSH configuration for {name} cannot be used: {error}",
                hint="Correct it, or write 'transport: openssh' in the catalog",
            ) from error
        self._options = options.config
        self.host, self.port, self.user = options.host, options.port, options.username
        agent = self._options.get("IdentityAgent")
        self.agent = str(agent) if agent else None
        """Socket of the SSH agent; None: that of SSH_AUTH_SOCK."""
        jumps = self._options.get("ProxyJump")
        self.jumps = str(jumps).split(",") if jumps else []
        alias = self._options.get("HostKeyAlias")
        self.ciphers = _CIPHERS if self._options.get("Ciphers") is None else ()
        self.key_name = str(alias) if alias else self.host
        if alias is None and self.port != DEFAULT_PORT:
            self.key_name = f"[{self.host}]:{self.port}"

    def _files(self, option: str, default: list[str] | None) -> list[str] | None:
        value = self._options.get(option, default)
        if not isinstance(value, list):
            return default
        return [os.path.expanduser(str(name)) for name in value]

    def known_hosts_files(self) -> list[str]:
        """Names of the files of known hosts. New keys are added to the first file, which is the
        user's."""
        if self._known_hosts is not None:
            return [str(self._known_hosts)]
        users = self._files("UserKnownHostsFile", _USER_KNOWN_HOSTS) or []
        return users + (self._files("GlobalKnownHostsFile", _GLOBAL_KNOWN_HOSTS) or [])

    def known_hosts(self) -> asyncssh.SSHKnownHosts:
        """Read the known host keys. Raises InfeasibleError for an invalid line."""
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
        """Names of the configured private keys that exist; None: the default keys."""
        names = self._files("IdentityFile", None)
        return None if names is None else [name for name in names if _readable(Path(name))]

    def encrypted_keys(self) -> list[str]:
        """Names of private keys that were skipped because they have a passphrase."""
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
    """Callbacks of a login: answers its questions and records why it failed. Each method of
    authentication is tried once: after a wrong answer the user is not asked again."""

    def __init__(self, target: Target, prompter: Prompter | None) -> None:
        self._target = target
        self._prompter = prompter
        self._password_asked = self._questions_asked = False
        self.wanted_answers = False
        """Whether the server asked for a password or other answers."""
        self.is_asking = False
        """Whether the user is asked now."""
        self.key: asyncssh.SSHKey | None = None
        """Host key that was not trusted."""
        self.authority: asyncssh.SSHKey | None = None
        """Authority of a host certificate that was not trusted."""
        self.is_verified = False
        """Whether the host proved its identity."""
        self.reason = ""
        """Reason of the loss of the connection."""

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Refuse a host key that known_hosts does not have, and keep the key for the message."""
        self.key = key
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Refuse an authority that known_hosts does not have, and keep its key for the message."""
        self.authority = key
        return False

    def begin_auth(self, username: str) -> None:
        self.is_verified = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.reason = str(exc) if exc else "it was closed"

    async def _ask(self, about: str, questions: Sequence[tuple[str, bool]]) -> list[str] | None:
        self.wanted_answers = True
        if self._prompter is None:
            return None
        who = f"{self._target.user}@{self._target.name}"
        self.is_asking = True
        try:
            answers = await self._prompter(f"{who}: {about}" if about else who, questions)
        finally:
            self.is_asking = False
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
        if not prompts:  # a message without a question
            return []
        # A server that asks this way would ask for the same password by the other method again.
        self._password_asked = True
        about = " ".join(part.strip() for part in (name, instructions) if part.strip())
        # Each question says who asks: the host could word one as another host's, or as wfrun's.
        who = f"({self._target.user}@{self._target.name})"
        return await self._ask(about, [(f"{who} {text}", shown) for text, shown in prompts])


async def log_in(
    target: Target,
    prompter: Prompter | None,
    tunnel: asyncssh.SSHClientConnection | None,
    *,
    keep_alive_s: float,
    limit_s: float,
    agent: str | None = None,
) -> tuple[asyncssh.SSHClientConnection, Client]:
    """Connect and log in. Raises the errors of ``Transport.connect``.

    Host keys are always checked strictly, even if the configuration says otherwise. The host may
    use the SSH agent at the socket ``agent``; None: no agent. ``limit_s``: see `unless_silent`.
    """
    client = Client(target, prompter)
    known = target.known_hosts()
    keys = target.keys()
    identities: dict[str, object] = {} if keys is None else {"client_keys": keys}
    common: dict[str, object] = {**target.given, "config": target.config, "tunnel": tunnel}
    work = asyncssh.connect(
        target.name,
        client_factory=lambda: client,
        known_hosts=known,
        ignore_encrypted=True,
        agent_forwarding=agent or False,
        x11_forwarding=False,
        encryption_algs=target.ciphers,
        max_pktsize=_PACKET_BYTES,
        login_timeout=_ANSWERS_S,
        keepalive_interval=keep_alive_s,
        keepalive_count_max=3,
        **common,
        **identities,
    )
    try:
        connection = await unless_silent(work, client, limit_s)
    except asyncssh.PermissionDenied as error:
        raise _refused(target, client) from error
    except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
        if client.key is None and "revoked" not in str(error):  # it showed a certificate
            client.key = await _show_key(target, common)
        raise _not_verified(target, known, client, str(error)) from error
    except (OSError, asyncssh.Error, asyncio.TimeoutError) as error:
        ended = isinstance(error, asyncssh.ConnectionLost | ConnectionResetError)
        if ended and not client.is_verified and _trusted(target, known):
            # Hosts without a key of the known types end the connection.
            client.key = await _show_key(target, common)
            if client.key is not None and client.key not in _trusted(target, known):
                raise _not_verified(target, known, client, str(error)) from error
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number and number > 0 else _said(error)
        raise TransientError(
            f"{target.name} cannot be reached: {reason or f'no answer in {limit_s:g} s'}"
        ) from error
    except ValueError as error:  # unreadable private keys
        raise InfeasibleError(f"{target.name}: {error}", hint="Correct ~/.ssh/config.") from error
    return connection, client


async def unless_silent(work: Awaitable[_T], client: Client, limit_s: float) -> _T:
    """Wait for a login. Raises asyncio.TimeoutError when the server is silent for ``limit_s``. The
    limit starts anew after each question to the user, who may have to find a token first."""
    task = asyncio.ensure_future(work)
    try:
        left_s = limit_s
        while left_s > 0 and not task.done():
            await asyncio.wait([task], timeout=min(left_s, _STEP_S))
            left_s = limit_s if client.is_asking else left_s - _STEP_S
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        await end_tasks([task])


def _said(error: Exception) -> str:
    """The text of an error; for an error of name resolution, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


async def _show_key(target: Target, options: dict[str, object]) -> asyncssh.SSHKey | None:
    """Return the host's key of any type, without logging in; None if it cannot be had."""
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
            f"{who} refused the login; not tried, because of a passphrase: {names}",
            hint="Add the key to your SSH agent: ssh-add " + " ".join(map(shlex.quote, encrypted)),
        )
    if client.wanted_answers:
        return NeedsLoginError(
            f"{who} needs a password or a code; none was given, or a wrong one",
            hint="Answer at a terminal (end the run, then wfrun resume), or install a key there "
            "(ssh-copy-id).",
        )
    return NeedsLoginError(
        f"{who} refused the login: it accepts no key of your SSH agent or configuration",
        hint=f"Install a key there (ssh-copy-id {shlex.quote(target.name)}), or name another "
        "one with IdentityFile in ~/.ssh/config.",
    )


def _not_verified(
    target: Target, known: asyncssh.SSHKnownHosts, client: Client, reason: str
) -> WfrunError:
    where = f"{target.name} ({target.host}, port {target.port})"
    trusted = _trusted(target, known)
    file = target.known_hosts_files()[0] if target.known_hosts_files() else ""
    if client.key is None:
        return InfeasibleError(
            f"the host key of {where} cannot be trusted: {reason}",
            hint="Ask its administrators.",
        )
    # Both are host keys, and public.
    text = client.key.export_public_key().decode().split()
    shown = f"{text[0]} {client.key.get_fingerprint()}"
    if trusted:
        known_as = ", ".join(f"{key.get_algorithm()} {key.get_fingerprint()}" for key in trusted)
        return changed_key(where, shown, known_as, target.key_name, file)
    line = f"{target.key_name} {text[0]} {text[1]}"
    return unknown_key(where, shown, _accept(line, file))


def _accept(line: str, file: str) -> str:
    """Return the shell command that adds exactly this line to the file of known hosts."""
    file = file or os.path.expanduser(_USER_KNOWN_HOSTS[0])
    directory = os.path.dirname(file)
    make = "" if os.path.isdir(directory) else f"mkdir -p -m 700 {shlex.quote(directory)} && "
    return f"{make}echo {shlex.quote(line)} >> {shlex.quote(file)}"


def parse_jump(text: str) -> tuple[str | None, str, int | None]:
    """Split ``[user@]host[:port]``, also with ``ssh://`` and with an IPv6 address in brackets."""
    user, at, rest = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    host, colon, port = rest.rpartition(":")
    if not colon or number_of(port) is None or (":" in host and not host.endswith("]")):
        host, port = rest, ""
    return user if at else None, host.strip("[]"), number_of(port)
