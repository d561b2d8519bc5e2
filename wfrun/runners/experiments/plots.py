"""Pictures of results, with matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wfrun.runners.display.pictures import new_figure, save_picture
from wfrun.runners.experiments.metrics.samples import summarize
from wfrun.runners.experiments.results import GroupKey, Row, grouped, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPREAD = 10
"""Where the means differ by more than this, the axis is logarithmic."""
PANELS_BELOW = 8
"""So many stand one below the other; for more there are further columns."""


def plot_makespans(rows: Sequence[Row], path: Path) -> None:
    """Bars of the mean makespan per policy, one panel for each load, in it one group of bars for
    each throttle, with 95% confidence intervals; panels for each workflow, if each was simulated on
    its own. The ending of ``path`` chooses the format.

    Raises InfeasibleError without matplotlib, or where the file can't be written.
    """
    cases = list(dict.fromkeys((row.workflow, row.load) for row in rows))
    policies = list(dict.fromkeys(row.policy for row in rows))
    throttles = list(dict.fromkeys(row.throttle for row in rows))
    names = short_names(rows)
    across = 1 + (len(cases) - 1) // PANELS_BELOW
    below = -(-len(cases) // across)
    width = min(max(5.0, 0.4 * len(policies) * len(throttles) + 2.0), 14.0)
    figure = new_figure((width * across, 0.8 + 3.2 * below))
    panels = figure.subplots(below, across, squeeze=False).T.flat  # down, then to the right
    groups = {key: [row.makespan_s for row in group] for key, group in grouped(rows).items()}
    for number, ((workflow, load), axes) in enumerate(zip(cases, panels, strict=False), 1):
        samples = {k: s for k, s in groups.items() if (k.workflow, k.load) == (workflow, load)}
        _draw_bars(axes, samples, policies, throttles)
        title = [names[workflow]] if workflow is not None else []
        if load is not None:
            title.append(f"background load {load:g}")
        axes.set_title(", ".join(title), fontsize="medium")
        last = number == len(cases) or number % below == 0
        axes.set_xticks(range(len(policies)), policies if last else [], rotation=20, ha="right")
        if number == 1 and len(throttles) > 1:
            axes.legend(fontsize="small")
    for axes in figure.axes[:]:
        if not axes.has_data():
            axes.remove()
    seeds = max(len(group) for group in groups.values())
    if seeds > 1:
        figure.supxlabel(f"mean of {seeds} seeds, 95% confidence interval", fontsize="small")
    save_picture(figure, path)


def _draw_bars(
    axes: Axes,
    samples: Mapping[GroupKey, Sequence[float]],
    policies: Sequence[str],
    throttles: Sequence[int | None],
) -> None:
    """One panel; ``samples`` are of one workflow and load."""
    found = {(key.policy, key.throttle): summarize(sample) for key, sample in samples.items()}
    bar = 0.8 / len(throttles)
    for number, throttle in enumerate(throttles):
        summaries = [found[policy, throttle] for policy in policies]
        means = [s.mean for s in summaries]
        halves = [s.half_width or 0.0 for s in summaries]
        axes.bar(
            [place + (number - (len(throttles) - 1) / 2) * bar for place in range(len(means))],
            means,
            bar,
            # a makespan is not below 0, whatever the normal distribution says
            yerr=[[min(m, h) for m, h in zip(means, halves, strict=True)], halves]
            if any(halves)
            else None,
            capsize=2,
            error_kw={"linewidth": 0.8},
            label="no throttle" if throttle is None else f"throttle {throttle}",
        )
    axes.set_ylabel("makespan [s]")
    heights = [s.mean for s in found.values()]
    if 0 < min(heights) * SPREAD < max(heights):
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(heights) / 2)
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
