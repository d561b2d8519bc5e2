"""Which running tasks get replicas, and what is known of them. A part of ``wfrun.engine.state``.

Sources: thesis section 5.1.4 (RR, WQR, STFR): once no task waits, those that run are replicated on
the resources that become available, in round-robin order, the least replicated first. Stragglers
are replicated as J. Dean and S. Ghemawat do with backup tasks (MapReduce, OSDI 2004, section 3.6),
here by a quantile of the run times of their class.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

ENOUGH = 5
"""So many run times of a class say what is usual there."""

KEPT = 500
"""Of a class, the latest are remembered."""

LOOK = 64
"""So many running tasks at most are looked at for one that an idle site could have a replica of."""


def variant(key: str) -> int:
    """What tells the files of this attempt from those of others of its task: its number; 0 of the
    first."""
    number = int(key.rpartition(".")[2])
    return 0 if number == 1 else number


class Try(NamedTuple):
    """An open attempt of a task."""

    key: str
    site: int
    cores: int
    is_replica: bool


class Running:
    """A dispatched task."""

    __slots__ = ("replicas", "sites", "tries")

    def __init__(self) -> None:
        self.tries: list[Try] = []
        self.sites = 0
        """Where they are, as a mask."""
        self.replicas = 0
        """Since it was dispatched, however they ended."""


TaskKey = tuple[int, int]
"""(workflow, task)."""


class Usual:
    """The run times of one class of tasks, on the reference processor."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self) -> None:
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    def observe(self, runtime_s: float) -> None:
        insort(self._sorted, runtime_s)
        self._latest.append(runtime_s)
        if len(self._latest) > KEPT:
            self._sorted.remove(self._latest.popleft())

    def quantile_s(self, share: float) -> float | None:
        """The smallest run time that this share of them does not exceed; None: too few were
        seen."""
        count = len(self._sorted)
        return None if count < ENOUGH else self._sorted[min(count - 1, int(share * count))]


class Replicas:
    """Of one run: what is dispatched, in the order in which it is to be replicated."""

    def __init__(self, most: int, most_cores: float) -> None:
        self.most = most
        """Of one task."""
        self.most_cores = most_cores
        """That replicas may hold."""
        self.cores = 0
        """That they hold."""
        self.running: dict[TaskKey, Running] = {}
        self._turns: list[deque[TaskKey]] = [deque() for _ in range(most)]
        """Tasks by how often they have been replicated, and perhaps tasks that are no more."""
        self.usual: dict[tuple[str, str], Usual] = {}
        """By owner and application."""
        self.straggling: dict[TaskKey, None] = {}
        """Tasks that run for longer than is usual."""
        self.first_failed: dict[TaskKey, bool] = {}
        """Tasks of which only replicas go on, and whether it was the task's own failure that ended
        the first attempt."""
        self.superseded = 0
        """Open attempts that do not matter any more."""
        self.placed_in_all = 0
        self.won = 0
        """Replicas that their task was done by."""
        self.superseded_core_s = 0.0
        """Core seconds of attempts that others were done before."""

    def placed(self, task: TaskKey, attempt: Try, *, in_turn: bool) -> None:
        """``in_turn``: it is to be replicated when no task waits."""
        running = self.running.get(task)
        if running is None:
            running = self.running[task] = Running()
            self.first_failed.pop(task, None)
        running.tries.append(attempt)
        running.sites |= 1 << attempt.site
        if attempt.is_replica:
            running.replicas += 1
            self.placed_in_all += 1
            self.straggling.pop(task, None)
            self.cores += attempt.cores
        if in_turn and running.replicas < self.most:
            self._turns[running.replicas].append(task)

    def left(self, task: TaskKey, key: str) -> None:
        """An attempt is no longer dispatched."""
        running = self.running.get(task)
        if running is None:
            return
        for attempt in running.tries:
            if attempt.key == key:
                running.tries.remove(attempt)
                running.sites &= ~(1 << attempt.site)
                if attempt.is_replica:
                    self.cores -= attempt.cores
                break
        if not running.tries:
            del self.running[task]

    def others(self, task: TaskKey) -> list[Try]:
        """The open attempts of a task."""
        running = self.running.get(task)
        return [] if running is None else list(running.tries)

    def allows(self, cores: int) -> bool:
        """Whether a further replica of so many cores is within the budget."""
        return self.cores + cores <= self.most_cores

    def sites(self, task: TaskKey) -> int:
        """Where its open attempts are, as a mask."""
        running = self.running.get(task)
        return 0 if running is None else running.sites

    def choose(
        self, idle_sites: int, site_of: Callable[[TaskKey], int | None]
    ) -> tuple[TaskKey, int] | None:
        """The next task to be replicated, and where: stragglers first, then those in turn. None:
        ``site_of``, asked for those that are not at all of the idle sites, has no site for any that
        is looked at."""
        for task in list(self.straggling):
            running = self.running.get(task)
            if running is None or running.replicas >= self.most:
                del self.straggling[task]
            elif (site := site_of(task)) is not None:
                return task, site
        for count, turn in enumerate(self._turns):
            while turn and self._is_over(turn[0], count):
                turn.popleft()
            for task in islice(turn, LOOK):
                running = self.running.get(task)
                if running is None or running.replicas != count or not idle_sites & ~running.sites:
                    continue
                if (site := site_of(task)) is not None:
                    return task, site
        return None

    def _is_over(self, task: TaskKey, count: int) -> bool:
        running = self.running.get(task)
        return running is None or running.replicas != count
