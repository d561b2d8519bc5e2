"""Figures 6.3, 6.5 and 6.6 of the thesis with our results (matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wfrun.runners.studies.verdict import Sample
from wfrun.runners.studies.workflows import paper
from wfrun.runners.studies.workflows.claims_rest import DYNAMIC, variant_name
from wfrun.runners.studies.workflows.samples import Samples

MEASURES = (("makespan_s", "makespan [s]"), ("nsl", "NSL"))


def available() -> bool:
    """Whether matplotlib is installed (the extra ``plots``)."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def draw(samples: Samples, folder: Path) -> list[str]:
    """Write all figures as PNG; returns their names. Raises OSError."""
    return [
        _policies(samples, folder),
        _throttles(samples, folder),
        _several(samples, folder),
    ]


def grid_of(rows: int, columns: int) -> tuple[Any, Any]:
    """A figure, and its panels by row and column."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * columns, 2.9 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _bars(axes: Any, names: Sequence[str], values: Sequence[Sample], colour: str = "C0") -> None:
    axes.bar(
        names,
        [v.mean for v in values],
        yerr=[v.summary.half_width or 0.0 for v in values],
        capsize=2,
        color=colour,
    )
    axes.tick_params(axis="x", labelrotation=60, labelsize=7)
    axes.grid(axis="y", alpha=0.3)
    axes.set_ylim(bottom=0)


def _policies(samples: Samples, folder: Path) -> str:
    """Figure 6.3: a column for each workload, makespan and NSL, idle and loaded."""
    figure, grid = grid_of(4, len(paper.WORKLOADS))
    for column, workload in enumerate(paper.WORKLOADS):
        for row, ((measure, label), loaded) in enumerate(
            (m, loaded) for loaded in (False, True) for m in MEASURES
        ):
            policies = list(paper.TABLE_6_3[workload, loaded])
            values = [samples.single(workload, p, measure, loaded=loaded) for p in policies]
            axes = grid[row][column]
            _bars(axes, policies, values, "C1" if loaded else "C0")
            axes.set_title(f"{workload}{'+BG' if loaded else ''}", fontsize=9)
            if column == 0:
                axes.set_ylabel(label)
    return save(figure, folder, "figure-6.3.png")


def _throttles(samples: Samples, folder: Path) -> str:
    """Figure 6.5: the makespan by concurrency limit."""
    figure, grid = grid_of(2, 4)
    for row, policy in enumerate(DYNAMIC):
        panels = [(w, loaded) for loaded in (False, True) for w in ("wf-large1", "wf-large2")]
        for column, (workload, loaded) in enumerate(panels):
            limits: tuple[int | None, ...] = (*paper.LIMITS, None)
            values = [
                samples.single(workload, policy, "makespan_s", loaded=loaded, throttle=limit)
                for limit in limits
            ]
            axes = grid[row][column]
            names = ["none" if limit is None else str(limit) for limit in limits]
            _bars(axes, names, values, "C1" if loaded else "C0")
            axes.set_title(f"{policy}, {workload}{'+BG' if loaded else ''}", fontsize=9)
            axes.set_ylabel("makespan [s]")
    return save(figure, folder, "figure-6.5.png")


def _several(samples: Samples, folder: Path) -> str:
    """Figure 6.6: total makespan and NSL of several instances."""
    figure, grid = grid_of(2, len(paper.MULTI))
    variants = range(len(paper.MULTI_VARIANTS))
    for column, (_, size, instances) in enumerate(paper.MULTI):
        for row, (measure, label) in enumerate(MEASURES):
            values = [samples.multi(size, instances, v, measure) for v in variants]
            axes = grid[row][column]
            _bars(axes, [variant_name(v) for v in variants], values)
            axes.set_title(f"CyberShake-{size}, N = {instances}", fontsize=9)
            axes.set_ylabel(label if row else "total makespan [s]")
    return save(figure, folder, "figure-6.6.png")


def save(figure: Any, folder: Path, name: str) -> str:
    """Write a figure; returns its name. Raises OSError."""
    figure.savefig(folder / name, dpi=110)
    return name
