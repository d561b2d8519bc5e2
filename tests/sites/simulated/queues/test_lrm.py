"""Schedules worked out by hand, and what every queue model has in common."""

from __future__ import annotations

import pytest

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.parsers.logs import LoggedJob
from wfrun.sites.simulated.queues import (
    LRMS,
    Lrm,
    QueuedJob,
    SimulatedJob,
    make_lrm,
    simulate_batch,
    simulated_jobs,
)

NEVER_S = float("inf")

# Ten processors. The first job leaves 4 free; the second has to wait for it and then leaves 2 for
# 50 s; the third needs the whole cluster; the fourth is narrow and long.
WIDE_AND_NARROW = [
    SimulatedJob(submit_s=0, runtime_s=100, cores=6, requested_s=100),
    SimulatedJob(submit_s=1, runtime_s=50, cores=8, requested_s=50),
    SimulatedJob(submit_s=2, runtime_s=10, cores=10, requested_s=10),
    SimulatedJob(submit_s=3, runtime_s=300, cores=2, requested_s=300),
]
# The third is to end when the first does; the fourth fits beside the second, but not before.
UP_TO_THE_SHADOW = [
    SimulatedJob(submit_s=0, runtime_s=100, cores=6, requested_s=100),
    SimulatedJob(submit_s=1, runtime_s=50, cores=8, requested_s=50),
    SimulatedJob(submit_s=3, runtime_s=97, cores=4, requested_s=97),
    SimulatedJob(submit_s=4, runtime_s=500, cores=2, requested_s=500),
    SimulatedJob(submit_s=5, runtime_s=200, cores=4, requested_s=200),
]


@pytest.mark.parametrize(
    ("name", "jobs", "starts_s"),
    [
        ("fcfs", WIDE_AND_NARROW, [0, 100, 150, 160]),
        # The narrow job uses the 2 that are left over by the head, and delays the third.
        ("easy", WIDE_AND_NARROW, [0, 100, 303, 3]),
        # It would break the promise made to the third.
        ("conservative", WIDE_AND_NARROW, [0, 100, 150, 160]),
        ("fcfs", UP_TO_THE_SHADOW, [0, 100, 150, 150, 150]),
        ("easy", UP_TO_THE_SHADOW, [0, 100, 3, 100, 150]),
        ("conservative", UP_TO_THE_SHADOW, [0, 100, 3, 100, 150]),
    ],
)
def test_schedules_worked_out_by_hand(
    name: str, jobs: list[SimulatedJob], starts_s: list[float]
) -> None:
    assert list(simulate_batch(jobs, 10, name, kill_overruns=True).start_s) == starts_s


@pytest.mark.parametrize(
    ("name", "starts_s"),
    [
        ("fcfs", [0, 40, 90, 100]),
        ("easy", [0, 40, 303, 3]),
        ("conservative", [0, 40, 90, 100]),
    ],
)
def test_a_job_that_ends_early(name: str, starts_s: list[float]) -> None:
    early = [SimulatedJob(0, 40, 6, 100), *WIDE_AND_NARROW[1:]]
    assert list(simulate_batch(early, 10, name, kill_overruns=True).start_s) == starts_s


@pytest.mark.parametrize("name", LRMS)
def test_overruns_are_killed_or_not(name: str) -> None:
    jobs = [SimulatedJob(0, 200, 2, 60), SimulatedJob(1, 10, 2, 60), SimulatedJob(2, 10, 1, 30)]
    killed = simulate_batch(jobs, 2, name, kill_overruns=True)
    assert (list(killed.start_s), list(killed.end_s)) == ([0, 60, 70], [60, 70, 80])
    let_run = simulate_batch(jobs, 2, name, kill_overruns=False)
    assert (list(let_run.start_s), list(let_run.end_s)) == ([0, 200, 210], [200, 210, 220])


@pytest.mark.parametrize(
    ("name", "planned_s"),
    [("conservative", {"wide": 60, "narrow": 20}), ("replanned", {"wide": 50, "narrow": 60})],
)
def test_an_early_end_puts_off_jobs_of_replanned_queues_only(
    name: str, planned_s: dict[str, float]
) -> None:
    """Three of four processors become free 80 s early. The wide job, the first of the queue, gains
    if all jobs are planned again; the narrow one loses its reservation at 50 s by that."""
    lrm = make_lrm(name, 4)
    lrm.submit(QueuedJob("early", 3, 100), 0)
    lrm.submit(QueuedJob("exact", 1, 50), 0)
    assert lrm.schedule(0) == ["early", "exact"]
    lrm.submit(QueuedJob("wide", 4, 10), 0)
    lrm.submit(QueuedJob("narrow", 1, 40), 0)
    assert lrm.planned_starts_s(0) == {"wide": 100, "narrow": 50}
    lrm.end("early", 20)
    assert lrm.planned_starts_s(20) == planned_s


