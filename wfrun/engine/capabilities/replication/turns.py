"""Which running tasks are replicated next: round-robin, the least replicated first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from wfrun.engine.state import Attempt

MAX_EXAMINED = 64
"""Maximum number of running tasks examined when looking for a replica candidate."""

TaskKey = tuple[int, int]
"""(workflow, task)."""


class RunningTask:
    """A dispatched task that may get replicas."""

    __slots__ = ("attempts", "replicas", "sites")

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        """Open ones; superseded ones are not among them."""
        self.sites = 0
        """Where they are, as a mask."""
        self.replicas = 0
        """Number of replicas since it was dispatched, however they ended."""


class Turns:
    """Running tasks by how often they have been replicated, in the order in which they came to be
    replicated so often.

    Source: thesis section 5.1.4 (RR, WQR, STFR): once no task waits, running ones are replicated on
    the resources that become available, in round-robin order.
    """

    def __init__(self, most: int) -> None:
        self._running: dict[TaskKey, RunningTask] = {}
        self._turns: list[deque[tuple[TaskKey, RunningTask]]] = [deque() for _ in range(most)]
        """Tasks, and some that have left or were replicated since."""
        self._left = 0
        """Number of tasks that have left since the turns were cleared of such."""

    def get(self, key: TaskKey) -> RunningTask | None:
        """A task that is dispatched."""
        return self._running.get(key)

    def add(self, key: TaskKey) -> RunningTask:
        """A task was dispatched."""
        running = self._running[key] = RunningTask()
        return running

    def discard(self, key: TaskKey) -> None:
        """A task is no longer dispatched."""
        if self._running.pop(key, None) is not None:
            self._left += 1
            if self._left > 2 * len(self._running) + MAX_EXAMINED:
                # Else they would collect while no site idles.
                self._left = 0
                for count, turn in enumerate(self._turns):
                    kept = [entry for entry in turn if not self._is_over(entry, count)]
                    turn.clear()
                    turn.extend(kept)

    def queue(self, key: TaskKey, replicas: int) -> None:
        """Queue a task that has this number of replicas, unless that is the maximum."""
        if replicas < len(self._turns):
            self._turns[replicas].append((key, self._running[key]))

    def choose(
        self, idle_sites: int, site_of: Callable[[TaskKey], int | None]
    ) -> tuple[TaskKey, int] | None:
        """The next task to be replicated, and where. None: ``site_of``, asked for tasks that are
        not at all of the idle sites, has no site for any that is examined."""
        for count, turn in enumerate(self._turns):
            while turn and self._is_over(turn[0], count):
                turn.popleft()
            for entry in islice(turn, MAX_EXAMINED):
                key, running = entry
                if self._is_over(entry, count) or not idle_sites & ~running.sites:
                    continue
                if (site := site_of(key)) is not None:
                    return key, site
        return None

    def _is_over(self, entry: tuple[TaskKey, RunningTask], count: int) -> bool:
        """Whether the task has left, even if it was dispatched again since, or was replicated."""
        key, running = entry
        return self._running.get(key) is not running or running.replicas != count
