"""Strategies that balance the loads of all sites: LBal_S (level 1), LBal_T and LBal_W (level 2).

They minimize the standard deviation, over all m sites, of the loads L_i per processor when the job
is at site q. The formula in Table 1 adds the job to the load of every site. Here, as in the text of
the table, it counts at q alone. The job raises L_q by a. The sum of the squared deviations then
grows by

    a·(2·(L_q - mean L) + a·(1 - 1/m)),

in which only the mean depends on other sites. The site with the least growth has the least
deviation.
"""

from __future__ import annotations

from abc import abstractmethod

from wfrun.engine.policies.placement.allocation.strategy import INFORMATION, Strategy
from wfrun.engine.policies.placement.scores import Scores, lowest, score


class _Balance(Strategy):
    quantity = "growth of the squared deviations"

    @abstractmethod
    def _load(self, site: int) -> float:
        """L_i: load of a site by its open jobs, per processor."""

    @abstractmethod
    def _taken(self, site: int, task: int) -> float:
        """The load that the job adds to a site, not divided by the processors of the site."""

    def _mean(self) -> float:
        count = self.view.site_count
        return sum(map(self._load, range(count))) / count

    def _growth(self, site: int, task: int, mean: float) -> float:
        more = self._taken(site, task) / self.view.slots(site)
        others = 1.0 - 1.0 / self.view.site_count
        return more * (2.0 * (self._load(site) - mean) + more * others)

    def value(self, site: int, task: int) -> float:
        return self._growth(site, task, self._mean())

    def place(self, task: int) -> int | None:
        sites = self.view.candidates(task)
        if len(sites) == 1:
            return sites[0]
        mean = self._mean()
        return min(sites, key=lambda site: self._growth(site, task, mean))

    def scores(self, task: int) -> Scores:
        mean = self._mean()
        growth = lowest(self.quantity, self.unit, lambda site: self._growth(site, task, mean))
        return score(self.view.candidates(task), growth)


class LbalS(_Balance):
    """LBal_S: the load is the processors that all jobs at a site request."""

    name = "lbal-s"
    symbol = "LBal_S"
    level = 1
    information = INFORMATION[1]
    summary = "the site that evens the cores requested per core of all sites"

    def _load(self, site: int) -> float:
        return self.view.load(site)

    def _taken(self, site: int, task: int) -> float:
        return self.view.cores(task)


class LbalT(_Balance):
    """LBal_T: the load is the sum of the expected run times of the run's jobs at a site.

    Table 1 writes actual run times p; a strategy that does not know them uses estimates p', as
    section 3 says of level 2."""

    name = "lbal-t"
    symbol = "LBal_T"
    level = 2
    information = INFORMATION[2]
    summary = "the site that evens the run times of the run's tasks per core of all sites"

    def _load(self, site: int) -> float:
        return self.view.open_time_s(site) / self.view.slots(site)

    def _taken(self, site: int, task: int) -> float:
        return self.view.predict_s(task, site)


class LbalW(_Balance):
    """LBal_W: the load is the work (cores times expected run time) of the run's jobs at a site."""

    name = "lbal-w"
    symbol = "LBal_W"
    level = 2
    information = INFORMATION[2]
    summary = "the site that evens the work of the run's tasks per core of all sites"

    def _load(self, site: int) -> float:
        return self.view.open_work_s(site) / self.view.slots(site)

    def _taken(self, site: int, task: int) -> float:
        return self.view.cores(task) * self.view.predict_s(task, site)
