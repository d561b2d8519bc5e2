"""Grid schedulers on small worlds worked out by hand, and invariants on random ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from msgspec import structs

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.all_clusters import AllClusters
from wfrun.engine.policies.placement.ect import Ect
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.runners.metrics.grid_waits import grid_means
from wfrun.runners.metrics.jobs import JobTiming, busy_cores
from wfrun.runners.simulate.grid.fcfs_estimates import FcfsEstimates
from wfrun.runners.simulate.grid.model import GridJob, GridSchedule, Scheduler
from wfrun.runners.simulate.grid.schedulers import RunPredictor
from wfrun.runners.simulate.grid.simulation import simulate_grid

PERFECT = Scheduler(PLACEMENT["ect"])
LB = Scheduler(PLACEMENT["all-clusters"])
FPF = Scheduler(PLACEMENT["fpf"])
FCFS = Scheduler(PLACEMENT["fpf"], blocks=True)
MST = Scheduler(PLACEMENT["mst"])
MWT = Scheduler(PLACEMENT["mwt"])


def last2(*, corrected: bool = True) -> Scheduler:
    return Scheduler(PLACEMENT["ect-p"], RunPredictor(()), corrected=corrected)


def clusters(*slots_and_speeds: tuple[int, float]) -> list[SiteSpec]:
    names = "abcdefg"
    return [
        SiteSpec(name, slots, speed_ratio=speed)
        for name, (slots, speed) in zip(names, slots_and_speeds, strict=False)
    ]


FIVE = [
    GridJob(0.0, 100.0, 2),
    GridJob(1.0, 100.0, 1),
    GridJob(2.0, 10.0, 3),
    GridJob(3.0, 20.0, 1),
    GridJob(4.0, 5.0, 1),
]
"""Five jobs on clusters of 3 processors (speed 1) and 2 (speed 2)."""
TWO = clusters((3, 1.0), (2, 2.0))


def outcome(schedule: GridSchedule) -> list[tuple[int, float, float]]:
    return list(zip(schedule.site, schedule.start_s, schedule.end_s, strict=True))


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        # 0 ends at 50 s at b, at 100 s at a. 1: at 100 s behind it, at 101 s at a. 2: only a is
        # large enough. 3: at 32 s behind job 2, at 60 s at b. 4: at 17 s, at 52.5 s.
        (PERFECT, [(1, 0, 50), (1, 50, 100), (0, 2, 12), (0, 12, 32), (0, 12, 17)]),
        # Loads (0, 0), (2/3, 0), a alone is large enough, (5/3, 1/2), (5/3, 1).
        (LB, [(0, 0, 100), (1, 1, 51), (0, 100, 110), (1, 3, 13), (1, 13, 15.5)]),
        # The fastest cluster with room; job 2 waits for three free processors, others pass it.
        (FPF, [(1, 0, 50), (0, 1, 101), (0, 101, 111), (0, 3, 23), (0, 4, 9)]),
        # Job 2 blocks those behind it until job 1 has ended.
        (FCFS, [(1, 0, 50), (0, 1, 101), (0, 101, 111), (1, 101, 111), (1, 101, 103.5)]),
    ],
    ids=["ect-perfect", "lb", "fpf", "fcfs"],
)
def test_five_jobs(scheduler: Scheduler, expected: list[tuple[int, float, float]]) -> None:
    assert outcome(simulate_grid(FIVE, TWO, scheduler)) == expected


def test_last2_sends_jobs_where_they_are_believed_to_end_first() -> None:
    """Jobs of ann take 10 s, of bob 100 s. After two each the scheduler knows that at both
    clusters: behind a job of bob, a job of ann waits longer than behind another one of hers."""
    ann, bob = (GridJob(0.0, 10.0, 1, "ann"), GridJob(0.0, 100.0, 1, "bob"))
    order = [(0, ann), (0, ann), (1000, bob), (1000, bob), (5000, bob), (5000, ann), (5000, ann)]
    jobs = [structs.replace(job, submit_s=float(at_s)) for at_s, job in order]
    schedule = simulate_grid(jobs, clusters((1, 1.0), (1, 1.0)), last2())
    assert list(schedule.site) == [0, 1, 0, 1, 0, 1, 1]


@pytest.mark.parametrize(("corrected", "start_s"), [(True, 30.0), (False, 300.0)])
def test_corrections_change_the_plan_of_open_jobs(corrected: bool, start_s: float) -> None:
    """Three jobs of one class on one processor, believed to take 100 s until one elsewhere has
    taken 10 s."""
    expected_s = 100.0
    plan = FcfsEstimates(1, lambda job: expected_s, [0, 0, 0] if corrected else None)
    for job in range(3):
        plan.submit(job, 1, expected_s, 0.0)
    plan.start(0, 0.0)
    assert plan.start_s(1, 1.0, 1.0) == 300.0
    assert plan.sums(1.0).mean_wait("one") == pytest.approx(100.0)
    expected_s = 10.0
    if corrected:
        plan.correct()
    assert plan.start_s(1, 1.0, 5.0) == start_s


def test_an_overdue_job_is_expected_to_take_twice_the_time() -> None:
    plan = FcfsEstimates(2, lambda job: 10.0)
    plan.submit(0, 2, 10.0, 0.0)
    plan.start(0, 0.0)
    assert [plan.start_s(1, 1.0, now_s) for now_s in (9.0, 10.0, 19.0, 25.0)] == [10, 20, 20, 40]
    plan.end(0, 26.0)
    assert plan.start_s(2, 1.0, 26.0) == 26.0


@pytest.mark.parametrize("lrm", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize(
    "scheduler", [PERFECT, LB, FPF, FCFS, MST, MWT, last2()],
    ids=["ect-perfect", "lb", "fpf", "fcfs", "mst", "mwt", "ect-last2"],
)  # fmt: skip
def test_every_job_runs_once_within_capacity(scheduler: Scheduler, lrm: str) -> None:
    if scheduler.predictor is not None:
        scheduler = last2()
    jobs = random_jobs(400, seed=3)
    sites = clusters((4, 1.0), (8, 1.5), (6, 0.8))
    schedule = simulate_grid(jobs, sites, scheduler, lrm)
    for job, site, start_s, end_s in zip(
        jobs, schedule.site, schedule.start_s, schedule.end_s, strict=True
    ):
        assert start_s >= job.submit_s
        assert end_s - start_s == pytest.approx(job.runtime_s / sites[site].speed_ratio)
        assert job.cores <= sites[site].slots
    timings = [
        JobTiming(job.submit_s, start_s, end_s, job.cores, site)
        for job, start_s, end_s, site in zip(
            jobs, schedule.start_s, schedule.end_s, schedule.site, strict=True
        )
    ]
    for site, spec in enumerate(sites):
        assert max(cores for _, cores in busy_cores(timings, site)) <= spec.slots
    assert sum(grid_means(schedule).share) == pytest.approx(1.0)


def random_jobs(count: int, seed: int, sizes: Sequence[int] = (1, 1, 1, 2, 3, 5)) -> list[GridJob]:
    random = Random(seed)
    now_s = 0.0
    jobs: list[GridJob] = []
    while len(jobs) < count:
        now_s += random.expovariate(1 / 60)
        owner, cores = random.choice("abcdef"), random.choice(sizes)
        typical_s = random.lognormvariate(4, 1)
        for _ in range(random.randint(1, 6)):
            runtime_s = max(1.0, typical_s * random.uniform(0.7, 1.4))
            jobs.append(GridJob(now_s, runtime_s, cores, owner))
    return jobs[:count]


def test_perfect_predictions_of_a_queue_without_backfilling_come_true() -> None:
    """Every start is the one that was estimated when the job was submitted."""
    promised_s: list[float] = []

    class Noting(Ect):
        def place(self, task: int) -> int | None:
            site = super().place(task)
            assert site is not None
            promised_s.append(self.view.estimate_start_s(site, task))
            return site

    jobs = random_jobs(600, seed=5)
    schedule = simulate_grid(jobs, clusters((5, 1.0), (8, 1.5)), Scheduler(Noting))
    waits = [s - job.submit_s for s, job in zip(schedule.start_s, jobs, strict=True)]
    assert max(waits) > 100
    assert promised_s == pytest.approx(waits)


def test_one_processor_jobs_on_equal_clusters_wait_alike_by_ect_and_from_one_queue() -> None:
    """Both start each job on the processor that is free first."""
    jobs = random_jobs(500, seed=7, sizes=(1,))
    sites = clusters((3, 1.0), (4, 1.0))
    assert simulate_grid(jobs, sites, PERFECT).start_s == simulate_grid(jobs, sites, FPF).start_s


@pytest.mark.parametrize("make", [last2, lambda: MWT], ids=["ect-last2", "mwt"])
def test_equal_arguments_give_equal_schedules(make: object) -> None:
    assert callable(make)
    jobs, sites = random_jobs(300, seed=1), clusters((4, 1.0), (8, 1.5))
    one, other = (simulate_grid(jobs, sites, make(), "easy") for _ in range(2))
    assert outcome(one) == outcome(other)


def test_a_job_larger_than_every_cluster_is_refused() -> None:
    with pytest.raises(InvalidError, match="job 1 asks for 9 processors, the largest site has 4"):
        simulate_grid([GridJob(0, 1), GridJob(0, 1, 9)], clusters((4, 1.0)), LB)


def test_a_policy_that_needs_files_is_refused() -> None:
    with pytest.raises(InvalidError, match="'file-aware' uses links and files"):
        simulate_grid([GridJob(0, 1)], clusters((4, 1.0)), Scheduler(PLACEMENT["file-aware"]))


def test_a_policy_sees_only_what_it_declares() -> None:
    class Curious(AllClusters):
        name = "curious"

        def place(self, task: int) -> int | None:
            return int(self.view.runtime_s(task))

    with pytest.raises(InvalidError, match=r"View\.runtime_s without declaring 'task_runtime'"):
        simulate_grid([GridJob(0, 1)], clusters((4, 1.0)), Scheduler(Curious))


def test_an_answer_that_is_no_candidate_is_an_error() -> None:
    class Wrong(AllClusters):
        name = "wrong"

        def place(self, task: int) -> int | None:
            return 7

    with pytest.raises(PolicyError, match="'wrong' placed job 0 at site 7"):
        simulate_grid([GridJob(0, 1)], clusters((4, 1.0)), Scheduler(Wrong))
