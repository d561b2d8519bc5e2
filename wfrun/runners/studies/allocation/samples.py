"""Results of the study: metrics, degradations and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wfrun.runners.experiments.metrics.degradation import (
    degradations,
    mean_degradations,
    ranks,
)
from wfrun.runners.experiments.metrics.grid import GRID_METRICS
from wfrun.runners.studies.allocation.experiments import NAMES, Outcome, Scale
from wfrun.runners.studies.verdict import Sample

DETAILED = ("t_w", "SD_b", "SWCT_w")
"""The three metrics that the paper analyses."""
_PLACES = {symbol: place for place, symbol in enumerate(GRID_METRICS)}


class AllocationSamples:
    """Metrics by grid and strategy. The repetitions are weeks."""

    def __init__(self, scale: Scale, grids: Sequence[str], rows: Sequence[Outcome]) -> None:
        self.scale = scale
        self.grids = tuple(grids)
        self._rows = {(row.grid, row.strategy, row.variant, row.week): row for row in rows}

    def jobs(self, grid: str, week: int) -> int:
        return self._rows[grid, "MPL", None, week].jobs

    @property
    def weeks(self) -> range:
        return range(1, self.scale.weeks + 1)

    def value(
        self, grid: str, strategy: str, symbol: str, week: int, variant: str | None = None
    ) -> float:
        """A metric in one week; 0: in the whole period."""
        return self._rows[grid, strategy, variant, week].values[_PLACES[symbol]]

    def metric(self, grid: str, symbol: str) -> dict[str, Sample]:
        """A metric in each week, by strategy."""
        return {
            name: Sample({m: self.value(grid, name, symbol, m) for m in self.weeks})
            for name in NAMES
        }

    def changed(self, strategy: str, symbol: str, variant: str | None) -> Sample:
        """A metric in Grid1 in the weeks of the changed simulations."""
        weeks = range(1, self.scale.changed + 1)
        return Sample({m: self.value("Grid1", strategy, symbol, m, variant) for m in weeks})

    def degraded(self, grid: str, symbol: str) -> dict[str, float]:
        """Degradation in percent by strategy: of the whole period, or of the mean of all weeks
        in a study without it."""
        metric = GRID_METRICS[symbol]
        if self.scale.whole:
            values = {name: self.value(grid, name, symbol, 0) for name in NAMES}
        else:
            values = {name: sample.mean for name, sample in self.metric(grid, symbol).items()}
        return degradations(values, metric.better)

    def degraded_by_week(self, grid: str, symbol: str) -> dict[str, Sample]:
        """Degradation in percent of each week, by strategy."""
        found: dict[str, dict[int, float]] = {name: {} for name in NAMES}
        for week in self.weeks:
            values = {name: self.value(grid, name, symbol, week) for name in NAMES}
            for name, percent in degradations(values, GRID_METRICS[symbol].better).items():
                found[name][week] = percent
        return {name: Sample(values) for name, values in found.items()}

    def mean_degraded(self, grid: str) -> dict[str, float]:
        """Mean over the three metrics, in percent (Table 4, Figure 4)."""
        return mean_degradations([self.degraded(grid, symbol) for symbol in DETAILED])

    def mean_degraded_by_week(self, grid: str) -> dict[str, Sample]:
        """The same of each week."""
        tables = [self.degraded_by_week(grid, symbol) for symbol in DETAILED]
        return {
            name: Sample(
                {
                    week: sum(table[name].values[week] for table in tables) / len(tables)
                    for week in self.weeks
                }
            )
            for name in NAMES
        }

    def overall(self) -> dict[str, float]:
        """Mean over the metrics and grids, in percent (Figure 5)."""
        return mean_degradations([self.mean_degraded(grid) for grid in self.grids])

    def table_6(self) -> dict[str, dict[str, float]]:
        """Degradation in percent, mean of the grids, by metric and strategy."""
        return {
            symbol: mean_degradations([self.degraded(grid, symbol) for grid in self.grids])
            for symbol in GRID_METRICS
        }


def order(values: Mapping[str, float]) -> list[str]:
    """The strategies by rank."""
    place = ranks(values)
    return sorted(values, key=lambda name: place[name])
