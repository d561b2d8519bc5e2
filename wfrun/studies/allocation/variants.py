"""Changes of the simulation, one at a time, that test causes of differences from the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from wfrun.engine.jobs.open_sums import OpenSums
from wfrun.engine.policies.placement.allocation import Strategy
from wfrun.engine.policies.placement.allocation.balance import LbalS, LbalT, LbalW
from wfrun.engine.policies.placement.allocation.loads import Mlb, Mlp, Mpl
from wfrun.engine.policies.placement.allocation.schedules import Mct, Mst
from wfrun.engine.queues import Lrm, QueuedJob
from wfrun.engine.queues.easy import Easy
from wfrun.engine.queues.profile import Profile
from wfrun.runners.simulate.grid.estimates import Estimates, LrmEstimates


class MplWithJob(Mpl):
    """MPL whose value of a site includes the new job."""

    def value(self, site: int, task: int) -> float:
        return super().value(site, task) + self.view.cores(task) / self.view.slots(site)


class MlpWithJob(Mlp):
    """MLp whose value of a site includes the new job."""

    def value(self, site: int, task: int) -> float:
        return super().value(site, task) + 1.0 / self.view.slots(site)


class MlbWithJob(Mlb):
    """MLB whose value of a site includes the new job."""

    def value(self, site: int, task: int) -> float:
        work_s = self.view.cores(task) * self.view.predict_s(task, site)
        return super().value(site, task) + work_s / self.view.slots(site)


class MctWithJob(Mct):
    """MCT whose value of a site includes the new job."""

    def value(self, site: int, task: int) -> float:
        return max(super().value(site, task), self.view.estimate_completion_s(site, task))


class LbalTUnscaled(LbalT):
    """LBal_T with sums of run times that are not divided by the processors of the site."""

    def _load(self, site: int) -> float:
        return self.view.open_time_s(site)

    def _growth(self, site: int, task: int, mean: float) -> float:
        return _growth(self._taken(site, task), self._load(site) - mean, self.view.site_count)


class LbalWUnscaled(LbalW):
    """LBal_W with sums of work that are not divided by the processors of the site."""

    def _load(self, site: int) -> float:
        return self.view.open_work_s(site)

    def _growth(self, site: int, task: int, mean: float) -> float:
        return _growth(self._taken(site, task), self._load(site) - mean, self.view.site_count)


def _growth(more: float, above: float, sites: int) -> float:
    return more * (2.0 * above + more * (1.0 - 1.0 / sites))


class LbalSLetter(LbalS):
    """LBal_S with the printed formula taken literally: the new job counts once for each open job of
    the site."""

    def _taken(self, site: int, task: int) -> float:
        return super()._taken(site, task) * self.view.open_tasks(site)


class LbalTLetter(LbalT):
    """LBal_T with the printed formula taken literally."""

    def _taken(self, site: int, task: int) -> float:
        return super()._taken(site, task) * self.view.open_tasks(site)


class LbalWLetter(LbalW):
    """LBal_W with the printed formula taken literally."""

    def _taken(self, site: int, task: int) -> float:
        return super()._taken(site, task) * self.view.open_tasks(site)


class _LargestFirst(Strategy):
    """A strategy that breaks ties in favour of the largest site."""

    def place(self, task: int) -> int | None:
        sites = self.view.candidates(task)
        return min(sites, key=lambda site: (self.value(site, task), -self.view.slots(site)))


class MplLargestFirst(_LargestFirst, Mpl):
    """MPL whose ties go to the largest site."""


class MlpLargestFirst(_LargestFirst, Mlp):
    """MLp whose ties go to the largest site."""


class MstLargestFirst(_LargestFirst, Mst):
    """MST whose ties go to the largest site."""


class MstLeastLoad(Mst):
    """MST whose ties go to the site with the fewest requested processors per processor."""

    def place(self, task: int) -> int | None:
        sites = self.view.candidates(task)
        return min(sites, key=lambda site: (self.value(site, task), self.view.load(site)))


class FirstPlan(LrmEstimates):
    """Estimates from a plan of the queue in the order of submission, without backfilling.

    A job gets a reservation when it is submitted, and keeps it. The reservation does not start
    before that of the job submitted last. The plan is not renewed when a job ends early or late or
    is backfilled: the time that a job has requested remains reserved. Starts, waits and ends are
    the planned ones.
    """

    def __init__(self, lrm: Lrm, *, remembers: bool = False) -> None:
        super().__init__(lrm, remembers=remembers)
        self._profile = Profile(lrm.processors, 0.0)
        self._last_s = 0.0
        """The latest start of the plan."""
        self._ends_s: dict[int, float] = {}
        """Planned end of each open job."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        super().submit(job, cores, length_s, now_s)
        self._new.clear()
        self._profile.advance(now_s)
        self._last_s = start_s = self.start_s(cores, length_s, now_s)
        self._profile.add(start_s, start_s + length_s, -cores)
        self._ends_s[job] = start_s + length_s
        self._starts(self._open[job], start_s)

    def start(self, job: int, now_s: float) -> None:
        del self._waiting[job]

    def end(self, job: int, now_s: float) -> None:
        super().end(job, now_s)
        del self._ends_s[job]

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        return self._profile.earliest_s(cores, length_s, max(now_s, self._last_s))

    def sums(self, now_s: float) -> OpenSums:
        return self._sums

    def last_end_s(self, now_s: float) -> float:
        return max(now_s, max(self._ends_s.values(), default=now_s))


