"""A simulated site on a virtual clock, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from wfrun.engine import events as ev
from wfrun.engine.model import NodeGroup, Resources, SiteSpec
from wfrun.runners.run.clock import VirtualClock
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.sites.simulated.site import SimulatedRequest, SimulatedSite
from wfrun.testing.probe import Probe

PATIENCE_S = 1e6
"""Maximum virtual time that a test waits."""

E = TypeVar("E", bound=ev.Event)


class VirtualProbe(Probe):
    """A probe that advances virtual time while it waits."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock

    def post(self, event: ev.Event) -> None:
        self.clock.post(event)

    async def until(self, what: Callable[[], bool]) -> None:
        while not what():
            await self.more()

    async def more(self) -> None:
        """Collect the next events."""
        assert self.clock.now() < PATIENCE_S, "what is waited for does not come"
        self.events += await self.clock.next()

    async def let_pass(self, seconds: float) -> None:
        end_s = self.clock.now() + seconds
        mark = ev.TimerFired(end_s, "end")
        self.clock.call_at(end_s, mark)
        await self.until(lambda: mark in self.events)


def task(
    key: str,
    takes_s: float,
    *,
    exit_code: int = 0,
    cores: int = 1,
    walltime_s: float | None = None,
) -> SimulatedRequest:
    return SimulatedRequest(
        key=key,
        argv=("x",),
        env={},
        inputs=(),
        outputs=(),
        stdin=None,
        stdout=None,
        stderr=None,
        resources=Resources(cores=cores, walltime_s=walltime_s),
        runtime_s=takes_s,
        exit_code=exit_code,
    )


def other(
    submit_s: float,
    runtime_s: float,
    cores: int = 1,
    requested_s: float = 100.0,
    owner: str = "",
    application: str = "",
) -> SimulatedJob:
    return SimulatedJob(submit_s, runtime_s, cores, requested_s, owner, application)


def slots_of(nodes: Sequence[NodeGroup]) -> int:
    return sum(group.count * group.cores for group in nodes)


class Rig:
    """A simulated site and its probe, on a virtual clock."""

    def __init__(
        self,
        model: SiteModel | None = None,
        *,
        slots: int = 2,
        nodes: tuple[NodeGroup, ...] = (),
        background: Sequence[SimulatedJob] = (),
        observed_from_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.clock = VirtualClock()
        self.site = SimulatedSite(
            SiteSpec("there", slots_of(nodes) or slots, nodes=nodes),
            0,
            self.clock,
            model,
            background=background,
            observed_from_s=observed_from_s,
            seed=seed,
        )
        self.probe = VirtualProbe(self.clock)

    async def run(self, until_s: float, *requests: SimulatedRequest, at_once: bool = True) -> None:
        """Open the site, submit the requests in one batch or in one each, and let time pass."""
        await self.site.open(self.probe.post)
        for batch in [requests] if at_once else [[request] for request in requests]:
            await self.site.submit(batch)
        await self.probe.let_pass(until_s)

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.probe.events if isinstance(event, kind)]

    def starts(self) -> dict[str, float]:
        return {event.key: event.at_s for event in self.all(ev.AttemptStarted)}

    def ends(self) -> dict[str, float]:
        """The time at which each end was reported."""
        return {event.key: event.at_s for event in self.all(ev.AttemptEnded)}

    def causes(self) -> dict[str, str]:
        return {event.key: event.outcome.cause for event in self.all(ev.AttemptEnded)}
