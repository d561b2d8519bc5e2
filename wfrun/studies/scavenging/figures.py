"""Figure 4.4 of the thesis with our results, and the ratios between owners that All reaches
(matplotlib)."""

from __future__ import annotations

from pathlib import Path

from wfrun.studies.common.figures import grid_of, save
from wfrun.studies.scavenging import paper
from wfrun.studies.scavenging.claims import TITLES
from wfrun.studies.scavenging.experiments import (
    ALL,
    BASE,
    OWNER,
    PER_SITE,
    SITES,
    SITES_LARGEST,
    VARIANTS,
    WBLOCK,
    WORKLOADS,
    ScavengingSamples,
    owner_value,
    ratio,
)
from wfrun.studies.scavenging.sharing import EACH_NODE, IN_TURN, ONE_OWNER, WHOLE_SITES

LINES = (
    ("PerSite", PER_SITE, BASE),
    ("All", ALL, BASE),
    ("All, whole sites", ALL, SITES),
    ("as that, largest loaded", ALL, SITES_LARGEST),
    ("All, one owner", ALL, OWNER),
)
READINGS = {
    IN_TURN: "in turn", WHOLE_SITES: "whole sites", ONE_OWNER: "to one owner, drawn",
    EACH_NODE: "each node drawn",
}  # fmt: skip


def draw_scavenging(samples: ScavengingSamples, folder: Path) -> list[str]:
    """Write the figures as PNG and return their file names. Raises OSError."""
    return [_tasks(samples, folder), _ratios(samples, folder)]


def _tasks(samples: ScavengingSamples, folder: Path) -> str:
    figure, axes = grid_of(1, 2)
    minutes = paper.HOUR_S / 60
    for panel, workload in zip(axes[0], WORKLOADS, strict=True):
        for place, (name, policy, variant) in enumerate(LINES):
            of = samples.varied(variant)
            means = [
                of.of(workload, policy, owner_value("throughput", owner)).mean * minutes
                for owner in range(paper.OWNERS)
            ]
            panel.bar(
                [owner + 0.16 * place for owner in range(paper.OWNERS)], means, 0.16, label=name
            )
        if workload == WBLOCK:
            for policy, place in ((PER_SITE, 0), (ALL, 1)):
                rows = sorted(paper.TABLE_4_1[policy], key=lambda row: -row.nodes)
                panel.plot(
                    [owner + 0.16 * place for owner in range(paper.OWNERS)],
                    [row.throughput * minutes for row in rows],
                    "kx", label="thesis" if place else None,
                )  # fmt: skip
            panel.legend(fontsize=6)
        panel.set_title(f"{TITLES[workload]}: tasks in an hour", fontsize=9)
        panel.set_xlabel("owners, by mean nodes")
        panel.set_xticks([])
        panel.grid(axis="y", alpha=0.3)
    return save(figure, folder, "figure-4.4.png")


def _ratios(samples: ScavengingSamples, folder: Path) -> str:
    figure, axes = grid_of(1, 1)
    panel = axes[0][0]
    for place, (reading, name) in enumerate(READINGS.items()):
        rows = [
            row
            for variant in (BASE, *VARIANTS)
            if (VARIANTS[variant].reading if variant in VARIANTS else IN_TURN) == reading
            for row in samples.varied(variant).some(WBLOCK, ALL)
        ]
        panel.plot(
            [ratio("nodes")(row) for row in rows],
            [ratio("preemptions")(row) for row in rows],
            ".", color=f"C{place}", alpha=0.4, label=name,
        )  # fmt: skip
    table = paper.TABLE_4_1[ALL]
    panel.plot(
        [max(row.nodes for row in table) / min(row.nodes for row in table)],
        [max(row.preemptions for row in table) / min(row.preemptions for row in table)],
        "k*", markersize=10, label="thesis",
    )  # fmt: skip
    panel.set_yscale("log")
    panel.set_xlabel("mean nodes, largest by smallest")
    panel.set_ylabel("preemptions, largest by smallest")
    panel.set_title("All, WBlock: each run", fontsize=9)
    panel.legend(fontsize=6)
    panel.grid(alpha=0.3)
    return save(figure, folder, "all-ratios.png")
