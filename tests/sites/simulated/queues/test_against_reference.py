"""Every queue model gives the schedule of its slow reference, job by job, on random workloads."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from tests.amounts import examples
from tests.sites.simulated.queues.drive import Failure, Job, Workload, live, workloads
from tests.sites.simulated.queues.reference import REFERENCE, SlowEasy
from wfrun.engine.queues.conservative import Conservative
from wfrun.sites.simulated.queues import (
    LRMS,
    JobId,
    QueuedJob,
    SimulatedJob,
    make_lrm,
    simulate_batch,
)

NAMES = list(LRMS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(700), deadline=None)
@given(workload=workloads())
def test_same_schedule_with_overruns_and_cancellations(name: str, workload: Workload) -> None:
    expected = live(workload, REFERENCE[name](workload.processors))
    assert live(workload, make_lrm(name, workload.processors)) == expected


@pytest.mark.cases
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(200), deadline=None)
@given(workload=workloads())
def test_same_answers_to_questions(name: str, workload: Workload) -> None:
    expected = live(workload, REFERENCE[name](workload.processors), ask=True)
    assert live(workload, make_lrm(name, workload.processors), ask=True) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(300), deadline=None)
@given(workload=workloads(max_failures=4))
def test_same_schedule_and_answers_with_processors_out_of_service(
    name: str, workload: Workload
) -> None:
    expected = live(workload, REFERENCE[name](workload.processors), ask=True)
    assert live(workload, make_lrm(name, workload.processors), ask=True) == expected


@pytest.mark.parametrize("name", NAMES)
def test_same_schedule_of_longer_queues(name: str) -> None:
    """Up to 60 jobs on a cluster that cannot keep up, so that most of them wait at one time, and
    that loses processors."""
    for seed in range(25):
        random = Random(seed)
        processors = random.randint(4, 40)
        jobs = []
        for _ in range(random.randint(20, 60)):
            requested_s = float(random.choice([10, 60, 600, random.randint(1, 5000)]))
            jobs.append(
                Job(
                    submit_s=float(random.randint(0, 2000)),
                    runtime_s=round(requested_s * random.choice([0, 0.2, 0.5, 1, 1, 1.1]), 1),
                    cores=random.choice([1, 2, random.randint(1, processors)]),
                    requested_s=requested_s,
                    cancel_s=float(random.choice([3000, 9000, 10**9, 10**9, 10**9, 10**9])),
                )
            )
        failures = [
            Failure(
                float(random.randint(0, 6000)),
                random.randint(1, 3),
                900.0,
                round(random.expovariate(1 / 900)),
            )
            for _ in range(seed % 5 * 3)
        ]
        workload = Workload(processors, tuple(jobs), tuple(failures))
        expected = live(workload, REFERENCE[name](processors))
        assert live(workload, make_lrm(name, processors)) == expected, f"seed {seed}"


def test_easy_backfills_a_job_whose_request_ends_exactly_at_the_shadow_time() -> None:
    """Task 3 fits from 9559.4 s on until 14298.6 s, but the difference of these two times is
    rounded to less than its request."""
    now_s, request_s = 9559.4, 4739.2
    until_s = now_s + request_s
    jobs = (
        Job(0.0, until_s, 2, until_s),
        Job(0.0, now_s, 1, now_s),
        Job(1.0, 60.0, 3, 60.0),
        Job(2.0, request_s, 1, request_s),
    )
    expected = {0: 0.0, 1: 0.0, 2: until_s, 3: now_s}
    assert live(Workload(3, jobs), SlowEasy(3)).starts_s == expected
    assert live(Workload(3, jobs), make_lrm("easy", 3)).starts_s == expected


def test_same_easy_schedule_of_longer_queues_at_fractions_of_seconds() -> None:
    """More work arrives than is done; many jobs end at their requests, so that reservations and
    requests often end at times that are equal but for rounding."""
    for seed in range(30):
        random = Random(seed)
        shortest_s = random.choice([0.1, 0.3, 0.7])
        jobs = []
        for _ in range(80):
            requested_s = random.randint(1, 40) * shortest_s
            share = random.choice([0.5, 1.0, 1.0])
            submit_s = random.randint(0, 100) * shortest_s
            jobs.append(
                Job(submit_s, requested_s * share, random.randint(1, 5), requested_s, float("inf"))
            )
        workload = Workload(6, tuple(jobs))
        expected = live(workload, SlowEasy(6))
        assert live(workload, make_lrm("easy", 6)) == expected, f"seed {seed}"


@pytest.mark.cases
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(200), deadline=None)
@given(workload=workloads(cancels=False))
def test_the_batch_simulator_lives_through_the_same_events(name: str, workload: Workload) -> None:
    jobs = [SimulatedJob(j.submit_s, j.runtime_s, j.cores, j.requested_s) for j in workload.jobs]
    expected = live(workload, REFERENCE[name](workload.processors)).starts_s
    schedule = simulate_batch(jobs, workload.processors, name, kill_overruns=False)
    assert dict(enumerate(schedule.start_s)) == expected
    assert [e - s for s, e in zip(schedule.start_s, schedule.end_s, strict=True)] == pytest.approx(
        [j.runtime_s for j in workload.jobs]
    )


class Promising(Conservative):
    """Checks that no waiting job is ever moved back, and none starts later than promised."""

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        self.promised_s: dict[JobId, float] = {}

    def submit(self, job: QueuedJob, now_s: float, from_s: float = float("-inf")) -> None:
        estimated_s = self.estimate_start_s(job.cores, job.requested_s, now_s)
        super().submit(job, now_s, from_s)
        self.promised_s[job.id] = self.planned_start_s(job.id, now_s)
        assert self.promised_s[job.id] == estimated_s

    def cancel(self, job_id: JobId, now_s: float) -> None:
        super().cancel(job_id, now_s)
        self.promised_s.pop(job_id, None)

    def schedule(self, now_s: float) -> list[JobId]:
        started = super().schedule(now_s)
        for job_id in started:
            assert now_s <= self.promised_s.pop(job_id)
        for job_id, promised_s in self.promised_s.items():
            planned_s = self.planned_start_s(job_id, now_s)
            assert now_s <= planned_s <= promised_s
            self.promised_s[job_id] = planned_s
        return started


@pytest.mark.slow
@settings(max_examples=examples(600), deadline=None)
@given(workload=workloads(overruns=False))
def test_conservative_keeps_its_promises(workload: Workload) -> None:
    live(workload, Promising(workload.processors))


class WatchedEasy(SlowEasy):
    """Follows what an EASY queue does, and checks the reservation of its head."""

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        self.lrm = make_lrm("easy", processors)
        self.head: JobId | None = None
        self.head_by_s = 0.0

    def submit(self, job: QueuedJob, now_s: float) -> None:
        self.lrm.submit(job, now_s)
        super().submit(job, now_s)

    def end(self, job_id: JobId, now_s: float) -> None:
        self.lrm.end(job_id, now_s)
        super().end(job_id, now_s)

    def schedule(self, now_s: float) -> list[JobId]:
        started = self.lrm.schedule(now_s)
        for job_id in started:
            if job_id == self.head:
                assert now_s <= self.head_by_s
            self.start(next(job for job in self.waiting if job.id == job_id), now_s)
        if self.waiting:
            head = self.waiting[0]
            assert head.cores > self.free()
            shadow_s = self.shadow_s(now_s)
            if head.id == self.head:
                assert shadow_s <= self.head_by_s
            self.head, self.head_by_s = head.id, shadow_s
        return started


@pytest.mark.slow
@settings(max_examples=examples(500), deadline=None)
@given(workload=workloads(overruns=False, cancels=False))
def test_easy_never_delays_its_head_beyond_the_shadow_time(workload: Workload) -> None:
    live(workload, WatchedEasy(workload.processors))


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(workload=workloads(cancels=False))
def test_fcfs_starts_in_order_and_as_soon_as_its_head_fits(workload: Workload) -> None:
    starts_s = live(workload, make_lrm("fcfs", workload.processors)).starts_s
    jobs = workload.jobs
    order = sorted(range(len(jobs)), key=lambda i: jobs[i].submit_s)
    in_order_s = [starts_s[i] for i in order]
    assert in_order_s == sorted(in_order_s)
    ends_s = {starts_s[i] + jobs[i].runtime_s for i in order}
    before_s = 0.0
    for i in order:
        # Nothing starts but at its own arrival, at an end, or together with the one before it.
        assert starts_s[i] in ends_s | {jobs[i].submit_s, before_s}
        before_s = starts_s[i]


@settings(max_examples=examples(200), deadline=None)
@given(workload=workloads(cancels=False))
def test_fcfs_foresees_the_start_if_requests_are_exact(workload: Workload) -> None:
    exact = [job._replace(runtime_s=job.requested_s, submit_s=0.0) for job in workload.jobs]
    lrm = make_lrm("fcfs", workload.processors)
    foreseen_s: list[float] = []
    for i, job in enumerate(exact):
        foreseen_s.append(lrm.estimate_start_s(job.cores, job.requested_s, 0.0))
        lrm.submit(QueuedJob(i, job.cores, job.requested_s), 0.0)
        lrm.schedule(0.0)
    starts_s = live(
        Workload(workload.processors, tuple(exact)), make_lrm("fcfs", workload.processors)
    ).starts_s
    assert [starts_s[i] for i in range(len(exact))] == foreseen_s
