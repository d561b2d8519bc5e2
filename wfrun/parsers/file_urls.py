"""URLs of files in documents and replica catalogs."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from wfrun.parsers.limits import CONTROL

FETCHED = ("http", "https", "sftp", "gsiftp", "ftp")
"""Schemes of files of other machines that can be fetched (`wfrun.sites.transfers.urls`)."""
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
    """A URL for messages and logs: without user and password, and without its query, which may be
    a signature."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def url_fault(url: str) -> str | None:
    """What is wrong with a URL of another machine, as the end of a message; None: nothing."""
    if len(url) > MAX_URL:
        return f"has {len(url):,} characters, more than {MAX_URL:,}"
    if CONTROL.search(url) or " " in url:
        return "has spaces or control characters, which are percent-encoded in URLs"
    scheme = scheme_of(url)
    if scheme not in FETCHED:
        return f"has the scheme {scheme}; files are fetched by {', '.join(FETCHED)}"
    try:
        parts = urlsplit(url)
        has_password, has_host, _ = parts.password is not None, bool(parts.hostname), parts.port
    except ValueError as error:
        return f"is no URL: {error}"
    if has_password or (parts.username is not None and scheme != "sftp"):
        return "has a user or a password, which would be in the log of the run"
    if not has_host:
        return "names no host"
    return None
