"""Thesis section 7.3: how accurate predictions of queue waits are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from math import inf, isnan, nan
from typing import Literal, NamedTuple

import msgspec

from wfrun.engine.prediction.replay import accuracy
from wfrun.engine.prediction.waits.accuracy import EXACT_S, judge, judged_waits
from wfrun.engine.prediction.waits.bursts import in_bursts
from wfrun.engine.prediction.waits.predictor import WAIT_PREDICTORS, Cluster
from wfrun.engine.prediction.waits.replay import (
    Replay,
    ReplayedJob,
    recorded_events,
    replay_waits,
    simulated_events,
)
from wfrun.engine.queues import make_lrm
from wfrun.runners.forecast.wait_accuracy import TRAINING, recorded_jobs, simulated_jobs
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.runtimes.runtimes import ACCURACIES, BURST_GAP_S, mean, shares
from wfrun.studies.predictions.workloads import Workload, jobs_of

Waits = Literal["fcfs", "logged"]
"""Waits of a simulated FCFS queue, or those in the log."""

QUICK_JOBS = 3_000
"""Maximum number of jobs of a site in the quick study."""
FULL_JOBS = 20_000
"""Maximum number of jobs of a site of a generated grid in the full study."""
LOG_LOAD = 0.3
"""Load to which logs are scaled in the simulated queue: the highest of research grids (section
7.1). The logs' own load is up to 84%, at which a queue without backfilling grows without end."""
GRIDS = ("grid:das-2", "grid:das-3", "grid:grid5000", "grid:auvergrid")
"""The grids of Tables 7.2 and 7.3. Two sites of each are simulated."""
SITES = 2
POINTS = ("point", "point-corrected")
BOUNDS = ("bmbp", "chebyshev", "fcfs-estimates")

MINUTES = tuple(float(f"{10 ** (step / 6):.3g}") for step in range(-6, 25))
"""Points at which the distribution of the absolute error is kept: 0.1 to 10,000 min."""


class WaitCell(msgspec.Struct, frozen=True, kw_only=True):
    """The predictions of one predictor at one site."""

    workload: str
    site: str
    jobs: int | None
    """Maximum number of jobs; None: all."""
    waits: Waits
    predictor: str


class WaitRow(WaitCell, frozen=True, kw_only=True):
    """Measures over the jobs after the training that have a prediction, unless stated otherwise."""

    predicted: int
    unknown: int
    nonzero: float
    """Share of the jobs that waited."""
    accuracy: float
    error_s: float
    under: float
    perfect: float
    over: float
    nonzero_accuracy: float
    """Mean accuracy over the jobs that waited. ``nonzero_error_s`` is over these jobs, too."""
    nonzero_error_s: float
    burst_share: float
    """Share of the jobs that are submitted in bursts (`wfrun.engine.prediction.waits.bursts`)."""
    burst_within: float | None
    """Share of the jobs in bursts that waited no longer than predicted; None if no job is in a
    burst."""
    other_within: float | None
    """Share of the other jobs that waited no longer than predicted; None if there are none."""
    burst_same: float
    """Share of the jobs with the same prediction as the preceding job of the same user and size,
    among those submitted at most ``BURST_GAP_S`` after it."""
    mean_wait_s: float
    mean_predicted_s: float
    accuracy_shares: tuple[float, ...]
    """Distribution of the accuracy of the jobs that waited, at ACCURACIES."""
    error_shares: tuple[float, ...]
    """Distribution of the absolute error of the jobs that waited, at MINUTES."""


class WaitSite(NamedTuple):
    """The jobs of one cluster."""

    processors: int
    jobs: Sequence[ReplayedJob]


def cells(setting: PartSetting) -> list[WaitCell]:
    """A cell for each predictor of both kinds on simulated waits, and for each bound that needs
    only waits on logged waits."""
    limit = QUICK_JOBS if setting.quick else FULL_JOBS
    found = []
    for workload in setting.workloads:
        made: list[tuple[str, Waits, Sequence[str]]] = []
        if workload.generated:
            if workload.label in GRIDS:
                made = [(str(n), "fcfs", (*POINTS, *BOUNDS)) for n in range(1, SITES + 1)]
        elif not workload.is_grid:
            made = [("1", "fcfs", (*POINTS, *BOUNDS)), ("1", "logged", BOUNDS[:2])]
        for site, waits, names in made:
            jobs = limit if workload.generated or setting.quick else None
            found += [
                WaitCell(workload=workload.label, site=site, jobs=jobs, waits=waits, predictor=n)
                for n in names
            ]
    return found


