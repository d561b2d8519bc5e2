"""Merges the parts of the Monte Carlo estimate, and draws how it narrows with their number.

    merge.py OUTPUTS_DIR [PICTURE]

Writes PICTURE (``monte-carlo.png``). Two estimates are made of the same paths: their plain mean,
and the mean with the geometric average as a control variate, whose error is known (Glasserman,
Monte Carlo Methods in Financial Engineering, section 4.1). Exit status 1 says that the geometric
average's price is not what its formula gives: then the paths are wrong.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist

from matplotlib.figure import Figure
from price import DAYS, RATE, SPOT, STRIKE, VOLATILITY, YEARS

Z95 = NormalDist().inv_cdf(0.975)
TOO_FAR = 5.0
"""Maximum error in standard errors. One correct estimate in two million exceeds it."""


@dataclass(frozen=True)
class Estimate:
    mean: float
    error: float
    """Standard error of the mean."""

    @property
    def half_width(self) -> float:
        """Half the width of the 95% confidence interval."""
        return Z95 * self.error


@dataclass(frozen=True)
class Sums:
    """Sums over paths of the payoffs on the arithmetic (x) and the geometric (y) average."""

    paths: int
    x: float
    y: float
    xx: float
    yy: float
    xy: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.paths + other.paths,
            self.x + other.x,
            self.y + other.y,
            self.xx + other.xx,
            self.yy + other.yy,
            self.xy + other.xy,
        )

    def plain(self) -> Estimate:
        return self._estimate(self.x / self.paths, self._covariance(self.xx, self.x, self.x))

    def geometric(self) -> Estimate:
        return self._estimate(self.y / self.paths, self._covariance(self.yy, self.y, self.y))

    def controlled(self) -> Estimate:
        """The plain mean, corrected by the known error of the geometric one."""
        both = self._covariance(self.xy, self.x, self.y)
        of_y = self._covariance(self.yy, self.y, self.y)
        slope = both / of_y
        mean = self.x / self.paths - slope * (self.y / self.paths - geometric_price())
        return self._estimate(mean, self._covariance(self.xx, self.x, self.x) - slope * both)

    def _covariance(self, products: float, first: float, second: float) -> float:
        return (products - first * second / self.paths) / (self.paths - 1)

    def _estimate(self, mean: float, variance: float) -> Estimate:
        return Estimate(mean, math.sqrt(variance / self.paths))


def geometric_price() -> float:
    """Price of the option on the geometric average, whose logarithm is normally distributed."""
    mean = math.log(SPOT) + (RATE - VOLATILITY**2 / 2) * YEARS * (DAYS + 1) / (2 * DAYS)
    spread = VOLATILITY * math.sqrt(YEARS * (DAYS + 1) * (2 * DAYS + 1) / (6 * DAYS**2))
    d = (mean - math.log(STRIKE)) / spread
    normal = NormalDist()
    forward = math.exp(mean + spread**2 / 2)
    return math.exp(-RATE * YEARS) * (forward * normal.cdf(d + spread) - STRIKE * normal.cdf(d))


def draw(merged: list[Sums], path: Path) -> None:
    """Draw both estimates and the widths of their intervals over the number of parts."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    parts = range(1, len(merged) + 1)
    for name, colour, estimates in (
        ("plain mean", "tab:blue", [sums.plain() for sums in merged]),
        ("with the control variate", "tab:red", [sums.controlled() for sums in merged]),
    ):
        means = [e.mean for e in estimates]
        widths = [e.half_width for e in estimates]
        left.plot(parts, means, color=colour, label=name)
        low, high = ([m + s * w for m, w in zip(means, widths, strict=True)] for s in (-1, 1))
        left.fill_between(parts, low, high, color=colour, alpha=0.2, linewidth=0)
        right.loglog(parts, widths, color=colour, label=name)
        right.loglog(parts, [widths[-1] * math.sqrt(len(parts) / n) for n in parts], "k:")
    final = merged[-1].controlled().mean
    spread = 2 * merged[0].plain().half_width
    left.set_ylim(final - spread, final + spread)
    left.set_title("estimated price, and its 95% confidence interval", fontsize="medium")
    right.set_title("half the interval's width (dotted: ∝ 1/√tasks)", fontsize="medium")
    right.set_ylim(top=4 * merged[0].plain().half_width)
    for axes in (left, right):
        axes.set_xlabel(f"tasks merged, of {merged[0].paths:,} paths each")
        axes.grid(alpha=0.3)
        axes.legend(loc="upper right")
    figure.savefig(path, dpi=120)


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    outputs, picture = Path(sys.argv[1]), Path((*sys.argv, "monte-carlo.png")[2])
    found = [json.loads(path.read_text()) for path in sorted(outputs.glob("part-*.json"))]
    if not found:
        print(f"there are no results (part-*.json) in {outputs}", file=sys.stderr)
        return 1
    parts = [Sums(**{k: v for k, v in part.items() if k != "seed"}) for part in found]
    merged = list(accumulate(parts, Sums.__add__))
    draw(merged, picture)
    exact, total = geometric_price(), merged[-1]
    seen = [part.geometric() for part in parts]
    inside = sum(abs(e.mean - exact) <= e.half_width for e in seen)
    print(f"{len(parts)} tasks, {total.paths:,} paths: {picture}")
    for name, estimate in (
        ("plain mean", total.plain()),
        ("with the control variate", total.controlled()),
        ("geometric average", total.geometric()),
    ):
        print(f"{name:>25}: {estimate.mean:.5f} ± {estimate.half_width:.5f}")
    print(f"{'by its formula':>25}: {exact:.5f}, inside {inside} of {len(parts)} tasks' intervals")
    estimate = total.geometric()
    return 1 if abs(estimate.mean - exact) > TOO_FAR * estimate.error else 0


if __name__ == "__main__":
    sys.exit(main())