def test_conservative_puts_off_what_waits_for_an_overdue_job() -> None:
    lrm = make_lrm("conservative", 2)
    lrm.submit(QueuedJob("late", 2, 60), 0)
    assert lrm.schedule(0) == ["late"]
    lrm.submit(QueuedJob("wide", 2, 60), 1)
    lrm.submit(QueuedJob("narrow", 1, 30), 2)
    assert lrm.schedule(2) == []
    assert [lrm.planned_start_s(job, 2) for job in ("wide", "narrow")] == [60, 120]
    assert lrm.next_wakeup_s == 60
    # Its end is due, and may be told in a moment.
    assert lrm.schedule(60) == []
    assert lrm.next_wakeup_s == 120
    # One minute more, and as this has passed, five.
    assert lrm.schedule(120) == []
    assert [lrm.planned_start_s(job, 120) for job in ("wide", "narrow")] == [420, 480]
    assert lrm.next_wakeup_s == 420
    lrm.end("late", 200)
    assert lrm.schedule(200) == ["wide"]
    assert lrm.planned_start_s("narrow", 200) == 260


def test_easy_backfills_beside_an_overdue_job_what_does_not_delay_its_head() -> None:
    lrm = make_lrm("easy", 4)
    lrm.submit(QueuedJob("late", 2, 60), 0)
    assert lrm.schedule(0) == ["late"]
    lrm.submit(QueuedJob("head", 3, 60), 70)
    assert lrm.schedule(70) == []
    # The two processors of the overdue job are expected now: one remains beside the head.
    lrm.submit(QueuedJob("two", 2, 10), 71)
    lrm.submit(QueuedJob("one", 1, 1000), 71)
    assert lrm.schedule(71) == ["one"]
    lrm.end("late", 80)
    assert lrm.schedule(80) == ["head"]


def test_easy_looks_anew_at_what_its_head_leaves_over_when_processors_go_out_of_service() -> None:
    lrm = make_lrm("easy", 6)
    lrm.submit(QueuedJob("runs", 3, 100), 0)
    assert lrm.schedule(0) == ["runs"]
    lrm.submit(QueuedJob("head", 4, 60), 0)
    assert lrm.schedule(0) == []
    lrm.occupy(QueuedJob("repair", 2, 600), 1)
    assert lrm.schedule(1) == []
    # The head starts at 100 and needs all that are left then; with those two, it would not.
    lrm.submit(QueuedJob("long", 1, 900), 2)
    assert lrm.schedule(2) == []
    lrm.end("repair", 50)
    assert lrm.schedule(50) == ["long"]
    lrm.end("runs", 100)
    assert lrm.schedule(100) == ["head"]


def test_easy_makes_its_forecast_anew_when_a_job_was_not_started_as_foreseen() -> None:
    """A head that asks for no time takes none in the plan, but its rule holds up the others."""
    lrm = make_lrm("easy", 2)
    for job, cores, requested_s in (("runs", 1, 30), ("head", 2, 0), ("narrow", 1, 60)):
        lrm.submit(QueuedJob(job, cores, requested_s), 0)
    assert lrm.schedule(0) == ["runs"]
    assert lrm.planned_start_s("narrow", 0) == 0
    lrm.end("runs", 30)
    assert lrm.schedule(30) == ["head"]
    assert lrm.planned_start_s("narrow", 30) == 30
    assert lrm.estimate_start_s(2, 10, 30) == 90


