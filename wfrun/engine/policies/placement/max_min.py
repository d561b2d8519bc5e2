"""Max-min (thesis Table 5.1, reference 39)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar, Literal

from wfrun.engine.policies.placement.ect import Ect


class MaxMin(Ect):
    """Assigns the task with the largest earliest completion time first, to the cluster where it is
    completed first.

    For tasks of one core the earliest completion time grows with the run time, whatever the load of
    the clusters. So tasks are ordered by run time, longest first. Ties go to the task that became
    eligible first. Input transfers have no part in the order.

    Source: H. Casanova et al., "Heuristics for scheduling parameter sweep applications in grid
    environments", HCW 2000.
    """

    name = "max-min"
    summary = "ect, with the longest task first"
    throttle: ClassVar[Literal["auto", "none"]] = "auto"

    def order(self) -> Sequence[float]:
        return array("d", (-runtime_s for runtime_s in self.view.runtimes_s()))
