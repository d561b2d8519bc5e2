"""Fetches inputs that are named by URL, before the first copy that needs them."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import ANYTHING, Content, Receipt
from wfrun.engine.model import ORIGIN, Workflow
from wfrun.engine.protocols import OnRoute
from wfrun.parsers.file_urls import scheme_of, shown_url
from wfrun.sites.transfers.endpoints.endpoint import wrong_checksum
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.relay.hashed import HashedStream
from wfrun.sites.transfers.relay.stall import StallGuard
from wfrun.sites.transfers.router import TransferRouter
from wfrun.sites.transfers.urls import SCHEMES

RELAYED = frozenset({"sftp"})
"""Schemes whose files are passed on to a site while they arrive. Files of other schemes are first
stored on this machine, since for example a download from a web server may have to be resumed."""
MAX_FETCHES = 4
"""Maximum number of files that are fetched at a time: servers limit the connections of a client."""


def further_urls(workflows: Iterable[Workflow]) -> dict[str, tuple[str, ...]]:
    """The alternative URLs of initial inputs, by the first URL of each input."""
    return {
        file.url: tuple(source.url for source in file.sources if not source.site)
        for workflow in workflows
        if workflow.bag is None
        for file in workflow.files
        if file.sources and file.url is not None and scheme_of(file.url) in SCHEMES
    }


class UrlInputs:
    """Implements ``Transfer``: sources at ORIGIN may be URLs.

    The file of a URL is fetched once into ``folder``, whole or not at all, and kept for later
    engines of the run; then ``transfer`` copies it. Files of schemes in RELAYED are written to the
    site directly. ``hosts`` are the hosts that may be asked. ``further`` has alternative URLs of a
    file: if one URL fails, the next one is tried. URLs at servers that have failed before come
    last.
    """

    def __init__(
        self,
        transfer: TransferRouter,
        folder: Path,
        hosts: frozenset[str],
        further: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._transfer = transfer
        self._folder = folder
        self._hosts = hosts
        self._further = dict(further or {})
        self._failed: set[str] = set()
        """Servers that failed with a transient error, such as a timeout."""
        self._said: set[str] = set()
        """Servers whose failure was reported."""
        self._fetching: dict[str, asyncio.Task[str]] = {}
        self._places = asyncio.Semaphore(MAX_FETCHES)
        self._origin = LocalEndpoint()

    def know(self, workflow: Workflow) -> None:
        """Add the alternative URLs of the inputs of a further workflow."""
        self._further.update(further_urls((workflow,)))

    async def copy(
        self,
        source: int,
        source_path: str,
        destination: int,
        destination_path: str,
        expected: Content = ANYTHING,
        avoid: Sequence[str] = (),
        on_route: OnRoute | None = None,
    ) -> Receipt:
        """Implements `Transfer.copy`."""
        left = ""
        scheme = scheme_of(source_path) if source == ORIGIN else ""
        if scheme in RELAYED and expected.sha256 is None:
            return await self._relayed(source_path, destination, destination_path, expected)
        if scheme in SCHEMES:
            source_path, left = await self._fetched(source_path, expected)
        receipt = await self._transfer.copy(
            source, source_path, destination, destination_path, expected, avoid, on_route
        )
        if left:
            receipt = replace(receipt, fallback="; ".join(filter(None, (left, receipt.fallback))))
        return receipt

    async def _relayed(
        self, url: str, destination: int, destination_path: str, expected: Content
    ) -> Receipt:
        """Pass a file on to a site while it arrives, without a copy on this machine."""
        receipts: list[Receipt] = []

        async def deliver(url: str) -> None:
            async with self._places, SCHEMES[scheme_of(url)](url, self._hosts) as source:
                sent, shown = HashedStream(source), shown_url(url)
                checked = _checked(shown, sent, expected) if expected.is_stated else sent.pieces()
                receive = self._transfer.receive
                async with aclosing(checked):
                    came = await receive(shown, checked, sent, destination, destination_path)
                receipts.append(came)

        left = await self._first((url, *self._further.get(url, ())), deliver)
        return replace(receipts[0], fallback=left)

    async def _fetched(self, url: str, expected: Content) -> tuple[str, str]:
        """Fetch a file, once for all its copies. Returns its path, and a message about servers that
        failed, empty if there is nothing to report."""
        name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        path, left = self._folder / name, ""
        while not path.exists():
            fetching = self._fetching.get(name)
            if fetching is None:
                fetch = partial(self._fetch, path=path, expected=expected)
                work = self._first((url, *self._further.get(url, ())), fetch)
                fetching = self._fetching[name] = asyncio.create_task(work)
                fetching.add_done_callback(lambda _: self._fetching.pop(name))
            await asyncio.wait([fetching])
            left = fetching.result()
        return str(path), left

    async def _first(
        self, urls: Sequence[str], fetch: Callable[[str], Coroutine[None, None, None]]
    ) -> str:
        """Fetch from the first URL that works. Returns a message about the servers that failed,
        empty if all of them were reported before. If no URL works, raises an error with the
        messages of all: TransientError if any of them is transient, else InfeasibleError."""
        errors: dict[str, WfrunError] = {}
        for url in sorted(urls, key=lambda each: _server(each) in self._failed):
            try:
                await fetch(url)
            except (TransientError, InfeasibleError) as error:
                errors[url] = error
                if isinstance(error, TransientError):
                    self._failed.add(_server(url))
            else:
                return self._left(errors, url)
        transient = [error for error in errors.values() if isinstance(error, TransientError)]
        kind = TransientError if transient else InfeasibleError
        hints = [error.hint for error in errors.values() if error.hint]
        message = "; ".join(error.message for error in errors.values())
        raise kind(message, hint=hints[0] if hints else None) from errors[urls[-1]]

    def _left(self, errors: Mapping[str, WfrunError], url: str) -> str:
        new = {_server(each): error for each, error in errors.items()}
        new = {server: error for server, error in new.items() if server not in self._said}
        self._said.update(new)
        return "; ".join(
            f"inputs at {server} come from other places such as {shown_url(url)}, because "
            f"{' '.join(error.message.split())}"
            for server, error in new.items()
        )

    async def _fetch(self, url: str, path: Path, expected: Content) -> None:
        shown = shown_url(url)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        guard = StallGuard(shown, str(path))
        async with (
            self._places,
            SCHEMES[scheme_of(url)](url, self._hosts) as source,
            aclosing(guard.pieces(source)) as pieces,
        ):
            sent = HashedStream(pieces)
            checked = _checked(shown, sent, expected) if expected.is_stated else pieces
            key = f"{os.getpid()}-{path.name}"
            async with aclosing(checked):
                # A program may be an input.
                await guard.watch(self._origin.write(str(path), checked, ANYTHING, True, key))

    def close(self) -> None:
        """End all fetches and copies."""
        for fetching in self._fetching.values():
            fetching.cancel()
        self._transfer.close()


def _server(url: str) -> str:
    """Scheme, host and port of a URL."""
    return "/".join(shown_url(url).split("/", 3)[:3])


async def _checked(
    shown: str, sent: HashedStream, expected: Content
) -> AsyncGenerator[bytes, None]:
    """Pass on a file, and compare its digest with the stated one at the end. Raises InfeasibleError
    if they differ, before the file gets its final name."""
    async with aclosing(sent.pieces()) as pieces:
        async for piece in pieces:
            yield piece
    if sent.digest != expected.digest:
        raise wrong_checksum(shown, sent.digest, expected.digest)
