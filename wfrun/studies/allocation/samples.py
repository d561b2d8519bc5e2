"""Results of the study: metrics, degradations and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wfrun.runners.metrics.degradation import degradations, mean_degradations, ranks
from wfrun.runners.metrics.grid import GRID_METRICS
from wfrun.studies.allocation.experiments import NAMES, WEEKLY, AllocationOutcome
from wfrun.studies.common.verdict import Sample, combine, mean_of

DETAILED = ("t_w", "SD_b", "SWCT_w")
"""The three metrics that the paper analyses."""
_PLACES = {symbol: place for place, symbol in enumerate(GRID_METRICS)}


class AllocationSamples:
    """Metrics by grid and strategy. The repetitions are the weeks of one simulation.

    ``reading`` maps a strategy to the variant whose results stand for the strategy. Strategies that
    are absent keep their own results.
    """

    def __init__(
        self,
        weeks: int,
        grids: Sequence[str],
        rows: Sequence[AllocationOutcome],
        reading: Mapping[str, str] | None = None,
    ) -> None:
        self.weeks = weeks
        self.grids = tuple(grids)
        self._all = rows
        self._rows = {(row.grid, row.strategy, row.variant): row for row in rows}
        self._reading = reading or {}

    def read(self, reading: Mapping[str, str]) -> AllocationSamples:
        """The same results under another reading of Table 1."""
        return AllocationSamples(self.weeks, self.grids, self._all, reading)

    def _row(self, grid: str, strategy: str) -> AllocationOutcome:
        return self._rows[grid, strategy, self._reading.get(strategy)]

    def jobs(self, grid: str) -> int:
        """Number of jobs in all weeks."""
        return sum(self._row(grid, "MPL").jobs)

    def values(self, grid: str, symbol: str) -> dict[str, float]:
        """A metric over all jobs, by strategy."""
        return {name: self._row(grid, name).values[_PLACES[symbol]] for name in NAMES}

    def changed(self, strategy: str, symbol: str, variant: str | None) -> float:
        """The metric ``symbol`` of a strategy over all jobs in Grid1, with the change ``variant``;
        None: without a change."""
        return self._rows["Grid1", strategy, variant].values[_PLACES[symbol]]

    def week(self, grid: str, strategy: str, symbol: str) -> Sample:
        """The metric ``symbol``, one of ``WEEKLY``, over the jobs of each week."""
        row = self._row(grid, strategy)
        values = row.weekly[WEEKLY.index(symbol) :: len(WEEKLY)]
        return Sample(dict(enumerate(values, 1)))

    def shares(self, grid: str, symbol: str) -> dict[str, Sample]:
        """The contribution of each week to the metric ``symbol``, one of ``DETAILED``, by strategy.
        The mean of such a sample is the metric over all jobs. In mean waits and slowdowns, weeks
        count in proportion to their jobs."""
        jobs = self._row(grid, "MPL").jobs
        mean = sum(jobs) / self.weeks
        counts = enumerate(jobs, 1)
        weight = Sample(
            {w: self.weeks if symbol == "SWCT_w" else count / mean for w, count in counts}
        )
        return {
            name: combine(lambda a, b: a * b, self.week(grid, name, symbol), weight)
            for name in NAMES
        }

    def degraded(self, grid: str, symbol: str) -> dict[str, float]:
        """Degradation over all jobs in percent, by strategy."""
        return degradations(self.values(grid, symbol), GRID_METRICS[symbol].better)

    def degraded_shares(self, grid: str, symbol: str) -> dict[str, Sample]:
        """The contribution of each week to the degradation in ``symbol``, one of ``DETAILED``, in
        percent by strategy: the week's share of the metric, relative to the metric of the best
        strategy over all weeks. The means of the samples are the values of `degraded`."""
        best = min(self.values(grid, symbol).values())
        return {
            name: combine(lambda share: 100 * share / best - 100, sample)
            for name, sample in self.shares(grid, symbol).items()
        }

    def mean_degraded(self, grid: str) -> dict[str, float]:
        """Degradation in percent by strategy: the mean over the three metrics (Table 4, Figure
        4)."""
        return mean_degradations([self.degraded(grid, symbol) for symbol in DETAILED])

    def mean_degraded_shares(self, grid: str) -> dict[str, Sample]:
        """The contribution of each week to `mean_degraded`."""
        tables = [self.degraded_shares(grid, symbol) for symbol in DETAILED]
        return {name: mean_of(table[name] for table in tables) for name in NAMES}

    def overall(self) -> dict[str, float]:
        """Degradation in percent by strategy: the mean over the metrics and grids (Figure 5)."""
        return mean_degradations([self.mean_degraded(grid) for grid in self.grids])

    def table_6(self) -> dict[str, dict[str, float]]:
        """Degradation in percent by metric and strategy: the mean over the grids."""
        return {
            symbol: mean_degradations([self.degraded(grid, symbol) for grid in self.grids])
            for symbol in GRID_METRICS
        }


def order(values: Mapping[str, float]) -> list[str]:
    """The strategies in the order of their ranks, the best first."""
    place = ranks(values)
    return sorted(values, key=lambda name: place[name])