def run(setting: PartSetting, cell: WaitCell) -> WaitRow:
    """Replay the site's jobs."""
    workload = next(w for w in setting.workloads if w.label == cell.workload)
    site = site_of(workload, int(cell.site), cell.jobs, cell.waits)
    return measure(cell, site.jobs, replayed(site, cell.waits, cell.predictor))


def replayed(site: WaitSite, waits: Waits, *names: str) -> Replay:
    """Replay the jobs. Return their waits, and the prediction of each predictor at each
    submission."""
    cluster = Cluster(site.processors, "fcfs")
    events = (
        recorded_events(site.jobs)
        if waits == "logged"
        else simulated_events(site.jobs, make_lrm("fcfs", site.processors))
    )
    return replay_waits(
        site.jobs, events, {name: WAIT_PREDICTORS[name].make(cluster) for name in names}
    )


@lru_cache(maxsize=2)  # the next cell often has the same
def site_of(workload: Workload, rank: int, jobs: int | None, waits: Waits = "fcfs") -> WaitSite:
    """The first jobs of the site with the most jobs (``rank`` 1) or the second most (``rank`` 2).
    Predictors do not get users' estimates, which the traces of the thesis do not have."""
    # The busiest of several sites has at least a few percent of the jobs.
    found = jobs_of(workload, None if workload.generated else jobs)
    if not workload.is_grid:
        processors = found.processors or max(job.size or 1 for job in found.logged)
        if waits == "logged":
            return WaitSite(processors, recorded_jobs(found.logged))
        scaled = simulated_jobs(found.logged, processors, load=LOG_LOAD, estimates=False)
        return WaitSite(processors, scaled)
    counts = Counter(past.job.site for past in found.past)
    name = counts.most_common(rank)[rank - 1][0]
    logged = [
        job for past, job in zip(found.past, found.logged, strict=True) if past.job.site == name
    ]
    processors = (found.processors or 0) // found.sites
    return WaitSite(
        processors, simulated_jobs(logged[:jobs], processors, site=name, estimates=False)
    )


def measure(cell: WaitCell, jobs: Sequence[ReplayedJob], replay: Replay) -> WaitRow:
    """The measures of a replay with one predictor."""
    predicted_s = replay.predicted_s[cell.predictor]
    first = int(TRAINING * len(jobs))
    bursts = in_bursts([job.submit_s for job in jobs])
    # An infinite prediction of a wait behind a job without an estimate is none.
    answers_s = [nan if value_s == inf else value_s for value_s in predicted_s]
    judged = list(judged_waits(replay.waits_s, answers_s, bursts, first))
    known = [one for one in judged if not isnan(one.predicted_s)]
    waited = [one for one in known if one.wait_s > 0]
    found = judge(judged)
    return WaitRow(
        **msgspec.structs.asdict(cell),
        predicted=found.jobs,
        unknown=found.unknown,
        nonzero=found.waited or 0.0,
        accuracy=found.accuracy or 0.0,
        error_s=found.error_s or 0.0,
        under=found.under or 0.0,
        perfect=found.perfect or 0.0,
        over=found.over or 0.0,
        nonzero_accuracy=found.accuracy_waited or 0.0,
        nonzero_error_s=found.error_waited_s or 0.0,
        burst_share=found.in_bursts or 0.0,
        burst_within=found.within_in_bursts,
        other_within=found.within_outside,
        burst_same=_same(jobs, answers_s, first),
        mean_wait_s=mean([one.wait_s for one in known]),
        mean_predicted_s=mean([one.predicted_s for one in known]),
        accuracy_shares=shares(
            sorted(accuracy(one.predicted_s, one.wait_s) for one in waited), ACCURACIES
        ),
        error_shares=shares(
            sorted(abs(one.predicted_s - one.wait_s) / 60 for one in waited), MINUTES
        ),
    )


def _same(jobs: Sequence[ReplayedJob], predicted_s: Sequence[float], first: int) -> float:
    """Share of the jobs from ``first`` on with the same prediction as the preceding job of the same
    user and size, among those submitted at most ``BURST_GAP_S`` after it."""
    latest: dict[Hashable, tuple[float, float]] = {}
    same = []
    for number, (job, value_s) in enumerate(zip(jobs, predicted_s, strict=True)):
        key = (job.job.owner, job.job.cores)
        before = latest.get(key)
        latest[key] = (job.submit_s, value_s)
        if number < first or isnan(value_s) or before is None:
            continue
        if job.submit_s - before[0] <= BURST_GAP_S:
            same.append(float(abs(before[1] - value_s) < EXACT_S))
    return mean(same)