def test_conservative_makes_only_those_promises_anew_that_a_failure_breaks() -> None:
    lrm = make_lrm("conservative", 4)
    for job, cores, requested_s in (("runs", 3, 100), ("wide", 4, 50), ("narrow", 1, 100)):
        lrm.submit(QueuedJob(job, cores, requested_s), 0)
    assert lrm.schedule(0) == ["runs", "narrow"]
    lrm.submit(QueuedJob("next", 2, 10), 0)
    assert [lrm.planned_start_s(job, 0) for job in ("wide", "next")] == [100, 150]
    lrm.end("narrow", 20)
    lrm.occupy(QueuedJob("repair", 1, 80), 20)
    assert lrm.schedule(20) == []
    assert [lrm.planned_start_s(job, 20) for job in ("wide", "next")] == [100, 150]
    lrm.end("repair", 30)
    lrm.occupy(QueuedJob("again", 1, 90), 30)
    assert lrm.schedule(30) == []
    # The wide job has to wait until 120, and leaves room for the other one.
    assert [lrm.planned_start_s(job, 30) for job in ("wide", "next")] == [120, 100]


@pytest.mark.parametrize(("name", "estimate_s"), [("fcfs", 160), ("easy", 3), ("conservative", 3)])
def test_estimates_of_a_start(name: str, estimate_s: float) -> None:
    lrm = make_lrm(name, 10)
    for number, job in enumerate(WIDE_AND_NARROW[:3]):
        lrm.submit(QueuedJob(number, job.cores, job.requested_s), job.submit_s)
        lrm.schedule(job.submit_s)
    assert [lrm.planned_start_s(number, 3) for number in (1, 2)] == [100, 150]
    # A short narrow job that comes now; asking does not put it into the queue.
    for _ in range(2):
        assert lrm.estimate_start_s(2, 50, 3) == estimate_s
    assert (lrm.processors, lrm.free, lrm.queued) == (10, 4, 2)


