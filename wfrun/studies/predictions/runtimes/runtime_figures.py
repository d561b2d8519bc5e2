"""Figures 7.2 to 7.6 (matplotlib)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.studies.common.figures import save
from wfrun.studies.predictions.runtimes.runtime_samples import TITLES, Choice, RuntimeSamples
from wfrun.studies.predictions.runtimes.runtimes import ACCURACIES, ERRORS_S, GENERAL, SPECIFIC

KINDS = (("research", "research grids"), ("production", "production grids"))


def draw_runtimes(samples: RuntimeSamples, folder: Path) -> dict[str, str]:
    """Write the figures as PNG and return their file names by figure number."""
    found = {
        figure: _methods(samples, folder, figure, classification)
        for figure, classification in zip(("7.2", "7.3", "7.4"), GENERAL, strict=True)
    }
    return {**found, "7.5": _specific(samples, folder), "7.6": _distributions(samples, folder)}


def wide(width: float = 10.0, height: float = 3.4) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _bars(axes: Any, places: list[str], series: dict[str, list[float]]) -> None:
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        offset = (number - (len(series) - 1) / 2) * width
        axes.bar([place + offset for place in range(len(places))], values, width, label=name)
    axes.set_xticks(range(len(places)), places, rotation=40, ha="right", fontsize=8)
    axes.set_ylim(0, 1)
    axes.set_ylabel("mean accuracy")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _methods(samples: RuntimeSamples, folder: Path, figure: str, classification: str) -> str:
    served = [w for w in samples.workloads() if samples.serves(w, classification)]
    values = [samples.accuracies(w, classification) for w in served]
    drawn = wide()
    axes = drawn.subplots()
    series = {title: [v[method] for v in values] for method, title in TITLES.items()}
    _bars(axes, [w.title for w in served], series)
    axes.set_title(CLASSIFICATIONS[classification].title, fontsize=9)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=len(series))
    return save(drawn, folder, f"figure-{figure}.png")


def _specific(samples: RuntimeSamples, folder: Path) -> str:
    served = [w for w in samples.workloads() if samples.serves(w, SPECIFIC)]
    before = [samples.best(w, GENERAL) for w in served]
    pairs = list(zip(served, before, strict=True))
    drawn = wide()
    axes = drawn.subplots()
    _bars(
        axes,
        [f"{w.title}\n{TITLES[choice.method]}" for w, choice in pairs],
        {
            "without": [samples.row(w, choice).accuracy for w, choice in pairs],
            "with": [samples.row(w, Choice(c.method, SPECIFIC)).accuracy for w, c in pairs],
        },
    )
    axes.set_title(CLASSIFICATIONS[SPECIFIC].title, fontsize=9)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=2)
    return save(drawn, folder, "figure-7.5.png")


def _distributions(samples: RuntimeSamples, folder: Path) -> str:
    kinds = [kind for kind in (*KINDS, ("parallel", "parallel machines"))
             if samples.workloads(kind[0])]  # fmt: skip
    drawn = wide(3.4 * len(kinds), 6.0)
    grid = drawn.subplots(2, len(kinds), squeeze=False)
    for column, (kind, title) in enumerate(kinds):
        for workload in samples.workloads(kind):
            row = samples.row(workload, samples.best(workload))
            grid[0][column].plot(ACCURACIES, row.accuracy_shares, linewidth=1, label=workload.title)
            grid[1][column].plot(ERRORS_S, row.error_shares, linewidth=1, label=workload.title)
        grid[0][column].set_title(title, fontsize=9)
        grid[0][column].set_xlabel("accuracy")
        grid[1][column].set_xlabel("absolute error [s]")
        grid[1][column].set_xscale("log")
        grid[0][column].legend(fontsize=6)
    for axes in grid.flat:
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
    grid[0][0].set_ylabel("share of the jobs")
    grid[1][0].set_ylabel("share of the jobs")
    return save(drawn, folder, "figure-7.6.png")
