"""Resource management architectures (thesis section 5.1.2): the resource managers of a simulated
grid, and the routing of arriving bags to them.

A resource manager is a queue of the core and the sites that it serves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.engine.core.state import RunState
from wfrun.engine.fitting.names import look_up
from wfrun.engine.model import SiteSpec

Parts = Mapping[int, Sequence[int] | None]
"""The parts into which a bag is divided, by number of the queue that gets the part. A part is a
list of task numbers; None: the whole bag."""


class Architecture(ABC):
    """The resource managers of one run."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, state: RunState, sites: Sequence[SiteSpec]) -> None:
        self.state = state
        self.slots = [spec.slots for spec in sites]
        self.site_count = len(sites)

    @abstractmethod
    def queues(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the sites of each queue."""

    @abstractmethod
    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        """Divide a bag among the queues. A user of ``cluster`` submits the bag, of ``tasks`` tasks,
        now."""

    def ended(self, queue: int) -> None:  # noqa: B027 - only some architectures need it
        """Called when a task of the queue is done, or has failed for good."""


class Central(Architecture):
    """CSP: one queue for all sites.

    In the thesis a monitoring service reports idle processors periodically (section 5.1.2). Here
    ``SiteModel.poll_s`` is its period, by default 0: the core learns of ended tasks immediately.
    """

    name = "csp"
    summary = "one resource manager for all sites"

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(self.site_count)),)

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        return {0: None}


class Separated(Architecture):
    """SEP-C: a queue for each site. The bags of a user go to the queue of the user's site."""

    name = "sep-c"
    summary = "a resource manager for each site, each with its own users"

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return tuple((site,) for site in range(self.site_count))

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        return {cluster: None}


class Flocking(Architecture):
    """FCONDOR: a queue for each site. A user moves from one queue to the next when a task has to
    wait.

    A user begins at the site in whose stream the user's first bag arrives. Tasks go to its queue
    while they can start immediately. The first task that must wait still goes to this queue; the
    user's further tasks go to the next site in the order of the catalog.
    """

    name = "fcondor"
    summary = "a resource manager for each site; users go on to the next when a task has to wait"
    changes_within_bags: ClassVar[bool] = True

    def __init__(self, state: RunState, sites: Sequence[SiteSpec]) -> None:
        super().__init__(state, sites)
        self._current: dict[str, int] = {}
        self._unfinished = [0] * len(sites)
        """Number of tasks sent to each site that have not ended."""

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return tuple((site,) for site in range(self.site_count))

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        current = self._current.get(user, cluster)
        idle = [self._idle(site) for site in range(self.site_count)]
        parts: dict[int, list[int]] = {}
        waits = False
        for task in range(tasks):
            parts.setdefault(current, []).append(task)
            self._unfinished[current] += 1
            waits = idle[current] <= 0
            idle[current] -= 1
            if waits and self.changes_within_bags:
                current = self._next(current)
        if waits and not self.changes_within_bags:
            current = self._next(current)
        self._current[user] = current
        return parts

    def _next(self, site: int) -> int:
        """The next site in the order of the catalog. The first site follows the last."""
        return (site + 1) % self.site_count

    def ended(self, queue: int) -> None:
        self._unfinished[queue] -= 1

    def _idle(self, site: int) -> int:
        """Processors of a site that are neither in use nor needed by waiting tasks. 0 or less while
        tasks wait at the site."""
        # The core counts cores of placed tasks and of replicas; ``_unfinished`` also counts tasks
        # that wait in the queue, but no replicas. The larger of the two counts.
        sites = self.state.sites  # empty before the run has begun
        held = sites[site].committed_cores if sites else 0
        return self.slots[site] - max(held, self._unfinished[site])


class FlockingByBag(Flocking):
    """FCONDOR with whole bags. All tasks of a bag go to one queue. If the last of them has to wait,
    the user's next bag goes to the next site. The thesis does not say whether users move within a
    bag."""

    name = "fcondor-bag"
    summary = "fcondor with whole bags: users go on after a bag of which a task has to wait"
    changes_within_bags = False


ARCHITECTURES: dict[str, type[Architecture]] = {
    a.name: a for a in (Central, Separated, Flocking, FlockingByBag)
}


def architecture_class(name: str) -> type[Architecture]:
    """The architecture of that name. Raises InvalidError, which suggests the most similar name."""
    return look_up(ARCHITECTURES, name, "architecture")