class EasyDryRun(LrmEstimates):
    """Estimates from a simulation of the site's present queue by EASY, the queue policy of the
    site.

    In this simulation every job takes the time that it has requested, and no further job arrives.
    Running jobs past their requests count as ended. If no job waits, the plan of the LRM is used.
    """

    def __init__(self, lrm: Lrm) -> None:
        super().__init__(lrm)
        self._ends_s: dict[int, float] = {}
        """Expected end of each running job."""
        self._planned: tuple[dict[int, float], float] | None = None
        """Starts of the waiting jobs and the end of all jobs; None if the queue has changed."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        super().submit(job, cores, length_s, now_s)
        self._planned = None

    def start(self, job: int, now_s: float) -> None:
        super().start(job, now_s)
        self._ends_s[job] = now_s + self._open[job].length_s
        self._planned = None

    def end(self, job: int, now_s: float) -> None:
        super().end(job, now_s)
        del self._ends_s[job]
        self._planned = None

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        if not self._waiting:
            return super().start_s(cores, length_s, now_s)
        starts_s, _ = self._simulate(now_s, QueuedJob(_NEW, cores, length_s))
        return starts_s[_NEW]

    def sums(self, now_s: float) -> OpenSums:
        if self._waiting:
            starts_s, _ = self._dry_run(now_s)
            for job in self._waiting:
                self._starts(self._open[job], max(now_s, starts_s[job]))
        return self._sums

    def last_end_s(self, now_s: float) -> float:
        return max(now_s, self._dry_run(now_s)[1]) if self._waiting else super().last_end_s(now_s)

    def _dry_run(self, now_s: float) -> tuple[dict[int, float], float]:
        if self._planned is None or min(self._ends_s.values(), default=now_s) < now_s:
            self._planned = self._simulate(now_s)
        return self._planned

    def _simulate(self, now_s: float, *more: QueuedJob) -> tuple[dict[int, float], float]:
        queue = Easy(self._lrm.processors)
        ends = [(end_s, job) for job, end_s in self._ends_s.items() if end_s > now_s]
        heapify(ends)
        for end_s, job in ends:
            queue.occupy(QueuedJob(job, self._open[job].cores, end_s - now_s), now_s)
        lengths_s = {job: self._open[job].length_s for job in self._waiting}
        waiting = [QueuedJob(job, self._open[job].cores, lengths_s[job]) for job in self._waiting]
        for one in (*waiting, *more):
            queue.submit(one, now_s)
            lengths_s[int(one.id)] = one.requested_s
        starts_s: dict[int, float] = {}
        at_s = last_s = now_s
        while True:
            for started in queue.schedule(at_s):
                starts_s[int(started)] = at_s
                heappush(ends, (at_s + lengths_s[int(started)], int(started)))
            if not ends:
                return starts_s, last_s
            at_s = last_s = ends[0][0]
            while ends and ends[0][0] == at_s:
                queue.end(heappop(ends)[1], at_s)


_NEW = -1
"""Id of the new job, whose start is estimated, in a dry run."""


class AllocationVariant(NamedTuple):
    """A change of the simulation."""

    text: str
    """Description of the change on the page."""
    strategies: tuple[str, ...]
    """The strategies that are simulated with this change."""
    policies: Mapping[str, type[Strategy]] = {}
    """The policy that is simulated in place of a strategy, by the strategy's symbol."""
    knows_runtimes: bool = False
    estimates: Callable[[Lrm], Estimates] = LrmEstimates
    """The estimates that sites give."""
    raises_requests: bool = False
    """Whether each request shorter than its job's run time is raised to the run time."""


