"""Figures 5.1 to 5.8 of the thesis with our results (matplotlib)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from wfrun.runners.experiments.cells import SIZES
from wfrun.runners.metrics.samples import Summary
from wfrun.studies.bags.compare import SHOWN
from wfrun.studies.bags.experiments import (
    ARCHITECTURES,
    ARRIVALS,
    REAL_LOAD,
    SELECTIONS,
    BagSamples,
)
from wfrun.studies.common.figures import grid_of, label_powers, save

MEASURES = (("makespan_s", "makespan [s]"), ("nsl", "NSL"))
MARKS = "osv^D<>x"

Value = Callable[[str, float], Summary]
"""Computes the value of a line from the name of the line and a place on the horizontal axis."""


def draw_bags(samples: BagSamples, folder: Path) -> list[str]:
    """Write all figures as PNG and return their file names. Raises OSError."""
    scale = samples.scale
    loads = [100 * load for load in scale.loads]
    minutes = [runtime_s / 60 for runtime_s in scale.mean_runtimes_s]
    inaccuracies = (0.0, *scale.inaccuracies)
    return [
        _sizes(samples, folder),
        _lines(folder, "5.2", "load [%]", loads, SHOWN, lambda measure: (
            lambda name, x: samples.of(measure, policy=name, load=_share(x)))),
        _arrivals(samples, folder),
        _lines(folder, "5.4", "median size of bags", scale.median_sizes, SHOWN, lambda measure: (
            lambda name, x: samples.of(measure, policy=name, median_size=x))),
        _lines(folder, "5.5", "mean run time [min]", minutes, SHOWN, lambda measure: (
            lambda name, x: samples.of(measure, policy=name, mean_runtime_s=round(x * 60)))),
        _lines(folder, "5.6", "inaccuracy [%]", inaccuracies, SHOWN, lambda measure: (
            lambda name, x: samples.of(measure, policy=name, inaccuracy=x))),
        _lines(folder, "5.7", "load [%]", loads, SELECTIONS, lambda measure: (
            lambda name, x: samples.of(measure, selection=name, load=_share(x)))),
        _lines(folder, "5.8", "load [%]", loads, ARCHITECTURES, lambda measure: (
            lambda name, x: samples.of(measure, architecture=name, load=_share(x))),
            (*MEASURES, ("completed_share", "tasks done in time"))),
    ]  # fmt: skip


def _share(percent: float) -> float:
    return round(percent / 100, 6)


def _lines(
    folder: Path,
    number: str,
    label: str,
    places: Sequence[float],
    names: Iterable[str],
    values: Callable[[str], Value],
    measures: Sequence[tuple[str, str]] = MEASURES,
) -> str:
    """Draw a panel for each measure, with a line for each name. The places on the horizontal axis
    are at equal distances."""
    figure, grid = grid_of(1, len(measures))
    for axes, (measure, title) in zip(grid[0], measures, strict=True):
        value = values(measure)
        for name, mark in zip(names, MARKS, strict=False):
            found = [value(name, x) for x in places]
            axes.errorbar(
                range(len(places)),
                [v.mean for v in found],
                yerr=_errors(found),
                marker=mark,
                markersize=4,
                linewidth=1,
                capsize=2,
                label=name,
            )
        axes.set_xticks(range(len(places)), [f"{x:g}" for x in places])
        axes.set_xlabel(label)
        axes.set_title(title, fontsize=9)
        _scale(axes)
    _legend(figure, grid)
    return save(figure, folder, f"figure-{number}.png")


def _errors(found: Sequence[Summary]) -> list[float] | None:
    """Half widths of the confidence intervals; None if no value has one, as with a single
    repetition."""
    errors = [value.half_width or 0.0 for value in found]
    return errors if any(errors) else None


def _scale(axes: Any) -> None:
    """Make the vertical axis logarithmic if the values span a factor of more than 10."""
    low, high = axes.dataLim.intervaly
    if low > 0 and high > 10 * low:
        axes.set_yscale("log")
        label_powers(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _legend(figure: Any, grid: Any) -> None:
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, loc="outside lower center", ncols=len(names))


def _sizes(samples: BagSamples, folder: Path) -> str:
    """Figure 5.1: by the size of the bag, under real load."""
    figure, grid = grid_of(1, 2)
    real = {"workload": samples.real, "load": REAL_LOAD}
    shown = [n for n in range(len(SIZES)) if samples.bags_of_size(n, **real)]
    for axes, (measure, title) in zip(grid[0], MEASURES, strict=True):
        for name, mark in zip(SHOWN, MARKS, strict=False):
            values = [samples.of_size(n, measure, policy=name, **real) for n in shown]
            axes.plot(range(len(shown)), values, marker=mark, markersize=4, linewidth=1, label=name)
        axes.set_xticks(range(len(shown)), [SIZES[n][1] for n in shown], rotation=60, fontsize=7)
        axes.set_xlabel("tasks of a bag")
        axes.set_title(title, fontsize=9)
        _scale(axes)
    _legend(figure, grid)
    return save(figure, folder, "figure-5.1.png")


def _arrivals(samples: BagSamples, folder: Path) -> str:
    """Figure 5.3: bars for each pattern of arrivals."""
    figure, grid = grid_of(1, 2)
    for axes, (measure, title) in zip(grid[0], MEASURES, strict=True):
        for number, arrival in enumerate(ARRIVALS):
            found = [samples.of(measure, policy=name, arrival=arrival) for name in SHOWN]
            axes.bar(
                [place + 0.27 * (number - 1) for place in range(len(SHOWN))],
                [v.mean for v in found],
                0.25,
                yerr=_errors(found),
                capsize=2,
                label=arrival,
            )
        axes.set_xticks(range(len(SHOWN)), SHOWN, rotation=60, fontsize=7)
        axes.set_yscale("log")
        label_powers(axes.yaxis)
        axes.set_title(title, fontsize=9)
        axes.grid(axis="y", alpha=0.3)
    _legend(figure, grid)
    return save(figure, folder, "figure-5.3.png")
