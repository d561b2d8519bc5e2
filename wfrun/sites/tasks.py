"""Ending tasks of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN_S = 0.1


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel them, and return when all have ended, in whatever way.

    ``asyncio.wait_for`` of Python 3.11 and older forgets that it was cancelled when what it waits
    for is there at that moment, so a task may have to be told more than once.
    """
    tasks = tuple(tasks)
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_AGAIN_S)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # nobody else will look at it
