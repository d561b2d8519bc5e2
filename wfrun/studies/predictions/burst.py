"""Thesis section 7.3.2, Figure 7.8: waits of the jobs of a burst, and their predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path

import msgspec

from wfrun.engine.prediction.waits.replay import ReplayedJob
from wfrun.runners.forecast.wait_accuracy import TRAINING
from wfrun.studies.common.claim import Claims
from wfrun.studies.common.figures import save
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.predictions.part import PartSetting, Pictures, StudyPart
from wfrun.studies.predictions.runtimes.runtime_figures import wide
from wfrun.studies.predictions.runtimes.runtimes import BURST_GAP_S
from wfrun.studies.predictions.waits.queue_waits import FULL_JOBS, QUICK_JOBS, replayed, site_of

GRID = "grid:das-3"
PREDICTORS = {
    "fcfs-estimates": "FCFS on estimates",
    "bmbp": "BMBP",
    "chebyshev": "Chebyshev",
    "point-corrected": "point-valued (corr)",
}


class BurstCell(msgspec.Struct, frozen=True, kw_only=True):
    """The largest burst at a site."""

    workload: str
    rank: int
    """Rank of the site by its number of jobs; 1 is the busiest."""
    jobs: int


class BurstRow(BurstCell, frozen=True, kw_only=True):
    """The jobs of the burst, in the order of submission. Times are in seconds; -1 is unknown."""

    submitted_s: tuple[float, ...]
    """Seconds since the first submission of the burst."""
    waits_s: tuple[float, ...]
    fcfs_estimates: tuple[float, ...]
    bmbp: tuple[float, ...]
    chebyshev: tuple[float, ...]
    point_corrected: tuple[float, ...]

    def predicted_s(self, predictor: str) -> tuple[float, ...]:
        found: tuple[float, ...] = getattr(self, predictor.replace("-", "_"))
        return found


def cells(setting: PartSetting) -> list[BurstCell]:
    """The busiest site of the DAS-3."""
    jobs = QUICK_JOBS if setting.quick else FULL_JOBS
    return [BurstCell(workload=GRID, rank=1, jobs=jobs)]


def run(setting: PartSetting, cell: BurstCell) -> BurstRow:
    """Replay the jobs of the site and return those of its largest burst."""
    workload = next(w for w in setting.workloads if w.label == cell.workload)
    site = site_of(workload, cell.rank, cell.jobs)
    replay = replayed(site, "fcfs", *PREDICTORS)
    chosen = largest_burst(site.jobs, int(TRAINING * len(site.jobs)))
    first_s = site.jobs[chosen[0]].submit_s

    def picked(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(-1.0 if isnan(values[i]) else round(values[i], 1) for i in chosen)

    return BurstRow(
        **msgspec.structs.asdict(cell),
        submitted_s=tuple(round(site.jobs[i].submit_s - first_s, 1) for i in chosen),
        waits_s=picked(replay.waits_s),
        fcfs_estimates=picked(replay.predicted_s["fcfs-estimates"]),
        bmbp=picked(replay.predicted_s["bmbp"]),
        chebyshev=picked(replay.predicted_s["chebyshev"]),
        point_corrected=picked(replay.predicted_s["point-corrected"]),
    )


def largest_burst(jobs: Sequence[ReplayedJob], first: int) -> list[int]:
    """Indices of the jobs of the largest burst among the jobs from ``first`` on. In a burst each
    job is submitted at most ``BURST_GAP_S`` after the previous job of its user."""
    open_bursts: dict[str, list[int]] = {}
    best: list[int] = []
    for index, job in enumerate(jobs[first:], first):
        burst = open_bursts.get(job.job.owner)
        if burst is None or job.submit_s - jobs[burst[-1]].submit_s > BURST_GAP_S:
            burst = open_bursts[job.job.owner] = []
        burst.append(index)
        if len(burst) > len(best):
            best = burst
    return best


def _sample(_: PartSetting, rows: Sequence[BurstRow], every: bool) -> BurstRow:
    (row,) = rows
    return row


def burst_page(row: BurstRow, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "### Figure 7.8: a burst"
    if "7.8" in pictures:
        yield ""
        yield f"![Figure 7.8: waits of a burst]({pictures['7.8']})"
    yield ""
    yield (
        f"The largest burst at the busiest site of the generated DAS-3: {len(row.waits_s)} jobs "
        f"of one user within {number(row.submitted_s[-1])} s. Bounds from past waits are the same "
        "for all of its jobs; FCFS on estimates follows the queue. The figure of the thesis has "
        "no numbers."
    )

    def rows() -> Iterator[Sequence[str]]:
        yield "real", number(row.waits_s[0]), number(row.waits_s[-1]), ""
        for name, title in PREDICTORS.items():
            values = row.predicted_s(name)
            enough = sum(p >= w for p, w in zip(values, row.waits_s, strict=True))
            share = f"{enough / len(values):.0%}"
            yield title, number(values[0]), number(values[-1]), share

    header = ("wait [s]", "first job", "last job", "jobs within the prediction")
    yield from table(header, rows())


def draw_burst(row: BurstRow, folder: Path) -> dict[str, str]:
    """Write the figure as PNG and return its file name by figure number."""
    drawn = wide(7.0, 3.4)
    axes = drawn.subplots()
    places = range(1, len(row.waits_s) + 1)
    axes.plot(places, row.waits_s, color="black", label="real")
    for name, title in PREDICTORS.items():
        values = row.predicted_s(name)
        if min(values) >= 0:
            axes.plot(places, values, linewidth=1, label=title)
    axes.set_xlabel("job of the burst")
    axes.set_ylabel("wait [s]")
    axes.grid(alpha=0.3)
    drawn.legend(fontsize=8, loc="outside lower center", ncols=5)
    return {"7.8": save(drawn, folder, "figure-7.8.png")}


PART = StudyPart(
    "burst", BurstCell, BurstRow, cells, run, _sample, Claims(), burst_page, draw_burst
)
