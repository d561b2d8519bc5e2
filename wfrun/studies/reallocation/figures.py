"""Figures 5 to 20 of RR-7365 with our results (matplotlib). One picture has the four figures of a
platform."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.jobs.reallocation import ALGORITHMS
from wfrun.studies.common.figures import grid_of, save
from wfrun.studies.reallocation.samples import (
    MEASURES,
    PLATFORMS,
    TITLES,
    GridPlatform,
    ReallocationSamples,
)

LABELS = {
    "impacted": "jobs impacted [%]",
    "moves": "moves [% of the jobs]",
    "early": "jobs early [%]",
    "response": "relative response time",
}


def draw_reallocation(samples: ReallocationSamples, folder: Path) -> list[str]:
    """Write a picture with four panels for each platform, as PNG, and return the file names. Raises
    OSError."""
    return [_platform(samples, platform, folder) for platform in PLATFORMS]


def _platform(samples: ReallocationSamples, platform: GridPlatform, folder: Path) -> str:
    figure, panels = grid_of(2, 2)
    figure.set_size_inches(10, 6.5)
    for place, measure in enumerate(MEASURES):
        axes = panels[place // 2][place % 2]
        for number, algorithm in enumerate(ALGORITHMS):
            boxes = axes.boxplot(
                [samples.values(platform, t, measure, algorithm) for t in samples.traces],
                positions=[t + 0.2 * (number - 1.5) for t in range(len(samples.traces))],
                widths=0.15,
                showmeans=True,
                patch_artist=True,
                whis=(0, 100),
                medianprops={"color": "black"},
                meanprops={"marker": ".", "markerfacecolor": "white", "markeredgecolor": "black"},
            )
            for box in boxes["boxes"]:
                box.set_facecolor(f"C{number}")
            axes.plot([], [], color=f"C{number}", linewidth=6, label=TITLES[algorithm])
        if measure == "response":
            axes.axhline(1.0, color="grey", linestyle="--", linewidth=1)
        axes.set_xticks(range(len(samples.traces)), samples.traces, rotation=30, fontsize=8)
        axes.set_title(f"Figure {platform.first_figure + place}", fontsize=9)
        axes.set_ylabel(LABELS[measure])
        axes.grid(axis="y", alpha=0.3)
    panels[0][0].legend(fontsize=7)
    return save(figure, folder, f"figures-{platform.first_figure}-{platform.first_figure + 3}.png")
