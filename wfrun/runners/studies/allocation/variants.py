"""Causes of differences from the paper: what is changed, one thing at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from wfrun.engine.policies.placement.allocation import Strategy
from wfrun.engine.policies.placement.allocation.balance import LbalT, LbalW
from wfrun.engine.policies.placement.allocation.loads import Mlp, Mpl
from wfrun.engine.policies.placement.allocation.schedules import Mct
from wfrun.engine.profile import Profile
from wfrun.engine.queues import Lrm
from wfrun.runners.simulate.grid.estimates import Estimates, LrmEstimates


class MctWithJob(Mct):
    """MCT with the new job counted among those of the site."""

    def value(self, site: int, task: int) -> float:
        return max(self.view.last_end_s(site), self.view.estimate_completion_s(site, task))


class LbalTUnscaled(LbalT):
    """LBal_T with the sums of run times, not divided by the processors of the site."""

    def _load(self, site: int) -> float:
        return self.view.open_time_s(site)

    def _growth(self, site: int, task: int, mean: float) -> float:
        return _growth(self._taken(site, task), self._load(site) - mean, self.view.site_count)


class LbalWUnscaled(LbalW):
    """LBal_W with the sums of work, not divided by the processors of the site."""

    def _load(self, site: int) -> float:
        return self.view.open_work_s(site)

    def _growth(self, site: int, task: int, mean: float) -> float:
        return _growth(self._taken(site, task), self._load(site) - mean, self.view.site_count)


def _growth(more: float, above: float, sites: int) -> float:
    return more * (2.0 * above + more * (1.0 - 1.0 / sites))


class MplLargestFirst(Mpl):
    """MPL whose ties go to the largest site."""

    def place(self, task: int) -> int | None:
        sites = self.view.candidates(task)
        return min(sites, key=lambda site: (self.value(site, task), -self.view.slots(site)))


class MlpLargestFirst(Mlp):
    """MLp whose ties go to the largest site."""

    def place(self, task: int) -> int | None:
        sites = self.view.candidates(task)
        return min(sites, key=lambda site: (self.value(site, task), -self.view.slots(site)))


class FirstPlan(LrmEstimates):
    """Starts by reservations that are made when jobs are submitted and never changed: neither an
    early or late end nor backfilling renews them."""

    def __init__(self, lrm: Lrm) -> None:
        super().__init__(lrm)
        self._profile = Profile(lrm.processors, 0.0)

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        super().submit(job, cores, length_s, now_s)
        self._profile.advance(now_s)
        start_s = self._profile.earliest_s(cores, length_s, now_s)
        self._profile.add(start_s, start_s + length_s, -cores)

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        return self._profile.earliest_s(cores, length_s, now_s)


class Variant(NamedTuple):
    """A change."""

    text: str
    """The change, as the page has it."""
    strategies: tuple[str, ...]
    """The strategies that are simulated with it."""
    policies: Mapping[str, type[Strategy]] = {}
    """By strategy: the policy to take instead."""
    knows_runtimes: bool = False
    estimates: Callable[[Lrm], Estimates] = LrmEstimates
    """What sites answer."""
    raises_requests: bool = False
    """Whether no job runs past its request."""


ALL_JOBS = partial(LrmEstimates, remembers=True)
"""Sums also count jobs that have ended."""

VARIANTS: dict[str, Variant] = {
    "known run times": Variant(
        "run times are known to strategies and queues",
        ("MPL", "MLB", "MCT", "MWT", "MST"),
        knows_runtimes=True,
    ),
    "ended jobs": Variant(
        "sums also count jobs that have ended",
        ("LBal_T", "LBal_W", "MWT", "MWWT_S", "MWWT_T", "MWWT_W", "MSWCT_W"),
        estimates=ALL_JOBS,
    ),
    "no overruns": Variant(
        "no job runs past its request: shorter requests are raised to the run time",
        ("MPL", "LBal_S", "MCT", "MST"),
        raises_requests=True,
    ),
    "first plans": Variant(
        "start times are those of plans that no end or start renews",
        ("MST",),
        estimates=FirstPlan,
    ),
    "new job counted": Variant(
        "MCT counts the new job among those of the site", ("MCT",), {"MCT": MctWithJob}
    ),
    "not per processor": Variant(
        "loads are not divided by the processors of the site",
        ("LBal_T", "LBal_W"),
        {"LBal_T": LbalTUnscaled, "LBal_W": LbalWUnscaled},
    ),
    "ended jobs, not per processor": Variant(
        "both of these",
        ("LBal_T", "LBal_W"),
        {"LBal_T": LbalTUnscaled, "LBal_W": LbalWUnscaled},
        estimates=ALL_JOBS,
    ),
    "ties to the largest": Variant(
        "ties go to the largest site, not the smallest",
        ("MPL", "MLp"),
        {"MPL": MplLargestFirst, "MLp": MlpLargestFirst},
    ),
}
