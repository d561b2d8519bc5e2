"""Figures 3 to 7 of the paper with our results (matplotlib)."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from wfrun.studies.common.figures import grid_of, save
from wfrun.studies.demt.experiments import (
    ALGORITHMS,
    CRITERIA,
    DEMT,
    MAKESPAN,
    NAMES,
    DemtSamples,
    bound,
    value,
)
from wfrun.studies.demt.workloads import TITLES, WORKLOADS

TOP = {MAKESPAN: 3.0}
"""Upper end of the axis of C_max. The ratios of Gang with weakly parallel jobs are far above it and
are cut off."""
WEIGHTED_TOP = 5.0


def draw_demt(samples: DemtSamples, folder: Path) -> list[str]:
    """Write the figures as PNG and return their file names. Raises OSError."""
    names = []
    for number, workload in enumerate(WORKLOADS, 3):
        figure, axes = grid_of(1, 2)
        for panel, criterion in zip(axes[0], CRITERIA, strict=True):
            for algorithm in ALGORITHMS:
                means = [samples.ratio(workload, t, algorithm, criterion) for t in samples.tasks]
                panel.plot(samples.tasks, means, marker=".", label=NAMES[algorithm])
            runs = [
                [value(r, DEMT, criterion) / bound(r, criterion) for r in samples.of(workload, t)]
                for t in samples.tasks
            ]
            panel.fill_between(samples.tasks, [*map(min, runs)], [*map(max, runs)], alpha=0.15)
            panel.set_ylim(1, TOP.get(criterion, WEIGHTED_TOP))
            panel.set_title(f"{TITLES[workload]}: {criterion} / bound", fontsize=8)
            panel.set_xlabel("jobs")
            panel.grid(alpha=0.3)
        axes[0][0].legend(fontsize=6)
        names.append(save(figure, folder, f"figure-{number}.png"))
    figure, axes = grid_of(1, 1)
    for workload in WORKLOADS:
        seconds = [fmean(row.demt_s for row in samples.of(workload, t)) for t in samples.tasks]
        axes[0][0].plot(samples.tasks, seconds, marker=".", label=TITLES[workload])
    axes[0][0].set_xlabel("jobs")
    axes[0][0].set_ylabel("time of DEMT [s]")
    axes[0][0].legend(fontsize=6)
    return [*names, save(figure, folder, "figure-7.png")]
