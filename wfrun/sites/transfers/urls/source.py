"""What opens a URL, and which hosts may be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from wfrun.engine.errors import InfeasibleError
from wfrun.parsers.file_urls import shown_url

OpenUrl = Callable[[str, frozenset[str]], AbstractAsyncContextManager[AsyncIterator[bytes]]]
"""Opens a URL, given the hosts that may be asked, and gives the content: all of it, or an error.
Raises InfeasibleError where a retry is pointless, TransientError for any other failure."""


def host_of(url: str) -> str | None:
    """The host of a URL in lower case; None if it has none, or is no URL."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def allowed_hosts(setting: str) -> frozenset[str]:
    """The hosts of the option ``--allow-urls``."""
    return frozenset(host.strip().lower() for host in setting.split(",") if host.strip())


def check_allowed(url: str, hosts: frozenset[str]) -> None:
    """Raise InfeasibleError unless the host of a URL may be asked."""
    host = host_of(url)
    if host not in hosts:
        raise InfeasibleError(
            f"{shown_url(url)} is at the host {host}, which may not be asked for files",
            hint=f"--allow-urls {host} allows it, if you trust it.",
        )
