"""Figures 1 to 5 of the paper with our results (matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wfrun.studies.allocation.page import BEST_OF
from wfrun.studies.allocation.samples import DETAILED, AllocationSamples, order
from wfrun.studies.common.figures import grid_of, save


def draw_allocation(samples: AllocationSamples, folder: Path) -> dict[str, str]:
    """Write the figures as PNG. Return the names of the files by the number of the figure. Raises
    OSError."""
    found = {}
    for number, symbol in enumerate(DETAILED, 1):
        panels = {grid: samples.degraded(grid, symbol) for grid in samples.grids}
        name = f"figure-{number}.png"
        found[str(number)] = _bars(panels, symbol, folder, name, count=BEST_OF)
    panels = {grid: samples.mean_degraded(grid) for grid in samples.grids}
    found["4"] = _bars(panels, "mean of the metrics", folder, "figure-4.png")
    overall = {"all grids": samples.overall()}
    found["5"] = _bars(overall, "mean of the metrics", folder, "figure-5.png")
    return found


def _bars(
    panels: Mapping[str, Mapping[str, float]],
    what: str,
    folder: Path,
    name: str,
    count: int | None = None,
) -> str:
    """Draw a panel of bars for each grid, with the strategies by rank. The axis is linear up to 1%
    and logarithmic above, because degradations span many orders of magnitude."""
    figure, axes = grid_of(1, len(panels))
    for place, (grid, values) in enumerate(panels.items()):
        names: Sequence[str] = order(values)[:count]
        panel = axes[0][place]
        panel.bar(names, [values[one] for one in names])
        panel.set_yscale("symlog", linthresh=1.0)
        panel.set_ylim(bottom=0)
        panel.set_title(f"{grid}: {what}", fontsize=8)
        panel.tick_params(axis="x", labelrotation=60, labelsize=7)
        panel.grid(axis="y", alpha=0.3)
        panel.set_axisbelow(True)
        panel.set_ylabel("degradation [%]")
    return save(figure, folder, name)
