"""The picture of an experiment, with matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wfrun.runners.display.pictures import new_figure, save_picture
from wfrun.runners.experiments.cells import (
    Case,
    Groups,
    Row,
    Variant,
    grouped,
    short_names,
    varies_throttle,
)
from wfrun.runners.metrics.samples import Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPREAD = 10
"""Ratio of the largest to the smallest mean above which the axis is logarithmic."""
PANELS_BELOW = 8
"""Maximum number of panels in a column of panels. Further panels start a new column."""
LINES = ("-", "--", ":", "-.")
"""Line styles, one for each combination of architecture and throttle."""


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw the mean makespan, and for workloads of bags also the mean NSL, with 95% confidence
    intervals, and save the picture to ``path``. Each document or workload that is simulated
    separately has its panels. With several loads a panel has lines over the load, otherwise bars
    for each policy. The ending of ``path`` selects the format.

    Raises InfeasibleError without matplotlib, or if the file cannot be written.
    """
    if not varies_throttle(variant for _, variant in grouped(rows)):
        rows = [msgspec.structs.replace(row, throttle=None) for row in rows]
    groups, names = grouped(rows), short_names(rows)
    variants = list(dict.fromkeys(variant for _, variant in groups))
    measures = ["makespan_s"] + ["nsl"] * any(row.bags is not None for row in rows)
    panels = [(name, measure) for name in names for measure in measures]
    over_loads = len({row.load for row in rows}) > 1
    across = 1 + (len(panels) - 1) // PANELS_BELOW
    below = -(-len(panels) // across)
    bars = 1 if over_loads else len(variants)
    figure = new_figure((min(max(7.0 if over_loads else 5.0, 0.4 * bars + 2.0), 14.0) * across,
                         0.8 + 3.2 * below))  # fmt: skip
    places = figure.subplots(below, across, squeeze=False).T.flat  # down, then to the right
    for number, ((workload, measure), axes) in enumerate(zip(panels, places, strict=False), 1):
        found = {key: g for key, g in groups.items() if key[0].workload == workload}
        samples = {
            key: summarize(getattr(row, measure) for row in g)
            for key, g in found.items()
            if all(getattr(row, measure) is not None for row in g)
        }
        if over_loads:
            _draw_lines(axes, samples, variants)
        else:
            last = number == len(panels) or number % below == 0
            _draw_bars(axes, samples, variants, named=last)
        axes.set_ylabel("NSL" if measure == "nsl" else "makespan [s]")
        axes.set_title(_title(names[workload], found), fontsize="medium")
        if number == 1 and len(axes.get_legend_handles_labels()[1]) > 1:
            figure.legend(*axes.get_legend_handles_labels(), fontsize="small", handlelength=3,
                          loc="outside right upper")  # fmt: skip
    for axes in figure.axes[:]:
        if not axes.has_data():
            axes.remove()
    seeds = max(len(group) for group in groups.values())
    if seeds > 1:
        figure.supxlabel(f"mean of {seeds} seeds, 95% confidence interval", fontsize="small")
    save_picture(figure, path)


def _title(name: str, groups: Groups) -> str:
    loads = {case.load for case, _ in groups}
    load = next(iter(loads)) if len(loads) == 1 else None
    return ", ".join([*([name] if name else []), *([f"load {load:g}"] if load is not None else [])])


Samples = dict[tuple[Case, Variant], Summary]
"""The summaries of one panel, by case and variant."""


def _draw_lines(axes: Axes, samples: Samples, variants: Sequence[Variant]) -> None:
    """Draw a line for each variant. Its colour shows the selection policy and the placement policy,
    its style the architecture and the throttle."""
    colours = list(dict.fromkeys((v.selection, v.policy) for v in variants))
    styles = list(dict.fromkeys((v.architecture, v.throttle) for v in variants))
    names = _names(variants, alone="policy")
    for variant in variants:
        points = {case.load or 0.0: s for (case, of), s in samples.items() if of == variant}
        points = dict(sorted(points.items()))
        axes.errorbar(
            list(points),
            [s.mean for s in points.values()],
            yerr=_error_bars(list(points.values())),
            marker="o",
            markersize=4,
            capsize=2,
            color=f"C{colours.index((variant.selection, variant.policy))}",
            linestyle=LINES[styles.index((variant.architecture, variant.throttle)) % len(LINES)],
            label=names[variant],
        )
    _scale(axes, [s.mean for s in samples.values()])
    axes.set_xlabel("load")
    axes.grid(alpha=0.3)


def _draw_bars(axes: Axes, samples: Samples, variants: Sequence[Variant], *, named: bool) -> None:
    """Draw a group of bars for each policy, with a bar for each combination of the other
    dimensions."""
    policies = list(dict.fromkeys(variant.policy for variant in variants))
    others = list(dict.fromkeys(variant._replace(policy="") for variant in variants))
    names = _names(others, alone="")
    found = {variant: summary for (_, variant), summary in samples.items()}
    bar = 0.8 / len(others)
    for number, other in enumerate(others):
        shown = [
            (place, found[variant])
            for place, policy in enumerate(policies)
            if (variant := other._replace(policy=policy)) in found
        ]
        summaries = [summary for _, summary in shown]
        axes.bar(
            [place + (number - (len(others) - 1) / 2) * bar for place, _ in shown],
            [s.mean for s in summaries],
            bar,
            yerr=_error_bars(summaries),
            capsize=2,
            error_kw={"linewidth": 0.8},
            label=names[other],
        )
    axes.set_xticks(range(len(policies)), policies if named else [], rotation=20, ha="right")
    _scale(axes, [s.mean for s in samples.values()])
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _error_bars(summaries: Sequence[Summary]) -> list[list[float]] | None:
    """Lengths of the error bars below and above the means; None: no mean has an interval. No bar
    extends below 0, because no measure is negative."""
    halves = [s.half_width or 0.0 for s in summaries]
    if not any(halves):
        return None
    return [[min(s.mean, h) for s, h in zip(summaries, halves, strict=True)], halves]


def _scale(axes: Axes, means: Sequence[float]) -> None:
    if means and 0 < min(means) * SPREAD < max(means):
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(means) / 2)
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.5g}")


def _names(variants: Sequence[Variant], *, alone: str) -> dict[Variant, str]:
    """Names of the variants, made of the dimensions in which they differ. If the variants do not
    differ, the name is the value of the field ``alone``."""
    words = {
        variant: (
            variant.architecture,
            variant.selection or "",
            variant.policy,
            "no throttle" if variant.throttle is None else f"throttle {variant.throttle}",
        )
        for variant in variants
    }
    differ = [len(set(column)) > 1 for column in zip(*words.values(), strict=True)]
    return {
        variant: " ".join(word for word, differs in zip(parts, differ, strict=True) if differs)
        or (getattr(variant, alone) if alone else "")
        for variant, parts in words.items()
    }
