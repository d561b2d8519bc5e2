"""Figures 7.9 to 7.11 (matplotlib)."""

from __future__ import annotations

from pathlib import Path

from wfrun.runners.simulate.grid.grids import GRIDS
from wfrun.studies.common.figures import save
from wfrun.studies.predictions.grids.grid_page import FIGURES
from wfrun.studies.predictions.grids.grid_samples import GridSamples
from wfrun.studies.predictions.grids.grids import SCHEDULERS, SLOWDOWNS, TIMES_S
from wfrun.studies.predictions.runtimes.runtime_figures import wide

PANELS = (
    ("wait_shares", TIMES_S, "queue wait time [s]"),
    ("response_shares", TIMES_S, "response time [s]"),
    ("slowdown_shares", SLOWDOWNS, "bounded slowdown"),
)


def draw_grids(samples: GridSamples, folder: Path) -> dict[str, str]:
    """Write the figures of the first repetition as PNG and return their file names by figure
    number."""
    found = {FIGURES[name]: _distributions(samples, folder, name) for name in GRIDS}
    return {**found, "7.11": _clusters(samples, folder)}


def _distributions(samples: GridSamples, folder: Path, grid: str) -> str:
    drawn = wide(10.5, 3.4)
    panels = drawn.subplots(1, len(PANELS))
    for axes, (field, places, label) in zip(panels, PANELS, strict=True):
        for policy in SCHEDULERS:
            axes.plot(places, getattr(samples.row(grid, policy), field), linewidth=1, label=policy)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.01)
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("share of the jobs")
    handles, names = panels[0].get_legend_handles_labels()
    drawn.legend(handles, names, fontsize=8, loc="outside lower center", ncols=len(names))
    return save(drawn, folder, f"figure-{FIGURES[grid]}.png")


def _clusters(samples: GridSamples, folder: Path) -> str:
    drawn = wide(8.0, 3.2)
    for axes, (name, grid) in zip(drawn.subplots(1, len(GRIDS)), GRIDS.items(), strict=True):
        policies = ("ECT-Perfect", "ECT-Last2")
        for index, policy in enumerate(policies):
            places = [place + 0.4 * (index - 0.5) for place in range(len(grid.sites))]
            axes.bar(places, samples.row(name, policy).share, 0.4, label=policy)
        axes.set_xticks(range(len(grid.sites)), [spec.name for spec in grid.sites])
        axes.set_title(grid.title, fontsize=9)
        axes.set_ylabel("share of the jobs")
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.legend(fontsize=7)
    return save(drawn, folder, "figure-7.11.png")
