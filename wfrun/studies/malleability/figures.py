"""Panels a to d of Figures 3.4 and 3.5 of the thesis, of the first run (matplotlib)."""

from __future__ import annotations

from pathlib import Path

from wfrun.runners.metrics.samples import cumulative
from wfrun.studies.common.figures import grid_of, save
from wfrun.studies.malleability.experiments import (
    MALLEABILITY,
    PRA,
    PWA,
    MalleabilityCell,
    label,
    simulated,
)
from wfrun.studies.malleability.workloads import MIXES

PANELS = ("mean processors", "maximum of processors", "execution time [s]", "response time [s]")


def draw_malleability(folder: Path) -> list[str]:
    """Write the figures as PNG and return their file names. Raises OSError."""
    names = []
    for name, experiment in (("figure-3.4.png", PRA), ("figure-3.5.png", PWA)):
        figure, axes = grid_of(2, 2)
        panels = [panel for row in axes for panel in row]
        for policy in MALLEABILITY:
            for mix in MIXES:
                cell = MalleabilityCell(experiment=experiment, policy=policy, mix=mix, seed=0)
                load, outcome = simulated(cell)
                pairs = list(zip(outcome.lives, load.jobs, strict=True))
                values: tuple[list[float], ...] = (
                    [life.mean_size for life, _ in pairs],
                    [life.largest for life, _ in pairs],
                    [life.end_s - life.start_s for life, _ in pairs],
                    [life.end_s - job.arrival_s for life, job in pairs],
                )
                for panel, sample in zip(panels, values, strict=True):
                    points = cumulative(sample)
                    panel.step(
                        [x for x, _ in points], [y for _, y in points], where="post",
                        label=label(policy, mix, experiment),
                    )  # fmt: skip
        for panel, title in zip(panels, PANELS, strict=True):
            panel.set_xlabel(title)
            panel.grid(alpha=0.3)
        panels[0].legend(fontsize=6)
        names.append(save(figure, folder, name))
    return names
