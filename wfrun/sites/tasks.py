"""Background tasks of the event loop: their start, their defects and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

_CANCEL_INTERVAL_S = 0.1


class BackgroundTasks:
    """Asyncio tasks that run until they return or ``end`` cancels them. ``on_defect`` is called
    with each exception that a task raises."""

    def __init__(self, on_defect: Callable[[Exception], None]) -> None:
        self._on_defect = on_defect
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_defect(error)

    async def end(self) -> None:
        """Cancel all tasks, and return when they have ended."""
        await end_tasks(self._tasks)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and return when all have ended. Their results and exceptions are discarded.

    They are cancelled repeatedly: ``asyncio.wait_for`` of Python 3.11 and older ignores a
    cancellation that arrives together with the result it waits for.
    """
    tasks = tuple(tasks)
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_CANCEL_INTERVAL_S)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # else asyncio logs that it was never retrieved
