"""The measured runs, by experiment, workload, policy and utilization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec

from wfrun.studies.coallocation.experiments import (
    BASE,
    CA,
    FCM,
    PLOTS,
    WF,
    CoallocationRow,
    cell_of,
    setting_of,
)
from wfrun.studies.common.verdict import Sample, combine

RESPONSE = "response_s"


class CoallocationReading(msgspec.Struct, frozen=True):
    """The definitions of response time and saturation by which runs are measured.

    By default a run is saturated if waits grow: the mean wait of the jobs that arrive in the second
    half of the time is more than ``growth`` times that of the first half, and the mean wait in the
    last quarter is longer than the run time on one cluster.
    """

    response: str = RESPONSE
    growth: float = 1.5
    quarterly: bool = False
    """Whether another criterion replaces the default: a run is saturated if mean waits grow from
    each quarter to the next, and the mean wait in the last quarter is longer than the run time on
    one cluster."""
    run_times: float | None = None
    """If given, another criterion replaces the default: a run is saturated if the mean wait in the
    second half is longer than this multiple of the run time on one cluster."""

    def is_saturated(self, waits_s: Sequence[float], single_s: float) -> bool:
        """Whether a run is saturated. ``waits_s`` are the mean waits of its four quarters,
        ``single_s`` the run time on one cluster, both in seconds."""
        first, second, third, last = waits_s
        if self.run_times is not None:
            return (third + last) / 2 > self.run_times * single_s
        if last <= single_s:
            return False
        if self.quarterly:
            return first < second < third < last
        return third + last > self.growth * (first + second)


READINGS = {
    "responses of jobs that end within the day": CoallocationReading("ended_response_s"),
    "saturated if waits grow in each quarter": CoallocationReading(quarterly=True),
    "saturated if waits exceed 2 run times": CoallocationReading(run_times=2.0),
    "saturated if waits exceed 5 run times": CoallocationReading(run_times=5.0),
}


@cache
def is_changed(variant: str, experiment: str) -> bool:
    """Whether a variant has runs of its own in an experiment."""
    return any(
        cell_of(experiment, workload, policy, 0, 0, variant).variant != BASE
        for workload, policy in PLOTS[experiment].runs
    )


class CoallocationSamples:
    """The runs of one variant. A run that the variant does not change is that of the base."""

    def __init__(
        self,
        rows: Sequence[CoallocationRow],
        variant: str = BASE,
        reading: CoallocationReading | None = None,
    ) -> None:
        self.rows = rows
        self.variant = variant
        self.reading = reading or CoallocationReading()
        self._runs: dict[tuple[str, str, str, int, str], dict[int, CoallocationRow]] = {}
        for row in rows:
            key = row.experiment, row.workload, row.policy, row.utilization, row.variant
            self._runs.setdefault(key, {})[row.seed] = row

    def varied(self, variant: str) -> CoallocationSamples:
        """The runs of another variant."""
        return CoallocationSamples(self.rows, variant, self.reading)

    def read(self, reading: CoallocationReading) -> CoallocationSamples:
        """The same runs, measured by other definitions of response time and saturation."""
        return CoallocationSamples(self.rows, self.variant, reading)

    def steps(self, experiment: str, low: int = 0, high: int = 90) -> tuple[int, ...]:
        """The net utilizations of an experiment from ``low`` to ``high``, both included."""
        changed = self.variant if is_changed(self.variant, experiment) else BASE
        return tuple(u for u in PLOTS[experiment].steps(changed) if low <= u <= high)

    def runs(
        self, experiment: str, workload: str, policy: str, utilization: int
    ) -> dict[int, CoallocationRow]:
        """The runs of one point, by seed."""
        cell = cell_of(experiment, workload, policy, utilization, 0, self.variant)
        return self._runs[experiment, cell.workload, policy, utilization, cell.variant]

    def each(
        self, experiment: str, workload: str, policy: str, utilization: int,
        value: Callable[[CoallocationRow], float],
    ) -> Sample:  # fmt: skip
        """The value of a function of the row, for each run of a point."""
        found = self.runs(experiment, workload, policy, utilization)
        return Sample({seed: value(row) for seed, row in found.items()})

    def of(
        self, experiment: str, workload: str, policy: str, utilization: int, measure: str = RESPONSE
    ) -> Sample:
        """A measure (a field of `CoallocationRow`) of each run of a point."""
        name = self.reading.response if measure == RESPONSE else measure
        return self.each(
            experiment, workload, policy, utilization, lambda row: float(getattr(row, name))
        )

    def change(
        self, experiment: str, workload: str, utilization: int, policy: str = FCM, base: str = WF
    ) -> Sample:
        """Change of the mean response time in percent if the policy ``base`` is replaced by
        ``policy``."""
        return combine(
            lambda after, before: 100 * (after / before - 1),
            self.of(experiment, workload, policy, utilization),
            self.of(experiment, workload, base, utilization),
        )

    def gap(self, experiment: str, utilization: int) -> Sample:
        """Mean response time of Wave under FCM less that under CA, in seconds."""
        return combine(
            lambda fcm, ca: fcm - ca,
            *(self.of(experiment, "wave", policy, utilization) for policy in (FCM, CA)),
        )

    def saturated(self, experiment: str, workload: str, policy: str, utilization: int) -> Sample:
        """1 for each run that is saturated, otherwise 0."""
        single_s = setting_of(self.variant).application(workload).single_s
        decide = self.reading.is_saturated
        return self.each(
            experiment, workload, policy, utilization,
            lambda row: decide(row.quarter_waits_s, single_s),
        )  # fmt: skip

    def onset(self, experiment: str, workload: str, policy: str) -> Sample:
        """The lowest utilization [%] at which the run is saturated, by seed. For a seed without
        saturated runs it is 5 above the last utilization."""
        steps = self.steps(experiment, high=100)
        found: dict[int, float] = {}
        for step in reversed(steps):
            for seed, value in self.saturated(experiment, workload, policy, step).values.items():
                found.setdefault(seed, steps[-1] + 5)
                if value:
                    found[seed] = step
        return Sample(found)

    def majority(self, experiment: str, workload: str, policy: str) -> tuple[int, int | None]:
        """The pair of utilizations [%] between which a majority of runs becomes saturated.

        The first is the last utilization at which at most half of the runs are saturated, or 0 if
        there is none. The second is the next utilization, or None if the first is the last one.
        """
        after = None
        for step in reversed(self.steps(experiment, high=100)):
            if self.saturated(experiment, workload, policy, step).mean <= 0.5:
                return step, after
            after = step
        return 0, after
