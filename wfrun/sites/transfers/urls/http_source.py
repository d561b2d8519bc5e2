"""Files of web servers, by the standard library: proxies and certificates are those of Python.

Source: RFC 9110 (HTTP Semantics), sections 8.6 (Content-Length), 13.1.5 (If-Range), 14 (ranges) and
15 (status codes).
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
from wfrun.parsers.file_urls import shown_url
from wfrun.parsers.foreign import number_of
from wfrun.sites.transfers.endpoints.endpoint import CHUNK_BYTES
from wfrun.sites.transfers.urls.source import check_allowed

SILENCE_S = 60.0
"""Maximum wait, in seconds, for a connection, an answer or the next bytes."""
MAX_RESUMES = 5
"""Maximum number of consecutive resumptions of a download that breaks off."""
RESUMED_BYTES = 16 << 20
"""Number of bytes received over one connection after which resumptions are counted from 0 again."""
RESUME_DELAY_S = 1.0
"""Delay before the first resumption in seconds, doubled for each further one."""
_ERRORS = (OSError, ValueError, http.client.HTTPException)
"""Exceptions of the library, among them InvalidURL and errors of certificates."""
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""Status codes after which a later request may succeed."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirection only to a host that may be asked, and from https only to https. The
    library itself refuses other schemes."""

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
                raise InfeasibleError(
                    f"{shown_url(req.full_url)} redirects to {shown_url(newurl)}, without "
                    "encryption"
                )
            newurl = check_allowed(newurl, self._hosts).text()
        except InfeasibleError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(hosts: frozenset[str]) -> urllib.request.OpenerDirector:
    """An opener for http and https. Handlers of other schemes would open files of this machine."""
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
    """Implements `OpenUrl` for http and https. A download that breaks off is resumed, if the server
    can tell that the file has not changed."""
    download = _Download(check_allowed(url, hosts).text(), _opener(hosts))
    await download.begin()
    try:
        yield download.pieces()
    finally:
        await download.close()


class _Download:
    """The download of one file, over one or more connections."""

    def __init__(self, url: str, opener: urllib.request.OpenerDirector) -> None:
        self._url = url
        self._opener = opener
        self._response: http.client.HTTPResponse | None = None
        self._size_bytes: int | None = None
        self._same: str | None = None
        """The server's ETag or date of this version of the file; None: the download cannot be
        resumed."""
        self._came = 0

    async def begin(self) -> None:
        """Ask for the file. Raises the errors of ``OpenUrl``."""
        try:
            response = self._response = await self._ask({})
        except _ERRORS as error:
            raise _explained(self._url, error) from error
        length = response.headers.get("Content-Length")
        self._size_bytes = number_of(length)
        if length is not None and self._size_bytes is None:
            # The library may take it for another number (RFC 9112, section 6.3: an error).
            await self.close()
            raise _explained(self._url, ValueError("its Content-Length is no number"))
        etag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
        is_strong = etag is not None and not etag.startswith("W/")
        self._same = etag if is_strong else modified
        if self._size_bytes is None or response.headers.get("Accept-Ranges") == "none":
            self._same = None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the content of the file to its end. Resumes a download that breaks off. Raises the
        errors of ``OpenUrl``."""
        tries, begin = 0, 0
        while True:
            try:
                async for piece in self._rest():
                    self._came += len(piece)
                    yield piece
                return
            except (TransientError, *_ERRORS) as error:
                cause = error
            if self._came - begin >= RESUMED_BYTES:
                tries = 0
            tries, begin = tries + 1, self._came
            is_final = isinstance(cause, urllib.error.HTTPError) and cause.code not in _TRANSIENT
            if self._same is None or is_final or tries > MAX_RESUMES:
                raise _explained(self._url, cause) from cause
            await self.close()
            await asyncio.sleep(RESUME_DELAY_S * 2 ** (tries - 1))

    async def _rest(self) -> AsyncGenerator[bytes, None]:
        response = self._response
        if response is None:
            response = await self._go_on()
        while piece := await asyncio.to_thread(response.read, CHUNK_BYTES):
            yield piece
        if self._size_bytes not in (None, self._came):
            # The library takes a lost connection for the end.
            raise TransientError(f"{self._came} of {self._size_bytes} bytes came")

    async def _go_on(self) -> http.client.HTTPResponse:
        """Request the missing bytes. Raises TransientError if the server has another file now."""
        assert self._same is not None
        wanted = {"Range": f"bytes={self._came}-", "If-Range": self._same}
        response = self._response = await self._ask(wanted)
        begins = f"bytes {self._came}-"
        said = response.headers.get("Content-Range", "")
        if not (response.status == 206 and said.startswith(begins)) or (
            said.rpartition("/")[2] not in ("*", str(self._size_bytes))
        ):
            self._same = None
            raise TransientError("the server has another file there than when it began")
        return response

    async def _ask(self, headers: dict[str, str]) -> http.client.HTTPResponse:
        request = urllib.request.Request(self._url, headers=headers)
        response: http.client.HTTPResponse = await asyncio.to_thread(
            self._opener.open, request, timeout=SILENCE_S
        )
        return response

    async def close(self) -> None:
        """End the connection."""
        response, self._response = self._response, None
        if response is not None:
            _hang_up(response)
            await asyncio.to_thread(response.close)


def _hang_up(response: http.client.HTTPResponse) -> None:
    """Shut the connection down. This ends a read in a thread that outlives a cancelled copy."""
    # The thread may end and close it at any moment; then it has no file any more.
    with (
        contextlib.suppress(OSError, ValueError, AttributeError),
        socket.socket(fileno=os.dup(response.fileno())) as connection,
    ):
        connection.shutdown(socket.SHUT_RDWR)


def _explained(url: str, error: Exception) -> WfrunError:
    failure = f"{shown_url(url)} cannot be fetched"
    if isinstance(error, TransientError):
        return TransientError(f"{failure}: {error.message}")
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
