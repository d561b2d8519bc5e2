"""A simulated cluster that several brokers use at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    SiteLoadObserved,
)
from wfrun.engine.model import SiteSpec
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.sites.simulated.site import SimulatedSite, Timeline


class _Cores(NamedTuple):
    running: int
    queued: int


class SharedSite(SimulatedSite):
    """Sends the events of an attempt to the broker whose run it belongs to.

    A broker learns of other jobs at the site only by ``report``: the total load of all jobs that
    are not its own.
    """

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        timeline: Timeline,
        model: SiteModel,
        *,
        background: Sequence[SimulatedJob] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(
            spec, index, timeline, model, background=background, observed="nothing", seed=seed
        )
        self._brokers: dict[str, Callable[[Event], None]] = {}
        self._latest: dict[str, _Cores] = {}
        """The load that each broker was last informed of."""
        self.coming: dict[str, int] = {}
        """Cores of attempts on their way through the head node, by key."""

    async def begin(self) -> None:
        """Open the site, for brokers that will join."""
        await self.open(self._route)

    def join(self, run_id: str, post: Callable[[Event], None]) -> None:
        """Send a broker the events of its run, and the present load first."""
        self._brokers[run_id] = post
        self.report()

    def report(self) -> None:
        """Report to each broker how many cores all other jobs hold, and for how many they wait, if
        these numbers have changed."""
        total, own = _Cores(0, 0), dict.fromkeys(self._brokers, _Cores(0, 0))
        for run_id, cores in self._jobs():
            total = _added(total, cores)
            if run_id is not None:
                own[run_id] = _added(own[run_id], cores)
        for run_id, mine in own.items():
            others = _Cores(total.running - mine.running, total.queued - mine.queued)
            if others != self._latest.get(run_id, _Cores(0, 0)):
                self._latest[run_id] = others
                self._brokers[run_id](SiteLoadObserved(self._time.now(), self._index, *others))

    def _jobs(self) -> Iterator[tuple[str | None, _Cores]]:
        """Yield the run (None: a background job) and the cores of each job at the site."""
        for job, record in self._others.values():
            started = record.started_s is not None
            yield None, _Cores(job.cores, 0) if started else _Cores(0, job.cores)
        for key, attempt in self._attempts.items():
            cores = attempt.request.resources.cores
            started = attempt.started_s is not None
            yield run_of(key), _Cores(cores, 0) if started else _Cores(0, cores)
        for key, cores in self.coming.items():
            yield run_of(key), _Cores(0, cores)

    def _route(self, event: Event) -> None:
        if isinstance(event, AttemptsSubmitted):
            key = event.keys[0]  # a batch comes from one broker
        elif isinstance(event, (AttemptStarted, AttemptEnded)):
            key = event.key
        else:
            raise AssertionError(f"a shared site has no {type(event).__name__}")
        self._brokers[run_of(key)](event)


def run_of(key: str) -> str:
    """The id of the run of an attempt."""
    return key.partition(".")[0]


def _added(one: _Cores, other: _Cores) -> _Cores:
    return _Cores(one.running + other.running, one.queued + other.queued)