@pytest.mark.parametrize("name", LRMS)
class TestEveryModel:
    def test_counts_processors_and_jobs(self, name: str) -> None:
        lrm = make_lrm(name, 4)
        assert (lrm.name, lrm.processors, lrm.free, lrm.queued) == (name, 4, 4, 0)
        lrm.submit(QueuedJob("a", 3, 10), 0)
        assert (lrm.free, lrm.queued) == (4, 1)
        assert lrm.schedule(0) == ["a"]
        lrm.submit(QueuedJob("b", 2, 10), 0)
        assert lrm.schedule(0) == []
        assert (lrm.free, lrm.queued) == (1, 1)
        lrm.end("a", 5)
        assert lrm.schedule(5) == ["b"]
        assert (lrm.free, lrm.queued) == (2, 0)

    def test_cancelled_jobs_leave(self, name: str) -> None:
        lrm = make_lrm(name, 2)
        for job in ("runs", "waits", "last"):
            lrm.submit(QueuedJob(job, 2, 100), 0)
        assert lrm.schedule(0) == ["runs"]
        lrm.cancel("waits", 1)
        assert lrm.schedule(1) == []
        assert lrm.planned_start_s("last", 1) == 100
        lrm.cancel("runs", 2)
        assert lrm.schedule(2) == ["last"]
        with pytest.raises(KeyError):
            lrm.cancel("runs", 3)
        with pytest.raises(KeyError):
            lrm.end("never there", 3)

    def test_processors_go_out_of_service_and_come_back(self, name: str) -> None:
        lrm = make_lrm(name, 4)
        lrm.submit(QueuedJob("runs", 3, 100), 0)
        assert lrm.schedule(0) == ["runs"]
        lrm.submit(QueuedJob("wide", 4, 50), 1)
        with pytest.raises(InvalidError, match="cannot take 2 processors: 1 are free"):
            lrm.occupy(QueuedJob("repair", 2, 200), 10)
        lrm.occupy(QueuedJob("repair", 1, 200), 10)
        assert lrm.schedule(10) == []
        assert (lrm.free, lrm.queued) == (0, 1)
        assert lrm.planned_start_s("wide", 10) == 210
        lrm.end("runs", 100)
        assert lrm.schedule(100) == []
        lrm.end("repair", 150)  # earlier than expected
        assert lrm.schedule(150) == ["wide"]

    def test_an_id_can_be_used_again_once_the_job_has_left(self, name: str) -> None:
        lrm = make_lrm(name, 1)
        lrm.submit(QueuedJob("a", 1, 10), 0)
        with pytest.raises(InvalidError, match="'a' was submitted twice"):
            lrm.submit(QueuedJob("a", 1, 10), 0)
        lrm.schedule(0)
        with pytest.raises(InvalidError, match="'a' was submitted twice"):
            lrm.submit(QueuedJob("a", 1, 10), 0)
        lrm.end("a", 10)
        lrm.submit(QueuedJob("a", 1, 10), 10)
        assert lrm.schedule(10) == ["a"]

    @pytest.mark.parametrize(
        ("cores", "requested_s", "kind", "says"),
        [
            (0, 1.0, InvalidError, "asks for 0 processors"),
            (9, 1.0, InfeasibleError, "asks for 9 processors, the cluster has 8"),
            (1, -1.0, InvalidError, "asks for -1.0 s"),
            (1, float("nan"), InvalidError, "asks for nan s"),
        ],
    )
    def test_senseless_requests_are_refused(
        self, name: str, cores: int, requested_s: float, kind: type[Exception], says: str
    ) -> None:
        lrm = make_lrm(name, 8)
        with pytest.raises(kind, match=says):
            lrm.submit(QueuedJob("a", cores, requested_s), 0)
        with pytest.raises(kind, match=says):
            lrm.estimate_start_s(cores, requested_s, 0)
        assert lrm.queued == 0

    def test_jobs_without_a_request_run_as_long_as_they_like(self, name: str) -> None:
        lrm = make_lrm(name, 4)
        for job in ("a", "b", "c"):
            lrm.submit(QueuedJob(job, 3, NEVER_S), 0)
        assert lrm.schedule(0) == ["a"]
        assert lrm.estimate_start_s(2, 10, 0) == NEVER_S
        assert (lrm.planned_start_s("c", 0), lrm.next_wakeup_s) == (NEVER_S, NEVER_S)
        lrm.end("a", 1000)
        assert lrm.schedule(1000) == ["b"]
        lrm.end("b", 2000)
        assert lrm.schedule(2000) == ["c"]
        lrm.end("c", 2001)
        assert lrm.schedule(2001) == []

    def test_an_empty_cluster_starts_everything_that_fits_at_once(self, name: str) -> None:
        jobs = [SimulatedJob(7, 0, 1, 0), SimulatedJob(7, 5, 3, 0.5), SimulatedJob(7, 5, 4, 5)]
        schedule = simulate_batch(jobs, 4, name, kill_overruns=False)
        assert list(schedule.start_s) == [7, 7, 12]
        assert list(simulate_batch([], 4, name, kill_overruns=True).start_s) == []

    def test_the_job_at_fault_is_named(self, name: str) -> None:
        jobs = [SimulatedJob(0, 1, 1, 1), SimulatedJob(0, 1, 5, 1)]
        with pytest.raises(InfeasibleError, match="job 1: a job asks for 5 processors"):
            simulate_batch(jobs, 4, name, kill_overruns=True)
        with pytest.raises(InvalidError, match="job 0 runs for -1"):
            simulate_batch([SimulatedJob(0, -1, 1, 1)], 4, name, kill_overruns=True)

    def test_jobs_may_be_given_in_any_order(self, name: str) -> None:
        jobs = [
            SimulatedJob(20, 10, 2, 10),
            SimulatedJob(0, 25, 2, 25),
            SimulatedJob(20, 10, 2, 10),
        ]
        schedule = simulate_batch(jobs, 2, name, kill_overruns=True)
        assert list(schedule.start_s) == [25, 0, 35]


def test_an_unknown_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidError, match="did you mean 'conservative'") as caught:
        make_lrm("conservativ", 4)
    assert "fcfs, easy, conservative" in str(caught.value)


def test_a_cluster_has_processors() -> None:
    with pytest.raises(InvalidError, match="0 processors"):
        make_lrm("fcfs", 0)


def test_every_model_is_an_lrm() -> None:
    models: list[Lrm] = [make_lrm(name, 1) for name in LRMS]
    assert [lrm.name for lrm in models] == ["fcfs", "easy", "conservative", "replanned"]


def test_jobs_of_a_log() -> None:
    log = [
        LoggedJob(1, 5.0, runtime_s=10.0, processors=4, requested_processors=6, requested_s=8.0),
        LoggedJob(2, 6.0, runtime_s=10.0, processors=5, requested_s=0.0),
    ]
    assert simulated_jobs(log) == [
        SimulatedJob(5.0, 10.0, 6, 8.0),
        SimulatedJob(6.0, 10.0, 5, 10.0),
    ]
    with pytest.raises(InvalidError, match=r"job 3 cannot be simulated.*run time"):
        simulated_jobs([LoggedJob(3, 5.0, processors=4)])
    with pytest.raises(InvalidError, match="does not give its processors"):
        simulated_jobs([LoggedJob(3, 5.0, runtime_s=4.0)])
