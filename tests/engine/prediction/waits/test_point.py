"""Point-valued predictions of waits against plain simulations, and by hand."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan
from random import Random

import pytest

from tests.sites.simulated.queues.reference import REFERENCE
from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.job import Job, Prediction
from wfrun.engine.prediction.waits.point import OpenJob, doubled_s, expected_start_s
from wfrun.engine.prediction.waits.predictor import (
    WAIT_PREDICTORS,
    Cluster,
    PointPredictor,
    WaitPredictor,
)
from wfrun.engine.prediction.waits.replay import (
    ReplayedJob,
    recorded_events,
    replay_waits,
    simulated_events,
)
from wfrun.engine.prediction.waits.runtimes import PredictedRuntimes, Runtimes
from wfrun.engine.queues import LRMS, JobId, QueuedJob, make_lrm

PROCESSORS = 8


def test_an_under_predicted_run_time_is_doubled_until_it_exceeds_the_time_elapsed() -> None:
    assert [doubled_s(10, elapsed_s) for elapsed_s in (0, 9, 10, 39, 40)] == [10, 10, 20, 40, 80]
    assert doubled_s(0, 5) == 8


def test_starts_by_hand() -> None:
    # 8 processors: 6 run until 100, 2 until 40; a job of 4 waits.
    jobs = [
        OpenJob(6, 200, 100, 0),
        OpenJob(2, 50, 40, 0),
        OpenJob(4, 60, 30),
    ]
    narrow = OpenJob(2, 45, 45)
    # FCFS: the job of 4 starts at 100, and the new one with it. Backfilling: the narrow one starts
    # at 40. It is over before the request of the job of 6 ends at 200.
    assert expected_start_s("fcfs", PROCESSORS, jobs, narrow, 10) == 100
    assert expected_start_s("easy", PROCESSORS, jobs, narrow, 10) == 40
    assert expected_start_s("conservative", PROCESSORS, jobs, narrow, 10) == 40
    # At 50 the job of 2 still runs: it is expected to take 80.
    assert expected_start_s("easy", PROCESSORS, jobs, narrow, 50) == 80
    for lrm in LRMS:
        assert expected_start_s(lrm, PROCESSORS, jobs, OpenJob(9, 1, 1), 10) == inf


def test_a_job_behind_one_without_an_end_waits_for_ever() -> None:
    for lrm in LRMS:
        jobs = [OpenJob(8, inf, inf, 0.0)]
        assert expected_start_s(lrm, PROCESSORS, jobs, OpenJob(1, 5, 5), 10.0) == inf


def brute_start_s(
    lrm: str, processors: int, jobs: list[OpenJob], new: OpenJob, now_s: float
) -> float:
    """Run the plain queue model, event by event, until the new job starts."""
    queue = REFERENCE[lrm](processors)
    ends_s: dict[JobId, float] = {}
    running = [job for job in jobs if job.started_s is not None]
    for i, job in enumerate(running):
        began_s = job.started_s or 0.0
        left_s = max(0.0, began_s + job.requested_s - now_s)
        queue.occupy(QueuedJob(i, job.cores, left_s), now_s)
        length_s = job.expected_s
        while began_s + length_s <= now_s:
            length_s = max(length_s, 1.0) * 2
        ends_s[i] = began_s + length_s
    waiting = dict(enumerate([*(job for job in jobs if job.started_s is None), new], len(running)))
    for i, job in waiting.items():
        queue.submit(QueuedJob(i, job.cores, job.requested_s), now_s)
    for _ in range(10_000):
        for started in queue.schedule(now_s):
            assert isinstance(started, int)
            ends_s[started] = now_s + waiting[started].expected_s
            if waiting[started] is new:
                return now_s
        now_s = min([*ends_s.values(), queue.next_wakeup_s])
        ending = [i for i, end_s in ends_s.items() if end_s == now_s]
        if ending:
            first = min(ending)
            del ends_s[first]
            queue.end(first, now_s)
    raise AssertionError("the job never starts")


def random_state(random: Random) -> tuple[list[OpenJob], OpenJob, float]:
    now_s, free = 100.0, PROCESSORS
    jobs: list[OpenJob] = []

    def job(cores: int, started_s: float | None = None) -> OpenJob:
        requested_s = float(random.choice((10, 20, 40, 80)))
        expected_s = min(requested_s, float(random.randint(1, 80)))
        if random.random() < 0.1:
            expected_s = requested_s * 1.5  # LRMs that do not kill
        return OpenJob(cores, requested_s, expected_s, started_s)

    while free and random.random() < 0.9:
        cores = random.randint(1, free)
        free -= cores
        jobs.append(job(cores, now_s - random.randint(0, 60)))
    jobs += [job(random.randint(1, PROCESSORS)) for _ in range(random.randint(0, 7))]
    return jobs, job(random.randint(1, PROCESSORS)), now_s


@pytest.mark.parametrize("lrm", LRMS)
def test_starts_are_those_of_a_plain_simulation(lrm: str) -> None:
    random, waited = Random(17), 0
    for _ in range(80):
        jobs, new, now_s = random_state(random)
        found_s = expected_start_s(lrm, PROCESSORS, jobs, new, now_s)
        assert found_s == brute_start_s(lrm, PROCESSORS, jobs, new, now_s)
        waited += found_s > now_s
    assert waited > 30


def random_jobs(seed: int, count: int = 120) -> list[ReplayedJob]:
    """Bursts of jobs of few users, with estimates that are too long."""
    random, now_s, jobs = Random(seed), 0.0, []
    for _ in range(count):
        if random.random() < 0.4:
            now_s += random.randint(1, 60)
        user, application = random.choice("ab"), random.choice("xy")
        runtime_s = float(random.randint(1, 30) * (5 if application == "y" else 1))
        estimate_s = random.uniform(runtime_s, 5 * runtime_s)
        cores = random.choice((1, 1, 2, 4, 8))
        job = Job("site", user, application, cores, estimate_s)
        jobs.append(ReplayedJob(now_s, runtime_s, estimate_s, job))
    return jobs


class Known:
    """Knows all run times: estimates that are exact."""

    def observe(self, job: Job, runtime_s: float) -> None: ...

    def predict(self, job: Job) -> Prediction | None:
        return None if job.estimate_s is None else Prediction(job.estimate_s, "known", 0)


def test_with_known_run_times_the_waits_of_fcfs_are_exact() -> None:
    jobs = [one._replace(job=one.job._replace(estimate_s=one.runtime_s)) for one in random_jobs(1)]
    cluster = Cluster(PROCESSORS, "fcfs")
    point = PointPredictor(cluster, PredictedRuntimes(Known(), corrects=True))
    replay = replay_waits(
        jobs, simulated_events(jobs, make_lrm("fcfs", PROCESSORS)), {"point": point}
    )
    assert list(replay.predicted_s["point"]) == list(replay.waits_s)
    assert max(replay.waits_s) > 0


def test_fcfs_on_estimates_never_under_predicts_a_queue_without_backfilling() -> None:
    for seed in range(5):
        jobs = random_jobs(seed)
        bound = WAIT_PREDICTORS["fcfs-estimates"].make(Cluster(PROCESSORS, "fcfs"))
        events = simulated_events(jobs, make_lrm("fcfs", PROCESSORS))
        replay = replay_waits(jobs, events, {"bound": bound})
        pairs = list(zip(replay.predicted_s["bound"], replay.waits_s, strict=True))
        assert all(predicted_s >= wait_s - 1e-6 for predicted_s, wait_s in pairs)
        assert any(predicted_s > wait_s for predicted_s, wait_s in pairs)


class Plain:
    """A point-valued predictor that keeps lists, and plans anew for each job."""

    def __init__(self, cluster: Cluster, runtimes: Runtimes) -> None:
        self.cluster, self.runtimes = cluster, runtimes
        self.open: dict[JobId, OpenJob] = {}

    def on_submitted(self, key: JobId, job: Job, requested_s: float, now_s: float) -> float | None:
        new = OpenJob(job.cores, requested_s, self.runtimes.submit(key, job, requested_s))
        jobs = sorted(self.open.values(), key=lambda one: one.started_s or inf)
        lrm, processors = self.cluster.lrm, self.cluster.processors
        start_s = brute_start_s(lrm, processors, jobs, new, now_s)
        self.open[key] = new
        return start_s - now_s

    def on_started(self, key: JobId, now_s: float) -> None:
        self.open[key] = self.open[key]._replace(started_s=now_s)

    def on_ended(self, key: JobId, now_s: float) -> None:
        started_s = self.open.pop(key).started_s or 0.0
        for other, expected_s in self.runtimes.end(key, now_s - started_s):
            self.open[other] = self.open[other]._replace(expected_s=expected_s)


@pytest.mark.parametrize("corrects", [False, True])
def test_kept_plans_answer_as_new_ones(corrects: bool) -> None:
    jobs = random_jobs(9)
    cluster = Cluster(PROCESSORS, "fcfs")
    predictors: dict[str, WaitPredictor] = {
        "kept": PointPredictor(cluster, PredictedRuntimes(ByClass(), corrects=corrects)),
        "plain": Plain(cluster, PredictedRuntimes(ByClass(), corrects=corrects)),
    }
    events = simulated_events(jobs, make_lrm("fcfs", PROCESSORS))
    replay = replay_waits(jobs, events, predictors)
    assert replay.predicted_s["kept"] == replay.predicted_s["plain"]
    assert replay.predicted_s["kept"] != replay.waits_s


def test_corrections_reach_open_jobs_of_the_class_alone() -> None:
    runtimes = PredictedRuntimes(ByClass(), corrects=True)
    sort, join = Job("s", "ann", "sort", 1, 100.0), Job("s", "ann", "join", 1, 100.0)
    assert [runtimes.submit(i, job, inf) for i, job in enumerate((sort, sort, join))] == [100] * 3
    assert runtimes.end(0, 30.0) == [(1, 30.0)]
    assert runtimes.submit(3, sort, inf) == 30
    assert runtimes.submit(4, sort._replace(estimate_s=20.0), inf) == 20  # runs no longer
    assert runtimes.submit(5, join._replace(estimate_s=None), inf) == 30  # the last of the site
    assert runtimes.end(1, 0.0) == ()  # no plausible run time


def test_recorded_waits_are_known_when_the_job_has_ended() -> None:
    job = Job("s", "ann")
    jobs = [
        ReplayedJob(0, 10, 10, job, wait_s=5),
        ReplayedJob(5, 1, 1, job, wait_s=0),
        ReplayedJob(15, 1, 1, job, wait_s=0),
    ]
    assert list(recorded_events(jobs)) == [
        ("submitted", 0, 0), ("started", 0, 5), ("submitted", 1, 5), ("started", 1, 5),
        ("ended", 1, 6), ("ended", 0, 15), ("submitted", 2, 15), ("started", 2, 15),
        ("ended", 2, 16),
    ]  # fmt: skip


def many_waits(count: int) -> Iterator[ReplayedJob]:
    random = Random(4)
    for i in range(count):
        yield ReplayedJob(100.0 * i, 60, 60, Job("s", "ann"), random.expovariate(0.1))


def test_bounds_of_recorded_waits() -> None:
    jobs = list(many_waits(3000))
    predictors = {
        name: kind.make(Cluster(1, "fcfs"))
        for name, kind in WAIT_PREDICTORS.items()
        if not kind.needs_queue
    }
    assert set(predictors) == {"bmbp", "chebyshev"}
    replay = replay_waits(jobs, recorded_events(jobs), predictors)
    assert list(replay.waits_s) == pytest.approx([job.wait_s for job in jobs])
    for name, lowest in (("bmbp", 0.95), ("chebyshev", 0.98)):
        answers_s = replay.predicted_s[name]
        assert all(isnan(bound_s) for bound_s in answers_s[:59])
        within = [w <= b for w, b in zip(replay.waits_s, answers_s, strict=True) if not isnan(b)]
        assert lowest <= sum(within) / len(within) <= 1
