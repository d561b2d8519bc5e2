"""URLs of files in documents and replica catalogs."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from wfrun.parsers.syntax.limits import CONTROL

FETCHED = ("http", "https", "sftp", "gsiftp", "ftp")
"""Schemes of URLs whose files can be fetched from other machines (`wfrun.sites.transfers.urls`)."""
MAX_URL = 4096
"""Maximum length of a URL or a path, in characters."""


def scheme_of(url: str) -> str:
    """The scheme of a URL; empty for a plain path."""
    return url.partition("://")[0] if "://" in url else "file" if url.startswith("file:") else ""


def path_of_url(url: str) -> str | None:
    """The path that a ``file:`` URL names on this machine; None for other URLs."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as file://[
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path) or None


def shown_url(url: str) -> str:
    """A URL for messages and logs. User, password and query are left out, since the query may
    contain a signature."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


class RemoteUrl(NamedTuple):
    """The parts of a URL of another machine, as all clients get them."""

    scheme: str
    user: str
    """User name, which only sftp has; empty if there is none."""
    host: str
    """Host in lower case; an IPv6 address has no brackets."""
    port: int | None
    rest: str
    """Path and query; empty, or beginning with ``/``."""

    def text(self, rest: str | None = None) -> str:
        """The URL made of the parts. ``rest``, if given, replaces path and query."""
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{user}{host}{port}{self.rest if rest is None else rest}"


_REMOTE = re.compile(
    r"([a-z]+)://(?:([A-Za-z0-9_.][A-Za-z0-9_.-]*)@)?"
    r"([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(/.*)?"
)
"""The authority may contain only characters that all clients interpret alike. With other
characters, such as ``?``, ``#``, ``\\`` and ``%``, clients differ on where the host ends."""


def remote_url(url: str) -> RemoteUrl:
    """The parts of a URL of another machine. Raises ValueError with the fault, as the end of a
    message."""
    if CONTROL.search(url) or " " in url:
        raise ValueError("has spaces or control characters, which are percent-encoded in URLs")
    scheme = scheme_of(url)
    if scheme not in FETCHED:
        raise ValueError(f"has the scheme {scheme}; files are fetched by {', '.join(FETCHED)}")
    authority = url.partition("://")[2].partition("/")[0]
    if not authority.rpartition("@")[2]:
        raise ValueError("names no host")
    account = authority.rpartition("@")[0]
    if account and (":" in account or scheme != "sftp"):
        raise ValueError("has a user or a password, which would be in the log of the run")
    match = _REMOTE.fullmatch(url)
    if match is None:
        raise ValueError(
            "is no URL: before its path is HOST or HOST:PORT, of letters, digits, dots and "
            "hyphens, or an IP address"
        )
    _, user, host, port, rest = match.groups(default="")
    number = int(port) if port else None
    if number is not None and not 0 < number < 65536:
        raise ValueError(f"is no URL: there is no port {port}")
    return RemoteUrl(scheme, user, host.strip("[]").lower(), number, rest)


def url_fault(url: str) -> str | None:
    """The fault of a URL of another machine, as the end of a message; None if there is none."""
    if len(url) > MAX_URL:
        return f"has {len(url):,} characters, more than {MAX_URL:,}"
    try:
        remote_url(url)
    except ValueError as error:
        return str(error)
    return None
