"""The order in which running tasks are replicated: round-robin, least replicated first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from wfrun.engine.core.state import Attempt

MAX_EXAMINED = 64
"""Maximum number of running tasks examined when looking for a replica candidate."""

TaskKey = tuple[int, int]
"""(workflow, task)."""


class ReplicableTask:
    """A dispatched task that may get replicas."""

    __slots__ = ("attempts", "replicas")

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        """Open attempts, without superseded ones."""
        self.replicas = 0
        """Number of replicas placed since the task was dispatched, whether they have ended or
        not."""

    @property
    def sites(self) -> int:
        """Sites of the attempts, as a mask."""
        mask = 0
        for attempt in self.attempts:
            mask |= 1 << attempt.site
        return mask


class Turns:
    """Queues of running tasks, by their number of replicas.

    Source: thesis section 5.1.4 (RR, WQR, STFR): when no task waits, running tasks are replicated
    in round-robin order on the resources that become available.
    """

    def __init__(self, most: int) -> None:
        self._running: dict[TaskKey, ReplicableTask] = {}
        self._turns: list[deque[tuple[TaskKey, ReplicableTask]]] = [deque() for _ in range(most)]
        """By number of replicas: queue of running tasks. An entry is stale if its task was
        replicated since or is no longer dispatched."""
        self._left = 0
        """Number of tasks that were discarded since stale entries were last removed."""

    def get(self, key: TaskKey) -> ReplicableTask | None:
        """A dispatched task; None if it is not dispatched."""
        return self._running.get(key)

    def running(self) -> Iterable[tuple[TaskKey, ReplicableTask]]:
        """The dispatched tasks."""
        return self._running.items()

    def add(self, key: TaskKey) -> ReplicableTask:
        """Add a dispatched task."""
        running = self._running[key] = ReplicableTask()
        return running

    def discard(self, key: TaskKey) -> None:
        """Remove a task that is no longer dispatched."""
        if self._running.pop(key, None) is not None:
            self._left += 1
            if self._left > 2 * len(self._running) + MAX_EXAMINED:
                # Stale entries would accumulate while no site is idle.
                self._left = 0
                for count, turn in enumerate(self._turns):
                    kept = [entry for entry in turn if not self._is_stale(entry, count)]
                    turn.clear()
                    turn.extend(kept)

    def queue(self, key: TaskKey, replicas: int) -> None:
        """Queue a task with this number of replicas, unless that is the maximum."""
        if replicas < len(self._turns):
            self._turns[replicas].append((key, self._running[key]))

    def choose(self, site_of: Callable[[TaskKey], int | None]) -> tuple[TaskKey, int] | None:
        """The next task to replicate, and its site as ``site_of`` returns it. None if ``site_of``
        has no site for any examined task."""
        for count, turn in enumerate(self._turns):
            while turn and self._is_stale(turn[0], count):
                turn.popleft()
            for entry in islice(turn, MAX_EXAMINED):
                key = entry[0]
                if self._is_stale(entry, count):
                    continue
                if (site := site_of(key)) is not None:
                    return key, site
        return None

    def _is_stale(self, entry: tuple[TaskKey, ReplicableTask], count: int) -> bool:
        """Whether an entry is stale: its task was replicated since, or is no longer dispatched, or
        was dispatched anew."""
        key, running = entry
        return self._running.get(key) is not running or running.replicas != count
