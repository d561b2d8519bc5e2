"""Resource management architectures by name (thesis section 5.1.2): which resource managers there
are, and which of them gets the tasks of an arriving bag.

A resource manager is a queue of the core's with some of the sites.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.engine.model import SiteSpec
from wfrun.engine.names import look_up
from wfrun.engine.state import RunState

Parts = Mapping[int, Sequence[int] | None]
"""By queue, the tasks of a bag that go there; None: all."""


class Architecture(ABC):
    """One object serves one run."""

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
        """Where the tasks of a bag go that arrives now in the stream of this cluster."""

    def ended(self, queue: int) -> None:  # noqa: B027 - only some have to know
        """A task of this queue is done."""


class Central(Architecture):
    """CSP: one queue for all sites. The core knows of idle processors at once, while the paper's
    monitoring service tells of them periodically."""

    name = "csp"
    summary = "one resource manager for all sites"

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(self.sites)),)

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        return {0: None}


class Separated(Architecture):
    """SEP-C: a queue for each site, which gets the bags of its own stream."""

    name = "sep-c"
    summary = "a resource manager for each site, each with its own users"

    def queues(self) -> tuple[tuple[int, ...], ...]:
        return tuple((site,) for site in range(self.sites))

    def route(self, user: str, cluster: int, tasks: int) -> Parts:
        return {cluster: None}


class Flocking(Architecture):
    """FCONDOR: a queue for each site. A user's tasks go to the same one as long as they start there
    at once. The first task that has to wait does so there, and the user goes on with the next site.
    Users begin at the site in whose stream their first bag is."""

    name = "fcondor"
    summary = "a resource manager for each site; users go to the next when their tasks have to wait"

    def __init__(self, state: RunState, sites: Sequence[SiteSpec]) -> None:
        super().__init__(state, sites)
        self._current: dict[str, int] = {}
        self._open = [0] * len(sites)
        """Tasks that were sent there and are not done."""

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
        """Processors that neither tasks nor replicas hold or are about to hold; none while tasks
        wait there."""
        sites = self.state.sites  # none before the run has begun
        held = sites[site].committed_cores if sites else 0
        return self.slots[site] - max(held, self._open[site])


ARCHITECTURES: dict[str, type[Architecture]] = {a.name: a for a in (Central, Separated, Flocking)}


def architecture_class(name: str) -> type[Architecture]:
    """The architecture of that name; InvalidError names the nearest right one."""
    return look_up(ARCHITECTURES, name, "architecture")
