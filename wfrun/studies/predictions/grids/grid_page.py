"""The section of the page on grid scheduling: Table 7.6, Figures 7.9 to 7.11."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.runners.simulate.grid.grids import GRIDS
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.predictions import paper
from wfrun.studies.predictions.grids.grid_claims import MEASURES
from wfrun.studies.predictions.grids.grid_samples import GridSamples
from wfrun.studies.predictions.grids.grids import SCHEDULERS
from wfrun.studies.predictions.part import Pictures

FIGURES = {"das3": "7.9", "auver": "7.10"}


def grid_page(samples: GridSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "## Prediction-based grid scheduling (section 7.4)"
    yield ""
    jobs = {name: samples.row(name, "LB").jobs for name in GRIDS}
    repeated = "once" if len(samples.seeds) == 1 else f"{len(samples.seeds)} times"
    yield (
        "A grid scheduler sends jobs to the clusters of Table 7.4, whose queues are FCFS without "
        "backfilling. The busiest four months of the traces (Table 7.5) are replaced by generated "
        f"bursts of similar jobs, {jobs['das3']:,} on the DAS-3 at a load of 30% and "
        f"{jobs['auver']:,} on the AuverGrid at 70% ({samples.part:.0%} of the four months), "
        f"simulated {repeated}; `wfrun/runners/simulate/grid/grids.py` has the sources of their "
        "numbers. FPF sends nothing while no cluster has enough free processors: jobs behind the "
        "first of the global queue pass it, or are blocked by it in the last line."
    )
    yield ""
    yield "### Table 7.6: means of the policies"
    if len(samples.seeds) > 1:
        yield ""
        yield (
            "Means of the repetitions, and the smallest and the largest: a few large bursts decide "
            "each of them. A claim holds if it does in each repetition, *on most* if it does in "
            "more than half."
        )
    for name, grid in GRIDS.items():
        header = (grid.title, "response [s], thesis", "here", "wait [s], thesis", "here",
                  "slowdown, thesis", "here", "waited", "over 10,000 s",
                  "busy")  # fmt: skip
        yield from table(header, (_line(samples, name, policy) for policy in SCHEDULERS))
    for name, grid in GRIDS.items():
        yield from _figure(FIGURES[name], f"distributions, {grid.title}", pictures)
    yield from _figure("7.11", "the jobs over the clusters", pictures)
    for name, grid in GRIDS.items():
        clusters = [f"{spec.name} ({spec.slots})" for spec in grid.sites]
        rows = (
            (policy, *(f"{share:.0%}" for share in samples.row(name, policy).share))
            for policy in SCHEDULERS
        )
        yield from table((grid.title, *clusters), rows)


def _figure(figure: str, what: str, pictures: Pictures) -> Iterator[str]:
    yield ""
    yield f"### Figure {figure}: {what}"
    if figure in pictures:
        yield ""
        yield f"![Figure {figure}: {what}]({pictures[figure]})"


def _spread(samples: GridSamples, grid: str, policy: str, measure: str) -> str:
    """The mean over the repetitions and, if there are several, the minimum and maximum."""
    values = [float(getattr(samples.row(grid, policy, seed), measure)) for seed in samples.seeds]
    mean = number(samples.mean(grid, policy, measure))
    return mean if len(values) == 1 else f"{mean} ({number(min(values))}–{number(max(values))})"


def _line(samples: GridSamples, grid: str, policy: str) -> Sequence[str]:
    printed = paper.TABLE_7_6[grid].get(policy)
    cells = [policy]
    for _, measure in MEASURES:
        cells.append("-" if printed is None else number(getattr(printed, measure)))
        cells.append(_spread(samples, grid, policy, measure))
    shares = (samples.mean(grid, policy, m) for m in ("waited", "long_waits", "utilization"))
    return (*cells, *(f"{share:.1%}" for share in shares))
