"""The part of a catalog's site that says how a cluster is reached and its batch system is used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from wfrun.engine.model import Access
from wfrun.parsers.catalog.kinds import CatalogKind
from wfrun.parsers.sections import Section, in_words, to_count, to_duration

DEFAULT_DIRECTORY = "~/wfrun-scratch"
"""Of a cluster: a home directory is there on every one, and its compute nodes see it."""

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
    """Raise InvalidError for a key of other kinds than the site's."""
    for key in site.values:
        takers = [each.name for each in kinds if key in each.keys or key in each.own_keys]
        if takers and kind.name not in takers:
            hint = f"It is for sites of kind {_or(takers)}; leave it out, or correct 'kind'."
            raise site.error(
                f"{site.title} is of kind {kind.name}, which has no {key!r}", key, hint=hint
            )


def read_access(site: Section, kind: CatalogKind, base: Path) -> Access:
    """How this cluster is reached; relative paths of this machine start at ``base``."""
    transport = site.take("transport", choice("transport", TRANSPORTS), TRANSPORTS[0])
    poll_min_s = site.take("poll_min", to_duration, 2.0)
    poll_max_s = site.take("poll_max", to_duration, max(60.0, poll_min_s))
    if poll_max_s < poll_min_s:
        message = f"poll_max of {site.title} is shorter than poll_min, which is {poll_min_s:g} s"
        raise site.error(message, "poll_max")
    return Access(
        hosts=_read_hosts(site, transport),
        user=site.take("user", _user, None),
        port=site.take("port", _port, None),
        transport=transport,
        ssh_config=site.take("ssh_config", lambda value: own_path(value, base), None),
        known_hosts=site.take("known_hosts", lambda value: own_path(value, base), None),
        queue=site.take("queue", _word, None),
        account=site.take("account", _word, None),
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
    )


def _read_hosts(site: Section, transport: str) -> tuple[str, ...]:
    if transport == "local":
        for key in _SSH_KEYS:
            if site.has(key):
                message = f"{site.title} has 'transport: local', which connects to no host"
                raise site.error(message, key, hint=f"Leave {key!r} out, or 'transport'.")
        return ()
    if site.has("host") and site.has("hosts"):
        raise site.error(f"{site.title} has either 'host' or 'hosts'", "hosts")
    hosts: tuple[str, ...] = ()
    hosts = site.take("hosts", _hosts, hosts)
    hosts = site.take("host", lambda value: (host_name(value),), hosts)
    if not hosts:
        raise site.error(
            f"{site.title} does not say which host to log in to",
            hint="Add 'host: login.cluster.org', a name that 'ssh' understands; or "
            "'transport: local' where wfrun itself runs on the cluster's login node.",
        )
    return hosts


def _hosts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"a list of hosts is needed, not {in_words(value)}; write [one, other]")
    hosts = tuple(host_name(host) for host in value)
    for host in hosts:
        if hosts.count(host) > 1:
            raise ValueError(f"{host!r} is there twice")
    return hosts


def host_name(value: Any) -> str:
    """A host as ``ssh`` understands it, without user and port; for ``Section.take``."""
    host = _text(value)
    if "@" in host:
        raise ValueError(f"{host!r} can't be a host; write 'user: {host.split('@')[0]}' beside it")
    if _HOST_AND_PORT.fullmatch(host):
        port = host.rsplit(":", 1)[1]
        raise ValueError(f"{host!r} can't be a host; write 'port: {port}' beside it")
    if not _HOST.fullmatch(host) or host.startswith("-"):
        raise ValueError(f"{host!r} can't be a host; write a name, or an alias of ~/.ssh/config")
    return host


def _user(value: Any) -> str:
    user = _text(value)
    if not _USER.fullmatch(user):
        raise ValueError(f"{user!r} can't be a user")
    return user


def _port(value: Any) -> int:
    port = to_count(value)
    if port > _MAX_PORT:
        raise ValueError(f"{port} is above {_MAX_PORT}")
    return port


def _word(value: Any) -> str:
    """The name of a queue, a partition or an account; numbers are meant as names."""
    text = _text(str(value) if type(value) is int else value)
    if text.startswith("-") or any(c.isspace() for c in text):
        raise ValueError(f"{text!r} can't be a name")
    return text


def resource_name(value: Any) -> str:
    """The name of a batch system's resource; for ``Section.take``."""
    text = _text(value)
    if not _RESOURCE.fullmatch(text):
        raise ValueError(f"{text!r} can't be a name")
    return text


def _options(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(
            f"a list of arguments is needed, not {in_words(value)}; write [--qos=low, --nice=100]"
        )
    return tuple(_text(str(v) if type(v) in (int, float) else v) for v in value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a text is needed, not {in_words(value)}")
    if not value.isprintable():
        raise ValueError("it can't have control characters")
    return value


def choice(what: str, known: tuple[T, ...]) -> Callable[[Any], T]:
    """A converter for ``Section.take`` that knows these words."""

    def convert(value: Any) -> T:
        for word in known:
            if value == word:
                return word
        raise ValueError(f"there is no {what} {str(value)!r}; choose {_or(known)}")

    return convert


def own_path(value: Any, base: Path) -> str:
    """An absolute path of this machine; a relative one starts at ``base``."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a path is needed, not {in_words(value)}")
    if not value.isprintable():
        raise ValueError("a path can't have control characters")
    expanded = os.path.expanduser(value)
    if expanded.startswith("~"):
        raise ValueError(f"there is no home directory for {value!r}")
    return os.path.normpath(base / expanded)


def remote_path(value: Any) -> str:
    """A path of the cluster, as it is written: ``~`` and ``$NAME`` are expanded there."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a path is needed, not {in_words(value)}")
    if not value.isprintable():
        raise ValueError("a path can't have control characters")
    if not _REMOTE_PATH.match(value):
        raise ValueError(
            f"{value!r} is a path of the cluster: it has to begin with '/', '~/' or a variable "
            "such as '$SCRATCH/'"
        )
    return value


def _or(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
