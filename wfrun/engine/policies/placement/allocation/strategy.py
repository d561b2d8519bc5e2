"""Base class of allocation strategies."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import ClassVar, Literal

from wfrun.engine.fitting.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import Scores, lowest, score

Level = Literal[1, 2, 3]
"""Level of information. 1: sizes of jobs, 2: also run times, 3: also the schedules of the sites."""

INFORMATION: dict[Level, Information] = {
    1: Information(status=R),
    2: Information(status=R, task_runtime=K, totals=True),
    3: Information(status=R, processing_speed=K, task_runtime=K, totals=True),
}
"""By level: the information that a strategy may request. The view refuses all other information."""


class Strategy(BasePlacement):
    """Sends each task to the admissible site with the smallest ``value``: of the sites that are
    large enough, healthy and open. Ties go to the first site in the catalog."""

    symbol: ClassVar[str]
    """Name in Table 1."""
    level: ClassVar[Level]
    unit: ClassVar[Literal["s", ""]] = ""
    """Unit of ``value`` where it is shown."""
    quantity: ClassVar[str]
    """Short name of the quantity that ``value`` returns."""

    @abstractmethod
    def value(self, site: int, task: int) -> float:
        """The value that the strategy minimizes, for a task that is not at the site yet."""

    def place(self, task: int) -> int | None:
        return least(self.view.candidates(task), partial(self.value, task=task))

    def scores(self, task: int) -> Scores:
        value = lowest(self.quantity, self.unit, partial(self.value, task=task))
        return score(self.view.candidates(task), value)
