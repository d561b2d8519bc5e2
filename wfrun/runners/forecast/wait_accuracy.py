"""Accuracy of predictions of queue waits on a workload log (thesis section 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random

from msgspec import Struct
from msgspec.structs import asdict

from wfrun.engine.errors import InvalidError
from wfrun.engine.prediction.registry import make_predictor
from wfrun.engine.prediction.waits.accuracy import WaitAccuracy, judge, judged_waits
from wfrun.engine.prediction.waits.bursts import in_bursts
from wfrun.engine.prediction.waits.predictor import (
    POINTS,
    WAIT_PREDICTORS,
    Cluster,
    PointPredictor,
    WaitPredictor,
)
from wfrun.engine.prediction.waits.replay import (
    Replay,
    ReplayedJob,
    recorded_events,
    replay_waits,
    simulated_events,
)
from wfrun.engine.prediction.waits.runtimes import PredictedRuntimes
from wfrun.engine.queues import make_lrm
from wfrun.parsers.logs import LoggedJob, scale_load
from wfrun.runners.forecast.log_accuracy import job_of, run_site

TRAINING = 0.1
"""Share of the jobs, in order of submission, that only train the predictors. Their predictions are
not judged (thesis section 7.3.2)."""
MIN_JOBS = 100
"""Minimum number of jobs of a site. Sites with fewer jobs are left out."""
MAX_ESTIMATE = 5.0
"""Maximum ratio of a random estimate to the run time R. A job without an estimate gets a random
estimate from [R, 5R] (the model of Mu'alem and Feitelson in thesis section 7.3.2)."""


class LogWaits(Struct, frozen=True, kw_only=True):
    """Accuracy of one predictor on the jobs of one site of a log."""

    site: str
    """Name of the site; empty for a log without sites."""
    predictor: str
    """Name of the predictor in ``WAIT_PREDICTORS``; after a colon the name of the method that
    predicts run times, if one was chosen."""
    lrm: str | None
    """The LRM that was simulated; None: the waits are those of the log."""
    processors: int | None
    """Number of processors of the simulated cluster; None: the waits are those of the log."""
    accuracy: WaitAccuracy


class SiteJobs(Struct, frozen=True):
    """The jobs of a log that ran at one site."""

    site: str
    jobs: tuple[LoggedJob, ...]


def jobs_by_site(jobs: Sequence[LoggedJob], *, is_grid: bool) -> list[SiteJobs]:
    """Group jobs by site, the site with the most jobs first. ``is_grid`` is False for the log of a
    single site."""
    if not is_grid:
        return [SiteJobs("", tuple(jobs))]
    by_site: dict[str, list[LoggedJob]] = {}
    for job in jobs:
        by_site.setdefault(run_site(job), []).append(job)
    sites = [SiteJobs(site, tuple(its)) for site, its in by_site.items()]
    return sorted(sites, key=lambda one: -len(one.jobs))


def most_processors(jobs: Sequence[LoggedJob]) -> int:
    """Maximum number of processors that the jobs of a log used at the same time. Used as the size
    of a cluster if the log does not state it."""
    changes = []
    for job in jobs:
        start_s = job.submit_s + (job.wait_s or 0.0)
        changes.append((start_s, job.size or 0))
        changes.append((start_s + (job.runtime_s or 0.0), -(job.size or 0)))
    return max(accumulate(cores for _, cores in sorted(changes)), default=0)


def recorded_jobs(jobs: Sequence[LoggedJob], site: str = "") -> list[ReplayedJob]:
    """The jobs whose waits the log states, with these waits. Raises InvalidError if there are
    none."""
    found = [_replayed(job, site, job.requested_s or 0.0) for job in jobs if _has_wait(job)]
    if not found:
        raise InvalidError(
            "no job of the log has a wait",
            hint="give --lrm fcfs, easy, conservative or replanned: the queue is then simulated",
        )
    return found


def simulated_jobs(
    jobs: Sequence[LoggedJob],
    processors: int,
    *,
    site: str = "",
    load: float | None = None,
    estimates: bool = True,
    seed: int = 0,
) -> list[ReplayedJob]:
    """The jobs that fit a cluster, prepared for a simulation of the cluster.

    Run times are cut to the requested time. With ``load`` the times between submissions are scaled
    to this offered load. ``estimates``: predictors see the estimates of the log. The LRM always
    sees estimates; a job without an estimate gets a random one, which depends on ``seed``. Raises
    InvalidError if no job fits.
    """
    fitting: Sequence[LoggedJob] = [job for job in jobs if (job.size or 0) <= processors]
    if not fitting:
        raise InvalidError(
            f"all {len(jobs):,} jobs are larger than the cluster of {processors:,} processors",
            hint="give its size with --processors N",
        )
    if load is not None:
        fitting = scale_load(fitting, load, processors)
    random = Random(seed)
    found = []
    for job in fitting:
        runtime_s = job.runtime_s or 0.0
        requested_s = job.requested_s
        if requested_s is None or requested_s <= 0:
            requested_s = random.uniform(runtime_s, MAX_ESTIMATE * runtime_s)
        one = _replayed(job, site, requested_s)
        if not estimates:
            one = one._replace(job=one.job._replace(estimate_s=None))
        found.append(one._replace(runtime_s=min(runtime_s, requested_s)))
    return found


def _has_wait(job: LoggedJob) -> bool:
    return job.wait_s is not None and job.wait_s >= 0


def _replayed(job: LoggedJob, site: str, requested_s: float) -> ReplayedJob:
    runtime_s = job.runtime_s or 0.0
    return ReplayedJob(job.submit_s, runtime_s, requested_s, job_of(job, site), job.wait_s)


def replay_recorded(jobs: Sequence[ReplayedJob]) -> Replay:
    """Replay the waits of the log. Returns these waits, and the predictions by the predictors that
    need no model of the queue."""
    chosen = {
        name: kind.make(Cluster(1, "fcfs"))
        for name, kind in WAIT_PREDICTORS.items()
        if not kind.needs_queue
    }
    return replay_waits(jobs, recorded_events(jobs), chosen)


def replay_simulated(
    jobs: Sequence[ReplayedJob],
    cluster: Cluster,
    names: Sequence[str] = tuple(WAIT_PREDICTORS),
    methods: Sequence[str] = (),
) -> Replay:
    """Simulate a queue. Returns the simulated waits, and the predictions of the predictors
    ``names``.

    ``methods`` are names of run time predictors in ``PREDICTORS``. Each point-valued predictor of
    waits then runs once with each method, instead of with the method of the thesis. Raises
    InvalidError if the LRM is unknown.

    Cost per job and predictor: with FCFS about 10 microseconds while the queue is short. With other
    LRMs all running and waiting jobs are simulated, which takes up to milliseconds.
    """
    events = simulated_events(jobs, make_lrm(cluster.lrm, cluster.processors))
    chosen: dict[str, WaitPredictor] = {}
    for name in names:
        if methods and name in POINTS:
            for method in methods:
                runtimes = PredictedRuntimes(make_predictor(method), corrects=POINTS[name])
                chosen[f"{name}:{method}"] = PointPredictor(cluster, runtimes)
        else:
            chosen[name] = WAIT_PREDICTORS[name].make(cluster)
    return replay_waits(jobs, events, chosen)


def accuracies(jobs: Sequence[ReplayedJob], replay: Replay) -> Mapping[str, WaitAccuracy]:
    """The accuracy of each predictor of a replay, over the jobs after the `TRAINING` jobs."""
    bursts = in_bursts([job.submit_s for job in jobs])
    first = int(TRAINING * len(jobs))
    return {
        name: judge(judged_waits(replay.waits_s, predicted_s, bursts, first))
        for name, predicted_s in replay.predicted_s.items()
    }


def log_waits(
    sites: Sequence[SiteJobs],
    lrm: str | None,
    *,
    processors: int | None = None,
    load: float | None = None,
    methods: Sequence[str] = (),
) -> Iterator[LogWaits]:
    """Measure all applicable predictors at each site. ``lrm`` None: the waits are those in the log;
    otherwise those of a simulated cluster with this LRM. ``processors`` is the size of the cluster;
    None: the maximum number of processors that the jobs of the site used at the same time.
    ``methods``: see `replay_simulated`."""
    for site in sites:
        size = None
        if lrm is None:
            jobs = recorded_jobs(site.jobs, site.site)
            replay = replay_recorded(jobs)
        else:
            size = processors or most_processors(site.jobs)
            jobs = simulated_jobs(site.jobs, size, site=site.site, load=load)
            replay = replay_simulated(jobs, Cluster(size, lrm), methods=methods)
        for name, found in accuracies(jobs, replay).items():
            yield LogWaits(site=site.site, predictor=name, lrm=lrm, processors=size, accuracy=found)


def flat(row: LogWaits) -> dict[str, object]:
    """The fields of a row and of its accuracy, in one mapping."""
    fields = asdict(row)
    return {**fields, **asdict(fields.pop("accuracy"))}
