"""Files of web servers, by the standard library: proxies and certificates are those of Python.

Source: RFC 9110 (HTTP Semantics), sections 8.6 (Content-Length) and 15 (status codes).
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from typing import IO
from urllib.parse import urlsplit

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.transfers.endpoint import CHUNK_BYTES
from wfrun.sites.transfers.urls.source import check_allowed

SILENCE_S = 60.0
"""Maximum wait for a connection, an answer or the next bytes."""
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""Status codes after which a later request may succeed."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirection to a host that may be asked, and from https to https alone. The library
    itself refuses other schemes."""

    max_redirections = 5

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        try:
            if req.type == "https" and urlsplit(newurl).scheme != "https":
                raise InfeasibleError(f"{req.full_url} redirects to {newurl}, without encryption")
            check_allowed(newurl, self._hosts)
        except InfeasibleError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(hosts: frozenset[str]) -> urllib.request.OpenerDirector:
    """Without the handlers of other schemes, which would open files of this machine."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _Redirects(hosts),
    ):
        opener.add_handler(handler)
    return opener


@contextlib.asynccontextmanager
async def open_http(
    url: str, hosts: frozenset[str]
) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """``OpenUrl`` for http and https."""
    check_allowed(url, hosts)
    opener = _opener(hosts)
    response: http.client.HTTPResponse
    try:
        response = await asyncio.to_thread(opener.open, url, timeout=SILENCE_S)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _explained(url, error) from error
    try:
        length = response.headers.get("Content-Length", "")
        size_bytes = int(length) if length.isdigit() else None
        yield _read(url, response, size_bytes)
    finally:
        _hang_up(response)
        await asyncio.to_thread(response.close)


async def _read(
    url: str, response: http.client.HTTPResponse, size_bytes: int | None
) -> AsyncGenerator[bytes, None]:
    came = 0
    try:
        while piece := await asyncio.to_thread(response.read, CHUNK_BYTES):
            came += len(piece)
            yield piece
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _explained(url, error) from error
    if size_bytes not in (None, came):  # The library takes a lost connection for the end.
        raise TransientError(f"{url} cannot be fetched: {came} of {size_bytes} bytes came")


def _hang_up(response: http.client.HTTPResponse) -> None:
    """End a read that a thread is in, after a cancellation."""
    # The thread may end and close it at any moment; then it has no file any more.
    with (
        contextlib.suppress(OSError, ValueError, AttributeError),
        socket.socket(fileno=os.dup(response.fileno())) as connection,
    ):
        connection.shutdown(socket.SHUT_RDWR)


def _explained(url: str, error: Exception) -> WfrunError:
    failure = f"{url} cannot be fetched"
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        kind = TransientError if error.code in _TRANSIENT else InfeasibleError
        return kind(f"{failure}: the server answered {error.code} {error.reason}")
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        hint = "Add its CA by the variable SSL_CERT_FILE, if you trust it."
        return InfeasibleError(f"{failure}: {reason.verify_message}", hint=hint)
    if isinstance(error, ValueError | http.client.InvalidURL):
        return InfeasibleError(f"{failure}: {error}")
    return TransientError(f"{failure}: {reason or type(reason).__name__}")
