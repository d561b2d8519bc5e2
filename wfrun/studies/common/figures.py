"""What the figures of studies share (matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wfrun.parsers.atomic import drafted
from wfrun.studies.common.verdict import Sample


def grid_of(rows: int, columns: int) -> tuple[Any, Any]:
    """A figure, and its panels by row and column."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * columns, 2.9 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def bars(axes: Any, names: Sequence[str], values: Sequence[Sample], colour: str = "C0") -> None:
    """Draw a bar for the mean of each sample, with its 95% confidence interval."""
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


def label_powers(axis: Any) -> None:
    """Label 1, 2 and 5 times each power of ten on a logarithmic axis, as plain numbers. If the axis
    spans a factor of 1000 or more, only the powers of ten are labelled."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    steps = (1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def save(figure: Any, folder: Path, name: str) -> str:
    """Write a figure to the file ``name`` in ``folder``, and return ``name``. Raises OSError."""
    with drafted(folder / name) as stream:
        figure.savefig(stream, format=name.rpartition(".")[2], dpi=110)
    return name