ALL_JOBS = partial(LrmEstimates, remembers=True)
"""Estimates whose sums also count jobs that have ended."""

_COUNTED: dict[str, type[Strategy]] = {
    "MPL": MplWithJob,
    "MLp": MlpWithJob,
    "MLB": MlbWithJob,
    "MCT": MctWithJob,
}

VARIANTS: dict[str, AllocationVariant] = {
    "known run times": AllocationVariant(
        "run times are known to strategies and queues",
        ("MPL", "MLB", "MCT", "MWT", "MST"),
        knows_runtimes=True,
    ),
    "ended jobs": AllocationVariant(
        "sums also count jobs that have ended",
        ("LBal_T", "LBal_W", "MWT", "MWWT_S", "MWWT_T", "MWWT_W"),
        estimates=ALL_JOBS,
    ),
    "dry runs": AllocationVariant(
        "sites answer by a dry run of EASY, not by a plan with a reservation for each waiting job",
        ("MCT", "MWT", "MST"),
        estimates=EasyDryRun,
    ),
    "no overruns": AllocationVariant(
        "no job runs past its request: shorter requests are raised to the run time",
        ("MPL", "LBal_S", "MCT", "MST"),
        raises_requests=True,
    ),
    "new job counted": AllocationVariant(
        "the new job counts among those of the site",
        ("MPL", "MLp", "MLB", "MCT"),
        _COUNTED,
    ),
    "first plans": AllocationVariant(
        "schedules of sites are plans in the order of the queue, which no start or end renews",
        ("MCT", "MWT", "MWWT_S", "MWWT_T", "MWWT_W", "MST", "MSWCT_W"),
        estimates=FirstPlan,
    ),
    "new job counted, first plans": AllocationVariant(
        "such plans, and the new job counts", ("MCT",), _COUNTED, estimates=FirstPlan
    ),
    "ended jobs, first plans": AllocationVariant(
        "such plans, and sums also count jobs that have ended",
        ("MWWT_S", "MWWT_W", "MSWCT_W"),
        estimates=partial(FirstPlan, remembers=True),
    ),
    "to the letter": AllocationVariant(
        "the new job counts once for each job of the site, as the formulas are printed",
        ("LBal_S", "LBal_T", "LBal_W"),
        {"LBal_S": LbalSLetter, "LBal_T": LbalTLetter, "LBal_W": LbalWLetter},
    ),
    "not per processor": AllocationVariant(
        "loads are not divided by the processors of the site",
        ("LBal_T", "LBal_W"),
        {"LBal_T": LbalTUnscaled, "LBal_W": LbalWUnscaled},
    ),
    "ended jobs, not per processor": AllocationVariant(
        "both of these",
        ("LBal_T", "LBal_W"),
        {"LBal_T": LbalTUnscaled, "LBal_W": LbalWUnscaled},
        estimates=ALL_JOBS,
    ),
    "ties to the largest": AllocationVariant(
        "ties go to the largest site, not the smallest",
        ("MPL", "MLp", "MST"),
        {"MPL": MplLargestFirst, "MLp": MlpLargestFirst, "MST": MstLargestFirst},
    ),
    "ties to the least load": AllocationVariant(
        "ties go to the site with the fewest processors requested per processor",
        ("MST",),
        {"MST": MstLeastLoad},
    ),
}

READING: dict[str, str] = {
    "MPL": "new job counted",
    "MLp": "new job counted",
    "MLB": "new job counted",
    **dict.fromkeys(("MWT", "MWWT_S", "MWWT_T", "MWWT_W", "MST", "MSWCT_W"), "first plans"),
    "MCT": "new job counted, first plans",
}
"""Another reading of Table 1, which is simulated in all grids: the key of ``VARIANTS`` by strategy.
Strategies that are absent are simulated unchanged."""
