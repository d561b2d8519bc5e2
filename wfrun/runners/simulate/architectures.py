"""Resource management architectures by name (thesis section 5.1.2): the resource managers of a
simulated grid, and the one that gets the tasks of an arriving bag.

A resource manager is a queue of the core with some of the sites.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.engine.model import SiteSpec
from wfrun.engine.names import look_up
from wfrun.engine.state import RunState

Parts = Mapping[int, Sequence[int] | None]
"""By queue: numbers of the tasks of a bag that go there; None: all of them."""


class Architecture(ABC):
    """The resource managers of one run."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, state: RunState, sites: Sequence[SiteSpec]) -> None:
        self.state = state
        self.slots = [spec.slots for spec in sites]
        self.sites = len(sites)

    @abstractmethod
    def queues(self) -> tuple[tuple[int, ...], ...]:
        """The sites of each queue."""

    @abstractmethod
    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        """The queues of the tasks of a bag that arrives now in the stream of a cluster."""

    def ended(self, queue: int) -> None:  # noqa: B027 - only some architectures need it
        """A task of this queue is done, or has failed for good."""


class Central(Architecture):
    """CSP: one queue for all sites. The core knows of idle processors immediately; the paper's
    monitoring service reports them periodically."""

    name = "csp"
    summary = "one resource manager for all sites"

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(self.sites)),)

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        return {0: None}


class Separated(Architecture):
    """SEP-C: a queue for each site, with the bags of its own stream."""

    name = "sep-c"
    summary = "a resource manager for each site, each with its own users"

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return tuple((site,) for site in range(self.sites))

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        return {cluster: None}


class Flocking(Architecture):
    """FCONDOR: a queue for each site. A user's tasks go to the same queue as long as they start
    immediately there. The first task that has to wait does so there, and the user's next tasks go
    to the next site. A user begins at the site in whose stream the first bag is."""

    name = "fcondor"
    summary = "a resource manager for each site; users go on to the next when a task has to wait"

    def __init__(self, state: RunState, sites: Sequence[SiteSpec]) -> None:
        super().__init__(state, sites)
        self._current: dict[str, int] = {}
        self._open = [0] * len(sites)
        """By site: tasks that were sent there and have not ended."""

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return tuple((site,) for site in range(self.sites))

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        current = self._current.get(user, cluster)
        idle = [self._idle(site) for site in range(self.sites)]
        parts: dict[int, list[int]] = {}
        for task in range(tasks):
            parts.setdefault(current, []).append(task)
            self._open[current] += 1
            if idle[current] > 0:
                idle[current] -= 1
            else:
                current = (current + 1) % self.sites
        self._current[user] = current
        return parts

    def ended(self, queue: int) -> None:
        self._open[queue] -= 1

    def _idle(self, site: int) -> int:
        """Number of processors that neither tasks nor replicas hold or are about to hold; not
        positive while tasks wait there."""
        sites = self.state.sites  # empty before the run has begun
        held = sites[site].committed_cores if sites else 0
        return self.slots[site] - max(held, self._open[site])


ARCHITECTURES: dict[str, type[Architecture]] = {a.name: a for a in (Central, Separated, Flocking)}


def architecture_class(name: str) -> type[Architecture]:
    """The architecture of that name; InvalidError names the nearest right one."""
    return look_up(ARCHITECTURES, name, "architecture")
