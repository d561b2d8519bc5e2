"""Removes files from the stores of sites while a run goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from typing import Any

from wfrun.engine.errors import TransientError, WfrunError
from wfrun.engine.protocols import Site

_LOGGER = logging.getLogger(__name__)

BATCH_FILES = 1000
"""Maximum number of files in one request to a site."""
RETRY_S = 10.0
"""Interval between requests to a site that does not answer, in seconds."""
END_S = 10.0
"""Maximum time that the end of a run waits for pending removals, in seconds. Remaining files are
removed with the run's directory at the site."""

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Removals:
    """Removes files from sites in batches, with one request to a site at a time. Files added
    meanwhile wait for the next request, so that a slow site gets few requests."""

    def __init__(self, sites: Sequence[Site], spawn: Spawn) -> None:
        """``spawn`` starts a task, and handles its unexpected errors."""
        self._sites = sites
        self._spawn = spawn
        self._waiting: list[dict[str, None]] = [{} for _ in sites]
        self._removing: list[frozenset[str]] = [frozenset() for _ in sites]
        self._workers: dict[int, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        """Set after each request to a site, and then replaced."""

    def add(self, site: int, names: Sequence[str]) -> None:
        """Queue files for removal, given by their names in the store of the site."""
        self._waiting[site].update(dict.fromkeys(names))
        if site not in self._workers:
            self._workers[site] = self._spawn(self._serve(site))

    async def settle(self, site: int, name: str) -> None:
        """Prepare to copy a file to a site again: cancel a queued removal of the file, or wait
        until a running removal ends."""
        while True:
            self._waiting[site].pop(name, None)
            if name not in self._removing[site]:
                return
            await self._changed.wait()

    async def finish(self) -> None:
        """Wait for the removals, at most `END_S`."""
        if self._workers:
            await asyncio.wait(list(self._workers.values()), timeout=END_S)

    async def _serve(self, site: int) -> None:
        try:
            waiting = self._waiting[site]
            while waiting:
                batch = list(islice(waiting, BATCH_FILES))
                for name in batch:
                    del waiting[name]
                if not await self._remove(site, batch):
                    waiting.update(dict.fromkeys(batch))
                    await asyncio.sleep(RETRY_S)
        finally:
            del self._workers[site]

    async def _remove(self, site: int, batch: Sequence[str]) -> bool:
        """Remove files. Returns False if the removal must be retried, and True if the files are
        gone or can never be removed."""
        self._removing[site] = frozenset(batch)
        try:
            await self._sites[site].remove(batch)
        except TransientError:
            return False
        except WfrunError as error:
            _LOGGER.warning(
                "site %s: files that nothing needs any more stay there: %s",
                self._sites[site].spec.name, error,
            )  # fmt: skip
        finally:
            self._removing[site] = frozenset()
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        return True
