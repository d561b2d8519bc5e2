"""The measures of the study by point, with a value for each repetition."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from wfrun.studies.common.verdict import Sample, combine
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.experiments import WorkflowsOutcome, multi_name

MEASURES = ("makespan_s", "nsl", "held_s", "qwt_s", "ftd_s", "nft", "once_s", "main_share")


class Samples:
    """The measures of the study. Each ``measure`` is one of MEASURES.

    A workload of Table 6.2 consists of several workflows. The value of a repetition is the mean
    over these workflows.
    """

    def __init__(self, rows: Sequence[WorkflowsOutcome]) -> None:
        groups: dict[tuple[object, ...], dict[int, list[WorkflowsOutcome]]] = {}
        for row in rows:
            key = (row.experiment, row.workload, row.policy, row.throttle, row.loaded, row.places)
            groups.setdefault(key, {}).setdefault(row.repetition, []).append(row)
        self._groups = groups

    def single(
        self, workload: str, policy: str, measure: str, *, loaded: bool, throttle: int | None = None
    ) -> Sample:
        """A measure of single workflows."""
        return self._sample(("single", workload, policy, throttle, loaded, 1), measure)

    def multi(self, size: int, instances: int, variant: int, measure: str) -> Sample:
        """A measure of several instances; ``variant`` is an index of paper.MULTI_VARIANTS."""
        policy, throttled = paper.MULTI_VARIANTS[variant]
        throttle = paper.MULTI_LIMITS[size] if throttled else None
        key = ("multi", multi_name(size, instances), policy, throttle, False, 1)
        return self._sample(key, measure)

    def places(self, workload: str, places: int, measure: str) -> Sample:
        """A measure of Single Cluster, with ``places`` tasks per node."""
        experiment = "single" if places == 1 else "places"
        return self._sample((experiment, workload, paper.SINGLE, None, False, places), measure)

    def changes(self, workload: str, policy: str, measure: str, *, loaded: bool) -> list[Sample]:
        """The relative change of a measure with each of paper.LIMITS, in percent of the mean
        without a throttle."""
        free = self.single(workload, policy, measure, loaded=loaded)
        mean = free.mean
        return [
            combine(
                lambda limited, unlimited: 100 * (limited - unlimited) / mean,
                self.single(workload, policy, measure, loaded=loaded, throttle=limit),
                free,
            )
            for limit in paper.LIMITS
        ]

    def runs(self, workload: str, policy: str, measure: str) -> list[float]:
        """A measure of each single run of a workload and a policy with background load,
        unsorted."""
        rows = self._groups["single", workload, policy, None, True, 1].values()
        return [float(getattr(row, measure)) for several in rows for row in several]

    def _sample(self, key: tuple[object, ...], measure: str) -> Sample:
        return Sample(
            {
                repetition: fsum(float(getattr(row, measure)) for row in rows) / len(rows)
                for repetition, rows in self._groups[key].items()
            }
        )
