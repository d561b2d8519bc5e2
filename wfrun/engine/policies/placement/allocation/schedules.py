"""Strategies that know the schedules of the sites (level 3): MCT, MWT, MWWT_S, MWWT_T, MWWT_W, MST
and MSWCT_W.

The wait of a running job is its actual wait. The wait of a waiting job is the wait in the schedule
of the site, which follows from the expected run times of all jobs there.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from wfrun.engine.jobs.open_sums import Weight
from wfrun.engine.policies.placement.allocation.strategy import INFORMATION, Strategy
from wfrun.engine.policies.placement.base import least
from wfrun.engine.policies.placement.scores import Scores, first_where, lowest, score


class Mct(Strategy):
    """MCT, minimum completion time: the time at which a site has completed all its jobs. As in
    Table 1, the new job does not count."""

    name = "mct"
    symbol = "MCT"
    level = 3
    information = INFORMATION[3]
    unit = "s"
    quantity = "all end in"
    summary = "the site that would complete all its jobs first"

    def value(self, site: int, task: int) -> float:
        return self.view.last_end_s(site)


class _Waits(Strategy):
    level = 3
    information = INFORMATION[3]
    weight: ClassVar[Weight]

    def value(self, site: int, task: int) -> float:
        return self.view.mean_wait(site, self.weight)


class Mwt(_Waits):
    """MWT, minimum waiting time: the mean wait of the run's open jobs at a site."""

    name = "mwt"
    symbol = "MWT"
    unit = "s"
    quantity = "mean wait"
    weight = "one"
    summary = "the site whose tasks wait for the shortest time on average"


class MwwtS(_Waits):
    """MWWT_S, minimum weighted waiting time: the mean, over the run's open jobs at a site, of wait
    × size."""

    name = "mwwt-s"
    symbol = "MWWT_S"
    quantity = "mean wait by cores"
    weight = "size"
    summary = "the site whose tasks wait for the shortest time on average, weighted by cores"


class MwwtT(_Waits):
    """MWWT_T: the mean, over the run's open jobs at a site, of wait × expected run time."""

    name = "mwwt-t"
    symbol = "MWWT_T"
    quantity = "mean wait by run time"
    weight = "time"
    summary = "the site whose tasks wait for the shortest time on average, weighted by run time"


class MwwtW(_Waits):
    """MWWT_W: the mean, over the run's open jobs at a site, of wait × work."""

    name = "mwwt-w"
    symbol = "MWWT_W"
    quantity = "mean wait by work"
    weight = "work"
    summary = "the site whose tasks wait for the shortest time on average, weighted by work"


class Mst(Strategy):
    """MST, minimum start time: the site whose queue would start the job first. Of sites with equal
    starts, a site with enough free processors comes before a site that waits for overdue jobs,
    which are expected to end now."""

    name = "mst"
    symbol = "MST"
    level = 3
    information = INFORMATION[3]
    unit = "s"
    quantity = "starts in"
    summary = "the site whose queue would start the task first"

    def value(self, site: int, task: int) -> float:
        return self.view.estimate_start_s(site, task)

    def place(self, task: int) -> int | None:
        view = self.view
        return least(
            view.candidates(task),
            partial(self.value, task=task),
            lambda site: view.idle(site) < view.cores(task),
        )

    def scores(self, task: int) -> Scores:
        view = self.view
        return score(
            view.candidates(task),
            lowest(self.quantity, self.unit, partial(self.value, task=task)),
            first_where("has free cores", lambda site: view.idle(site) >= view.cores(task)),
        )


class MswctW(Strategy):
    """MSWCT_W, minimum sum of weighted completion times: the sum, over the run's open jobs at a
    site, of completion time × work. As in Table 1, the sum is not relative to the size of the site,
    and the new job does not count. Completion times count from the start of the run; an overdue job
    is completed now at the earliest, as in the other schedules."""

    name = "mswct-w"
    symbol = "MSWCT_W"
    level = 3
    information = INFORMATION[3]
    quantity = "completions by work"
    summary = "the site with the least sum of completion times weighted by work"

    def value(self, site: int, task: int) -> float:
        return self.view.weighted_completion(site)
