"""Figures 2.6 to 2.8 and 2.10 of the thesis with our results (matplotlib)."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

from wfrun.studies.coallocation import paper
from wfrun.studies.coallocation.experiments import (
    CA,
    CCRS,
    FCM,
    LIMIT,
    MPI,
    PLOTS,
    POISSON,
    PRIME,
    REAL,
    STEPS,
    SYNTHETIC,
    WAVES,
    WF,
    WITH,
    WITHOUT,
)
from wfrun.studies.coallocation.samples import CoallocationSamples
from wfrun.studies.common.figures import grid_of, save
from wfrun.studies.common.verdict import Sample

APPLICATIONS = (PRIME, POISSON, WAVES)
CHANGE = "change of the response time [%]"
NET = "net utilization [%]"
LIMITS = (100.0, -50.0)
"""Limits of the axis of changes in percent. The axis is reversed, as in the thesis. Saturated runs
have larger changes and are left out."""


def draw_coallocation(samples: CoallocationSamples, folder: Path) -> list[str]:
    """Write the figures as PNG and return their file names. Raises OSError."""
    return [
        _loaded(samples, folder),
        _applications(samples, folder),
        _synthetic(samples, folder),
        _policies(samples, folder),
    ]


def _loaded(s: CoallocationSamples, folder: Path) -> str:
    """Figure 2.6."""
    figure, axes = grid_of(1, 2)
    left, right = axes[0]
    places = [(w, p) for w in APPLICATIONS for p in (WF, FCM)]
    names = [f"{w.capitalize()}\n{p.upper()}" for w, p in places]
    waits, runs = ([s.of(REAL, w, p, 40, m).mean for w, p in places] for m in ("wait_s", "run_s"))
    left.bar(names, runs, label="execution")
    left.bar(names, waits, bottom=runs, label="wait")
    left.set_ylabel("mean response time [s]")
    left.tick_params(axis="x", labelsize=6)
    left.legend(fontsize=6)
    shares = [100 * s.of(REAL, w, FCM, 40, "coallocated").mean for w in APPLICATIONS]
    right.bar([w.capitalize() for w in APPLICATIONS], shares, color="C2")
    right.axhline(
        100 * paper.COALLOCATED, color="black", linewidth=0.8, linestyle="--", label="thesis: less"
    )
    right.legend(fontsize=6)
    right.set_ylabel("co-allocated jobs [%]")
    return save(figure, folder, "figure-2.6.png")


def _plot(
    panel: Any, steps: Iterable[int], values: Iterable[Sample], label: str, most: float = inf
) -> None:
    """Plot the means that are at most ``most``, with their 95% confidence intervals."""
    known = {u: v for u, v in zip(steps, values, strict=True) if v.mean <= most}
    panel.errorbar(
        list(known), [v.mean for v in known.values()],
        [v.summary.half_width or 0.0 for v in known.values()],
        marker=".", markersize=4, linewidth=1, elinewidth=0.6, label=label,
    )  # fmt: skip


def _change_panel(panel: Any) -> None:
    panel.axhline(0, color="black", linewidth=0.6)
    panel.set_ylim(*LIMITS)
    panel.set_xlabel(NET)
    panel.set_ylabel(CHANGE, fontsize=8)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=6)


def _applications(s: CoallocationSamples, folder: Path) -> str:
    """Figure 2.7, with the points of Table 2.4."""
    figure, axes = grid_of(1, 2)
    left, right = axes[0]
    for workload, policy in (*((w, FCM) for w in APPLICATIONS), (WAVES, LIMIT)):
        label = workload.capitalize() + (" [Limit:2]" if policy == LIMIT else "")
        _plot(left, STEPS, (s.change(MPI, workload, u, policy) for u in STEPS), label, LIMITS[0])
        used = [100 * s.of(MPI, workload, policy, u, "used").mean for u in STEPS]
        right.plot(STEPS, used, marker=".", markersize=4, linewidth=1, label=label)
    for number, workload in enumerate(APPLICATIONS):
        change, low, high = paper.CHANGES[workload]
        left.plot([(low + high) / 2], [change], "x", color=f"C{number}")
    left.plot([], [], "x", color="black", label="thesis, Table 2.4")
    _change_panel(left)
    right.plot(STEPS, STEPS, color="black", linewidth=0.6)
    right.set_xlabel(NET)
    right.set_ylabel("observed utilization [%]")
    right.grid(alpha=0.3)
    right.legend(fontsize=6)
    return save(figure, folder, "figure-2.7.png")


def _synthetic(s: CoallocationSamples, folder: Path) -> str:
    """Figure 2.8."""
    figure, axes = grid_of(1, 1)
    for name in CCRS:
        _plot(
            axes[0][0],
            STEPS,
            (s.change(SYNTHETIC, name, u) for u in STEPS),
            name.upper(),
            LIMITS[0],
        )
    _change_panel(axes[0][0])
    return save(figure, folder, "figure-2.8.png")


def _policies(s: CoallocationSamples, folder: Path) -> str:
    """Figure 2.10, with the saturation of the thesis."""
    figure, axes = grid_of(1, 2)
    for panel, experiment, place in zip(axes[0], (WITHOUT, WITH), ("without", "with"), strict=True):
        steps = PLOTS[experiment].utilizations
        for policy in (FCM, CA):
            values = [s.of(experiment, WAVES, policy, u) for u in steps]
            _plot(panel, steps, values, policy.upper())
        panel.axvspan(
            *paper.SATURATION_LARGE[place],
            color="grey",
            alpha=0.3,
            label="saturation in the thesis",
        )
        panel.set_yscale("log")
        panel.set_title(f"{place} Delft", fontsize=8)
        panel.set_xlabel(NET)
        panel.set_ylabel("mean response time [s]")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=6)
    return save(figure, folder, "figure-2.10.png")
