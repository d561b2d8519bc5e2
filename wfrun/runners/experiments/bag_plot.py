"""A picture of simulated workloads of bags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wfrun.runners.display.pictures import new_figure, save_picture
from wfrun.runners.experiments.bag_rows import BagRow
from wfrun.runners.experiments.bag_table import Case, Variant, grouped
from wfrun.runners.experiments.metrics.samples import Summary, summarize
from wfrun.runners.experiments.plots import SPREAD

LINES = ("-", "--", ":")
"""Of the architectures."""
MEASURES = (("makespan_s", "makespan [s]"), ("nsl", "NSL"))


def plot_bags(rows: Sequence[BagRow], path: Path) -> None:
    """Mean makespan and NSL against the load, a line for each architecture (its kind), selection
    policy and policy (its colour), with 95% confidence intervals over the seeds; a column of panels
    for each workload. The ending of ``path`` chooses the format.

    Raises InfeasibleError without matplotlib, or where the file can't be written.
    """
    groups = grouped(rows)
    workloads = list(dict.fromkeys(case.workload for case, _ in groups))
    figure = new_figure((5.5 * len(workloads) + 2.5, 7.0))
    panels = figure.subplots(len(MEASURES), len(workloads), squeeze=False)
    variants = list(dict.fromkeys(variant for _, variant in groups))
    lines = list(dict.fromkeys(variant.architecture for variant in variants))
    colours = list(dict.fromkeys(variant[1:] for variant in variants))
    shown = _labels(variants)
    for (measure, label), line in zip(MEASURES, panels, strict=True):
        for workload, axes in zip(workloads, line, strict=True):
            means = []
            for variant, name in zip(variants, shown, strict=True):
                points = _points(groups, workload, variant, measure)
                means += [s.mean for s in points.values()]
                axes.errorbar(
                    list(points),
                    [s.mean for s in points.values()],
                    yerr=[s.half_width or 0.0 for s in points.values()],
                    marker="o",
                    markersize=4,
                    capsize=2,
                    color=f"C{colours.index(variant[1:])}",
                    linestyle=LINES[lines.index(variant.architecture)],
                    label=name,
                )
            if 0 < min(means) * SPREAD < max(means):
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.set_xlabel("load")
            axes.set_ylabel(label)
            axes.set_title(workload.partition(" #")[0], fontsize="medium")
            axes.grid(alpha=0.3)
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize="small", handlelength=3, loc="outside right upper")
    save_picture(figure, path)


def _points(
    groups: dict[tuple[Case, Variant], list[BagRow]], workload: str, variant: Variant, measure: str
) -> dict[float, Summary]:
    """By load, in ascending order; that of a log as it is, is what was used of the sites."""
    found = {}
    for (case, of), rows in groups.items():
        if case.workload == workload and of == variant:
            load = case.load
            if load is None:
                load = summarize(row.utilization for row in rows).mean
            found[load] = summarize(getattr(row, measure) for row in rows)
    return dict(sorted(found.items()))


def _labels(variants: Sequence[Variant]) -> list[str]:
    """What tells the variants apart."""
    differ = [len(set(column)) > 1 for column in zip(*variants, strict=True)]
    names = [
        " ".join(word for word, differs in zip(variant, differ, strict=True) if differs)
        for variant in variants
    ]
    return [name or variant.policy for name, variant in zip(names, variants, strict=True)]
