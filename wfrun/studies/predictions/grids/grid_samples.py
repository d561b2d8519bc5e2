"""Results of the simulations of section 7.4, by grid and policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from wfrun.studies.predictions.grids.grids import GridRow
from wfrun.studies.predictions.part import PartSetting


class GridSamples:
    """Results by grid, policy and repetition."""

    def __init__(self, setting: PartSetting, rows: Sequence[GridRow], every: bool) -> None:
        self.setting = setting
        self.every = every
        self._rows = {(row.grid, row.policy, row.seed): row for row in rows}
        self.seeds = sorted({row.seed for row in rows})
        self.part = rows[0].part

    def row(self, grid: str, policy: str, seed: int = 0) -> GridRow:
        return self._rows[grid, policy, seed]

    def mean(self, grid: str, policy: str, measure: str) -> float:
        """The mean over the repetitions."""
        return fmean(float(getattr(self.row(grid, policy, seed), measure)) for seed in self.seeds)

    def means(self, grid: str, measure: str, policies: Sequence[str]) -> dict[str, float]:
        return {policy: self.mean(grid, policy, measure) for policy in policies}

    def holds(self, test: Callable[[int], bool]) -> bool:
        """Whether the claim holds in all repetitions or, if ``every`` is False, in more than half
        of them. ``test`` gets the seed of a repetition."""
        return self.agree({seed: test(seed) for seed in self.seeds})

    def agree(self, findings: Mapping[int, bool]) -> bool:
        held = sum(findings.values())
        return held == len(findings) if self.every else 2 * held > len(findings)


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Total variation distance of two distributions of jobs over clusters: the share of the jobs
    that would have to move to make them equal."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
