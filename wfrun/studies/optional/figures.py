"""Figures 4 to 8 of the paper with our results (matplotlib)."""

from __future__ import annotations

from pathlib import Path

from wfrun.studies.common.figures import grid_of, save
from wfrun.studies.common.verdict import Sample
from wfrun.studies.optional import paper
from wfrun.studies.optional.experiments import FAIR_QUEUE, OptionalSamples
from wfrun.studies.optional.scenarios import FIGURES, REGULAR

PANELS = {"unhappy": "unhappy users", "unfairness": "unfairness", "completed": "completed requests"}


def draw_optional(samples: OptionalSamples, folder: Path) -> list[str]:
    """Write the figures as PNG and return their file names. Raises OSError."""
    names = []
    for scenario, figure_number in FIGURES.items():
        figure, axes = grid_of(1, 3)
        counts = samples.counts(scenario)
        ends = (counts[0], counts[-1])
        lines = {
            "DIET-ethic, queue at each server": samples,
            "DIET-ethic, one queue": samples.in_core(),
            "DIET-ethic, fair queueing": samples.varied(FAIR_QUEUE),
        }
        for panel, (measure, title) in zip(axes[0], PANELS.items(), strict=True):
            legacy = [samples.legacy(scenario, n, measure) for n in counts]
            medians = [sample.summary.median for sample in legacy]
            panel.plot(counts, medians, marker=".", color="C3", label="legacy")
            panel.fill_between(
                counts,
                [_low(s) for s in legacy],
                [_high(s) for s in legacy],
                color="C3",
                alpha=0.15,
            )
            for place, (name, of) in enumerate(lines.items()):
                median = of.ethic(scenario, measure).summary.median
                style = ("-", "--", ":")[place]
                panel.plot(ends, (median, median), style, color=f"C{place}", label=name)
            panel.set_title(f"{scenario}: {title}", fontsize=8)
            panel.set_xlabel("n_submit")
            panel.set_ylim(0, max(panel.get_ylim()[1], 1.0 if measure == "unhappy" else 0.1))
            panel.grid(alpha=0.3)
        if scenario == REGULAR:
            for count, color in ((paper.LEGACY_REGULAR, "C3"), (paper.ETHIC_REGULAR, "C0")):
                axes[0][2].plot(
                    [paper.BEST_REGULAR], [count], "x", color=color, label=f"paper: {count:,}"
                )
            axes[0][2].legend(fontsize=6)
        axes[0][1].legend(fontsize=6)
        names.append(save(figure, folder, f"figure-{figure_number}.png"))
    return names


def _low(sample: Sample) -> float:
    return sample.summary.minimum


def _high(sample: Sample) -> float:
    return sample.summary.maximum
