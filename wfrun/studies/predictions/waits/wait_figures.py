"""Figure 7.7 (matplotlib)."""

from __future__ import annotations

from pathlib import Path

from wfrun.studies.common.figures import save
from wfrun.studies.predictions.runtimes.runtime_figures import wide
from wfrun.studies.predictions.runtimes.runtimes import ACCURACIES
from wfrun.studies.predictions.waits.queue_waits import MINUTES
from wfrun.studies.predictions.waits.wait_samples import WaitSamples

COLUMNS = (("DAS-3*", "DAS-3*"), ("AuverGrid*", "AuverGrid*"), ("", "logs"))
"""(prefix of the titles of its sites, title) of each column; the sites of logs have the empty
prefix. The thesis has the first two columns."""


def draw_waits(samples: WaitSamples, folder: Path) -> dict[str, str]:
    """Write the figure as PNG and return its file name by figure number."""
    places = samples.of("fcfs", "point")
    columns = []
    for start, title in COLUMNS:
        chosen = [p for p in places if (p.title.startswith(start) if start else "*" not in p.title)]
        if chosen:
            columns.append((title, chosen))
    if not columns:
        return {}
    drawn = wide(3.6 * len(columns), 6.0)
    grid = drawn.subplots(2, len(columns), squeeze=False)
    for column, (title, chosen) in enumerate(columns):
        for number, place in enumerate(chosen):
            for name, style in (("point", "-"), ("point-corrected", "--")):
                row, label = place.rows[name], place.title if style == "-" else None
                look = {"color": f"C{number}", "linestyle": style, "linewidth": 1, "label": label}
                grid[0][column].plot(ACCURACIES, row.accuracy_shares, **look)
                grid[1][column].plot(MINUTES, row.error_shares, **look)
        grid[0][column].set_title(title, fontsize=9)
        grid[0][column].set_xlabel("accuracy")
        grid[0][column].legend(fontsize=6)
        grid[1][column].set_xlabel("absolute error [min]")
        grid[1][column].set_xscale("log")
    for axes in grid.flat:
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
    grid[0][0].set_ylabel("share of the jobs that waited")
    grid[1][0].set_ylabel("share of the jobs that waited")
    return {"7.7": save(drawn, folder, "figure-7.7.png")}
