"""The head node of a simulated cluster, whose processor submissions and copies share.

Thesis section 6.4.2: head nodes become overloaded when large workflows are submitted. Their load
then makes each submission and the initiation of each copy slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.sites.simulated.site import Timeline


class HeadModel(msgspec.Struct, frozen=True):
    """Processor time of operations at a head node, in seconds. An operation of 0 s is not
    modelled."""

    submit_s: float = 0.0
    """Time of each submission, including the task's files that come from the cluster itself."""
    copy_s: float = 0.0
    """Time of each copy from or to another cluster, at both ends, before its bytes move."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) < inf:
                raise InvalidError(
                    f"{name} of a head node is {getattr(self, name)}",
                    hint="use a number of at least 0",
                )


class SimulatedHeadNode:
    """Serves operations one after another, first come, first served."""

    def __init__(self, timeline: Timeline) -> None:
        self.loads: list[tuple[float, float]] = []
        """Changes of `load` in order: (time in s, new load)."""
        self._time = timeline
        self._pending: deque[tuple[float, Callable[[], None]]] = deque()
        """Processor time in seconds and callback of the operation in service, then of those that
        wait."""

    @property
    def load(self) -> float:
        """Number of operations in service or waiting; 1 is a load of 100%."""
        return float(len(self._pending))

    def work(self, work_s: float, then: Callable[[], None]) -> None:
        """Add an operation of ``work_s`` seconds. ``then`` is called at its end, at once if
        ``work_s`` is 0."""
        if work_s == 0:
            then()
            return
        self._pending.append((work_s, then))
        self._note()
        if len(self._pending) == 1:
            self._serve()

    def _serve(self) -> None:
        self._time.schedule(self._time.now() + self._pending[0][0], self._end)

    def _end(self) -> None:
        _, then = self._pending.popleft()
        self._note()
        if self._pending:
            self._serve()
        then()

    def _note(self) -> None:
        now_s = self._time.now()
        if self.loads and self.loads[-1][0] == now_s:
            self.loads.pop()
        self.loads.append((now_s, self.load))
