"""Catalog keys that choose how files move between sites: transfer methods, and the SSH connections
that sites make to each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

from wfrun.parsers.catalog.access import choice, host_name, port_number, remote_path
from wfrun.parsers.syntax.sections import Section, in_words

DIRECT_KEYS = ("direct", "direct_key", "direct_host", "direct_port")
"""Keys of a site behind a connection that describe copies between sites."""

LOGINS: tuple[Literal["forward", "key"], ...] = ("forward", "key")
_REMOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*:[A-Za-z0-9_.+@=/-]*", re.ASCII)
_PLAIN = re.compile(r"[\w./~@%+=,-]+", re.ASCII)


class Direct(NamedTuple):
    """The keys of ``DIRECT_KEYS``; `Access` describes them."""

    login: Literal["forward", "key"] | None
    key: str | None
    host: str | None
    port: int | None


def read_direct(site: Section) -> Direct:
    """Read how the site sends files to other sites, and how others reach it."""
    login: Literal["forward", "key"] | None = None
    login = site.take("direct", choice("login", LOGINS), login)
    if site.has("direct_key") and login != "key":
        raise site.error(
            f"{site.title} has 'direct_key' without 'direct: key'",
            "direct_key",
            hint="Add 'direct: key', or remove 'direct_key'.",
        )
    return Direct(
        login,
        site.take("direct_key", _key, None),
        site.take("direct_host", host_name, None),
        site.take("direct_port", port_number, None),
    )


def rclone_remote(value: Any) -> str:
    """Check a place in storage, in the notation of rclone: a remote of its configuration, and a
    path. A remote that is described in place, ``:s3,…:``, is refused: the place is part of commands
    at the site, where it would reveal secrets."""
    if not isinstance(value, str) or not _REMOTE.fullmatch(value):
        raise ValueError(
            f"it must be a remote of rclone and a path there, such as 'store:bucket/folder', in "
            f"plain characters, not {in_words(value)}"
        )
    if ".." in value.partition(":")[2].split("/"):
        raise ValueError("its path cannot have '..'")
    return value


def method_names(known: Collection[str]) -> Callable[[Any], tuple[str, ...]]:
    """A converter for a list of transfer methods, or the name of one."""

    def convert(value: Any) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not names:
            raise ValueError(f"it must be a list of methods, not {in_words(value)}")
        for name in names:
            if name not in known:
                raise ValueError(
                    f"there is no transfer method {str(name)!r}; the methods are: "
                    f"{', '.join(known)}"
                )
            if names.count(name) > 1:
                raise ValueError(f"{name!r} is listed twice")
        return tuple(names)

    return convert


def _key(value: Any) -> str:
    path = remote_path(value)
    if "$" in path or not _PLAIN.fullmatch(path):
        raise ValueError(f"{path!r} is not a path of a key: write '/…' or '~/…', without spaces")
    return path
