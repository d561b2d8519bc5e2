"""Strategies that compare the loads of sites: Random, MLp, MPL (level 1) and MLB (level 2)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from wfrun.engine.policies.placement.allocation.strategy import INFORMATION, Strategy
from wfrun.engine.protocols import View


class RandomSite(Strategy):
    """Random: every admissible site with the same probability. The choice depends only on the seed
    of the run, the workflow, the task and the sites."""

    name = "random"
    symbol = "Random"
    level = 1
    information = INFORMATION[1]
    quantity = "not drawn"
    summary = "a random site that is large enough"

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._seed = view.random().getrandbits(48)

    def _drawn(self, task: int) -> int:
        return Random(self._seed + task).choice(self.view.candidates(task))

    def place(self, task: int) -> int | None:
        return self._drawn(task)

    def value(self, site: int, task: int) -> float:
        return float(site != self._drawn(task))


class Mlp(Strategy):
    """MLp, minimum load per processor: the number of jobs at a site, relative to its processors.
    Jobs of other users do not count: their number is not observed."""

    name = "mlp"
    symbol = "MLp"
    level = 1
    information = INFORMATION[1]
    quantity = "tasks per core"
    summary = "the site with the fewest tasks of the run per core"

    def value(self, site: int, task: int) -> float:
        return self.view.open_tasks(site) / self.view.slots(site)


class Mpl(Strategy):
    """MPL, minimum parallel load: the processors that all jobs at a site request, relative to its
    processors. The same rule as All-Clusters of the thesis (section 6.1.3)."""

    name = "mpl"
    symbol = "MPL"
    level = 1
    information = INFORMATION[1]
    quantity = "load"
    summary = "the site with the fewest cores requested per core; as all-clusters"

    def value(self, site: int, task: int) -> float:
        return self.view.load(site)


class Mlb(Strategy):
    """MLB, minimum lower bound: the work (cores times expected run time) of the run's jobs at a
    site, relative to its processors."""

    name = "mlb"
    symbol = "MLB"
    level = 2
    information = INFORMATION[2]
    unit = "s"
    quantity = "work per core"
    summary = "the site with the least work of the run per core"

    def value(self, site: int, task: int) -> float:
        return self.view.open_work_s(site) / self.view.slots(site)
