"""The results of the study, from which claims, figures and page are made."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from wfrun.engine.jobs.reallocation import ALGORITHMS
from wfrun.studies.common.verdict import Sample
from wfrun.studies.reallocation.experiments import BASE, ReallocationRow

MEASURES = ("impacted", "moves", "early", "response")
REGULAR = ("mct-reg", "minmin-reg")
CANCELLING = ("mct-can", "minmin-can")
TITLES = {
    "mct-reg": "MCT-reg",
    "mct-can": "MCT-can",
    "minmin-reg": "MinMin-reg",
    "minmin-can": "MinMin-can",
}


class GridPlatform(NamedTuple):
    """One of the four platforms of the paper."""

    title: str
    section: str
    heterogeneous: str
    dedicated: str
    first_figure: int
    """The number of the platform's first figure in the paper. Each platform has four."""


HOMOGENEOUS = GridPlatform("homogeneous, dedicated", "5.1", "no", "yes", 5)
HETEROGENEOUS = GridPlatform("heterogeneous, dedicated", "5.2", "yes", "yes", 9)
SHARED = GridPlatform("homogeneous, not dedicated", "5.3", "no", "no", 13)
MIXED = GridPlatform("heterogeneous, not dedicated", "5.4", "yes", "no", 17)
PLATFORMS = (HOMOGENEOUS, HETEROGENEOUS, SHARED, MIXED)


class GridCase(NamedTuple):
    """An algorithm on a trace: one box of a figure."""

    platform: GridPlatform
    trace: str
    algorithm: str

    @property
    def title(self) -> str:
        return f"{self.trace} {TITLES[self.algorithm]}"


class ReallocationSamples:
    """The measures by platform, trace and algorithm, of the base or of one variant."""

    def __init__(self, rows: Sequence[ReallocationRow], variant: str = BASE) -> None:
        self._every = rows
        self.rows = rows = [row for row in rows if row.variant == variant]
        self.traces = list(dict.fromkeys(row.trace for row in rows))
        self.seeds = sorted({row.seed for row in rows})

    def of(self, platform: GridPlatform, trace: str) -> list[ReallocationRow]:
        """The rows of a platform and a trace, one for each seed."""
        return [
            row
            for row in self.rows
            if (row.trace, row.heterogeneous, row.dedicated)
            == (trace, platform.heterogeneous, platform.dedicated)
        ]

    def values(
        self, platform: GridPlatform, trace: str, measure: str, algorithm: str
    ) -> list[float]:
        """A measure of each seed."""
        return [value(row, measure, algorithm) for row in self.of(platform, trace)]

    def case(self, platform: GridPlatform, trace: str, measure: str, algorithm: str) -> Sample:
        """A measure of one case, by seed."""
        rows = self.of(platform, trace)
        return Sample({row.seed: value(row, measure, algorithm) for row in rows})

    def mean(self, platform: GridPlatform, measure: str, algorithm: str) -> Sample:
        """The mean of a measure over the traces, by seed."""
        rows = [row for trace in self.traces for row in self.of(platform, trace)]
        return Sample(
            {
                seed: fmean(value(row, measure, algorithm) for row in rows if row.seed == seed)
                for seed in self.seeds
            }
        )

    def variants(self) -> dict[str, ReallocationSamples]:
        """The samples of the base and of each variant, by name, restricted to the traces that the
        variants have. Empty without variants."""
        traces = {row.trace for row in self._every if row.variant != BASE}
        rows = [row for row in self._every if row.trace in traces]
        names = dict.fromkeys(row.variant for row in rows)
        return {name: ReallocationSamples(rows, name) for name in names}


def value(row: ReallocationRow, measure: str, algorithm: str) -> float:
    """A measure of one algorithm."""
    found: float = getattr(row, measure)[ALGORITHMS.index(algorithm)]
    return found
