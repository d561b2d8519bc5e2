"""Fetches inputs that are named by URL, when a copy needs them first."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from wfrun.engine.exchange import ANYTHING, Content, Receipt
from wfrun.engine.model import ORIGIN
from wfrun.engine.protocols import OnRoute
from wfrun.parsers.file_urls import scheme_of
from wfrun.sites.transfers.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.router import TransferRouter
from wfrun.sites.transfers.stall import StallGuard
from wfrun.sites.transfers.urls import SCHEMES

MAX_FETCHES = 4
"""Maximum number of files that are fetched at a time: servers limit the connections of a client."""


class UrlInputs:
    """Implements ``Transfer``: sources at ORIGIN may be URLs.

    Each is fetched once into ``folder``, whole or not at all, also by an earlier engine of the run;
    then ``transfer`` copies it. ``hosts`` are those that may be asked.
    """

    def __init__(self, transfer: TransferRouter, folder: Path, hosts: frozenset[str]) -> None:
        self._transfer = transfer
        self._folder = folder
        self._hosts = hosts
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(MAX_FETCHES)
        self._origin = LocalEndpoint()

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
        """``Transfer.copy``."""
        if source == ORIGIN and scheme_of(source_path) in SCHEMES:
            source_path = await self._fetched(source_path)
        return await self._transfer.copy(
            source, source_path, destination, destination_path, expected, avoid, on_route
        )

    async def _fetched(self, url: str) -> str:
        """The path of a file that was fetched. Copies of one file to several sites share it."""
        name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        path = self._folder / name
        while not path.exists():
            fetching = self._fetching.get(name)
            if fetching is None:
                fetching = self._fetching[name] = asyncio.create_task(self._fetch(url, path))
                fetching.add_done_callback(lambda _: self._fetching.pop(name))
            await asyncio.wait([fetching])
            fetching.result()
        return str(path)

    async def _fetch(self, url: str, path: Path) -> None:
        guard = StallGuard(url, str(path))
        async with (
            self._places,
            SCHEMES[scheme_of(url)](url, self._hosts) as source,
            aclosing(guard.pieces(source)) as pieces,
        ):
            key = f"{os.getpid()}-{path.name}"
            # A program may be an input.
            await guard.watch(self._origin.write(str(path), pieces, ANYTHING, True, key))

    def close(self) -> None:
        """End all fetches and copies."""
        for fetching in self._fetching.values():
            fetching.cancel()
        self._transfer.close()
