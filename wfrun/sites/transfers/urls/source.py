"""The protocol of functions that open URLs, and the check that a host may be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from wfrun.engine.errors import InfeasibleError
from wfrun.parsers.file_urls import RemoteUrl, remote_url, shown_url

OpenUrl = Callable[[str, frozenset[str]], AbstractAsyncContextManager[AsyncIterator[bytes]]]
"""Opens a URL, given the hosts that may be asked, and yields the whole content or raises an error.
Raises InfeasibleError where a retry is pointless, TransientError for any other failure."""


def allowed_hosts(setting: str) -> frozenset[str]:
    """The hosts of the option ``--allow-urls``."""
    return frozenset(host.strip().lower() for host in setting.split(",") if host.strip())


def check_allowed(url: str, hosts: frozenset[str]) -> RemoteUrl:
    """Return the parts of a URL, from which clients build their own form of it. Raises
    InfeasibleError for an invalid URL, and for a URL whose host is not in ``hosts``."""
    try:
        found = remote_url(url)
    except ValueError as error:
        raise InfeasibleError(f"{shown_url(url)} {error}") from error
    if found.host not in hosts:
        raise InfeasibleError(
            f"{shown_url(url)} is at the host {found.host}, which may not be asked for files",
            hint=f"--allow-urls {found.host} allows it, if you trust it.",
        )
    return found
