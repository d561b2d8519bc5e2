"""The part of a catalog entry that says how a cluster is reached and how it is used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from wfrun.engine.model import Access
from wfrun.parsers.catalog.gridftp_section import read_gridftp
from wfrun.parsers.catalog.kinds import CatalogKind
from wfrun.parsers.syntax.sections import Section, in_words, to_count, to_duration

DEFAULT_DIRECTORY = "~/wfrun-scratch"
"""Default directory of a remote site. It is in the home directory, which compute nodes can usually
see."""

TRANSPORTS: tuple[Literal["asyncssh", "openssh", "local"], ...] = ("asyncssh", "openssh", "local")
DISPATCHES: tuple[Literal["jobs", "launchers"], ...] = ("jobs", "launchers")

_SSH_KEYS = ("host", "hosts", "user", "port", "ssh_config", "known_hosts")

T = TypeVar("T", bound=str)

_MAX_PORT = 65535
_HOST = re.compile(r"[A-Za-z0-9_.:\[\]%-]+", re.ASCII)
_HOST_AND_PORT = re.compile(r"[^:]+:\d+|\[.*\]:\d+")
_USER = re.compile(r"[^\s-][^\s@:/]*")
_RESOURCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_REMOTE_PATH = re.compile(r"/|~(/|$)|\$([A-Za-z_]\w*|\{[A-Za-z_]\w*\})(/|$)", re.ASCII)


def check_keys(site: Section, kind: CatalogKind, kinds: Iterable[CatalogKind]) -> None:
    """Raise InvalidError for a key that is valid only for sites of another kind."""
    for key in site.values:
        takers = [each.name for each in kinds if key in each.keys or key in each.own_keys]
        if takers and kind.name not in takers:
            hint = f"Sites of kind {_or(takers)} take it. Remove it, or correct 'kind'."
            raise site.error(
                f"{site.title} is of kind {kind.name}, which has no {key!r}", key, hint=hint
            )


def read_access(site: Section, kind: CatalogKind, base: Path) -> Access:
    """Read how this cluster is reached and used. Relative paths of this machine are resolved
    against ``base``."""
    transport = site.take("transport", choice("transport", TRANSPORTS), TRANSPORTS[0])
    poll_min_s = site.take("poll_min", to_duration, 2.0)
    poll_max_s = site.take("poll_max", to_duration, max(60.0, poll_min_s))
    if poll_max_s < poll_min_s:
        message = f"poll_max of {site.title} is shorter than its poll_min, {poll_min_s:g} s"
        raise site.error(message, "poll_max")
    return Access(
        hosts=_read_hosts(site, transport),
        user=site.take("user", _user, None),
        port=site.take("port", port_number, None),
        transport=transport,
        ssh_config=site.take("ssh_config", lambda value: own_path(value, base), None),
        known_hosts=site.take("known_hosts", lambda value: own_path(value, base), None),
        queue=site.take("queue", word, None),
        account=site.take("account", word, None),
        options=site.take("options", _options, ()),
        dispatch=site.take("dispatch", choice("dispatch", DISPATCHES), DISPATCHES[0]),
        poll_min_s=poll_min_s,
        poll_max_s=poll_max_s,
        batch_settings={
            key: site.take(key, convert, "")
            for key, convert in kind.own_keys.items()
            if site.has(key)
        },
        max_array=site.take("max_array", to_count, None),
        max_jobs=site.take("max_jobs", to_count, None),
        patience_s=site.take("patience", to_duration, 60.0),
        gridftp=read_gridftp(site),
    )


def _read_hosts(site: Section, transport: str) -> tuple[str, ...]:
    if transport == "local":
        for key in _SSH_KEYS:
            if site.has(key):
                message = f"{site.title} has 'transport: local', which connects to no host"
                raise site.error(message, key, hint=f"Remove {key!r}, or 'transport'.")
        return ()
    if site.has("host") and site.has("hosts"):
        raise site.error(f"{site.title} has both 'host' and 'hosts'", "hosts", hint="Keep one.")
    hosts: tuple[str, ...] = ()
    hosts = site.take("hosts", _hosts, hosts)
    hosts = site.take("host", lambda value: (host_name(value),), hosts)
    if not hosts:
        raise site.error(
            f"{site.title} has no login host",
            hint="Add 'host: login.cluster.org', a name that 'ssh' understands; or "
            "'transport: local' if wfrun itself runs on the cluster's login node.",
        )
    return hosts


def _hosts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"it must be a list of hosts, not {in_words(value)}: [one, other]")
    hosts = tuple(host_name(host) for host in value)
    for host in hosts:
        if hosts.count(host) > 1:
            raise ValueError(f"{host!r} is listed twice")
    return hosts


def host_name(value: Any) -> str:
    """Converter for a host as ``ssh`` understands it, without user and port."""
    host = _text(value)
    if "@" in host:
        user, _, name = host.rpartition("@")
        raise ValueError(f"{host!r} is not a host; write 'host: {name}' and 'user: {user}'")
    if _HOST_AND_PORT.fullmatch(host):
        name, _, port = host.rpartition(":")
        raise ValueError(f"{host!r} is not a host; write 'host: {name}' and 'port: {port}'")
    if not _HOST.fullmatch(host) or host.startswith("-"):
        raise ValueError(f"{host!r} is not a host; write a name, or an alias of ~/.ssh/config")
    return host


def _user(value: Any) -> str:
    user = _text(value)
    if not _USER.fullmatch(user):
        raise ValueError(f"{user!r} is not a user name")
    return user


def port_number(value: Any) -> int:
    """Converter for the number of a port."""
    port = to_count(value)
    if port > _MAX_PORT:
        raise ValueError(f"{port} is above {_MAX_PORT}")
    return port


def word(value: Any) -> str:
    """Converter for the name of a queue, a partition or an account, which YAML may read as a
    number."""
    text = _text(str(value) if type(value) is int else value)
    if text.startswith("-") or any(c.isspace() for c in text):
        raise ValueError(f"{text!r} is not a name: it begins with '-' or has spaces")
    return text


def resource_name(value: Any) -> str:
    """Converter for the name of a resource of a batch system."""
    text = _text(value)
    if not _RESOURCE.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a resource")
    return text


def _options(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(
            f"it must be a list of arguments, not {in_words(value)}: [--qos=low, --nice=100]"
        )
    return tuple(_text(str(v) if type(v) in (int, float) else v) for v in value)


def _text(value: Any, what: str = "a text") -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it must be {what}, not {in_words(value)}")
    if not value.isprintable():
        raise ValueError("it has control characters")
    return value


def choice(what: str, known: tuple[T, ...]) -> Callable[[Any], T]:
    """A converter that accepts the words of ``known``."""

    def convert(value: Any) -> T:
        for word in known:
            if value == word:
                return word
        raise ValueError(f"{str(value)!r} is not a {what}; write {_or(known)}")

    return convert


def own_path(value: Any, base: Path) -> str:
    """Converter for a path of this machine to an absolute path; a relative one starts at
    ``base``."""
    expanded = os.path.expanduser(_text(value, "a path"))
    if expanded.startswith("~"):
        raise ValueError(f"{value!r} has no home directory")
    return os.path.normpath(base / expanded)


def remote_path(value: Any) -> str:
    """Converter for a path of the cluster. It stays unchanged: the cluster expands ``~`` and
    ``$NAME``."""
    path = _text(value, "a path")
    if not _REMOTE_PATH.match(path):
        raise ValueError(
            f"{path!r} is a path of the cluster: it must begin with '/', '~/' or a variable "
            "such as '$SCRATCH/'"
        )
    return path


def _or(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
