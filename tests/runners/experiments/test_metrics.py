"""Metrics against values worked out by hand, or published."""

from __future__ import annotations

import math
import re
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.amounts import examples
from tests.engine.strategies import catalogs, settings_of_runs, workflows
from tests.places import ROOT
from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, File, LinkSpec, SiteSpec, Task, Workflow
from wfrun.parsers.generate import generate
from wfrun.runners.api import run
from wfrun.runners.metrics.grid import GRID_METRICS, MeasuredSchedule, grid_metrics
from wfrun.runners.metrics.jobs import (
    JobTiming,
    bounded_slowdown,
    busy_cores,
    slowdown,
    total_makespan_s,
    utilization,
)
from wfrun.runners.metrics.log import RunTimings, run_timings
from wfrun.runners.metrics.samples import cumulative, percentile, summarize, t_critical
from wfrun.runners.metrics.workflows import WorkflowTiming, bag_schedule_length, critical_path_s
from wfrun.runners.metrics.workflows import total_makespan_s as total_makespan_of_workflows_s
from wfrun.runners.run.store.event_store import Store
from wfrun.testing.fake_world import FakeWorld

# Samples


@pytest.mark.parametrize(
    ("confidence", "freedom", "published"),
    [
        (0.95, 1, 12.7062),
        (0.95, 2, 4.3027),
        (0.95, 9, 2.2622),
        (0.95, 30, 2.0423),
        (0.95, 120, 1.9799),
        (0.95, 1000, 1.9623),
        (0.99, 9, 3.2498),
        (0.999, 4, 8.6103),
        (0.5, 3, 0.7649),
    ],
)
def test_t_quantiles_are_those_of_the_tables(
    confidence: float, freedom: int, published: float
) -> None:
    assert t_critical(confidence, freedom) == pytest.approx(published, abs=6e-5)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_the_expansion_joins_the_series(confidence: float) -> None:
    """Second differences over the degrees of freedom at which the method changes."""
    t = [t_critical(confidence, n) for n in (198, 199, 200, 201, 202)]
    jump = t[0] - 4 * t[1] + 6 * t[2] - 4 * t[3] + t[4]
    assert abs(jump) < 1e-8


def test_a_sample_in_a_few_numbers() -> None:
    s = summarize([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (s.count, s.mean, s.minimum, s.median, s.maximum) == (5, 3.0, 1.0, 3.0, 5.0)
    assert s.sd == pytest.approx(math.sqrt(2.5))
    assert s.half_width == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-6)


def test_a_single_value_has_no_interval() -> None:
    s = summarize([7.0])
    assert (s.mean, s.sd, s.half_width) == (7.0, None, None)


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    rng = Random(5)
    covered = 0
    for _ in range(2000):
        s = summarize([rng.gauss(10, 3) for _ in range(6)], confidence=0.9)
        assert s.half_width is not None
        covered += abs(s.mean - 10) <= s.half_width
    assert covered / 2000 == pytest.approx(0.9, abs=0.02)


def test_percentiles_are_interpolated() -> None:
    values = [15.0, 20.0, 35.0, 40.0, 50.0]
    assert [percentile(values, p) for p in (0, 25, 40, 90, 100)] == pytest.approx(
        [15, 20, 29, 46, 50]
    )
    assert percentile([3.0], 95) == 3.0


def test_the_empirical_distribution_ends_at_one() -> None:
    assert cumulative([2.0, 1.0, 2.0, 4.0]) == [(1.0, 0.25), (2.0, 0.75), (4.0, 1.0)]


def test_samples_without_a_mean_are_refused() -> None:
    with pytest.raises(InvalidError, match="no values"):
        summarize([])
    with pytest.raises(InvalidError, match=r"1 of 2 values are not finite"):
        summarize([1.0, math.inf])
    with pytest.raises(InvalidError, match="no percentile 101"):
        percentile([1.0], 101)
    with pytest.raises(InvalidError, match="confidence interval of 95"):
        t_critical(95, 3)


# Jobs


def test_times_of_a_job() -> None:
    job = JobTiming(submit_s=10, start_s=40, end_s=100)
    assert (job.wait_s, job.runtime_s, job.response_s) == (30, 60, 90)
    assert slowdown(job) == 1.5
    assert bounded_slowdown(job) == 1.5
    assert bounded_slowdown(job, threshold_s=180) == 1.0


def test_short_jobs_count_as_ten_seconds_long() -> None:
    short = JobTiming(submit_s=0, start_s=38, end_s=40)
    assert bounded_slowdown(short) == 4.0
    assert bounded_slowdown(short, threshold_s=1) == 20.0
    assert bounded_slowdown(JobTiming(0, 0, 2)) == 1.0  # never less
    assert slowdown(JobTiming(0, 5, 5)) is None
    with pytest.raises(InvalidError, match="slowdown is 0 s"):
        bounded_slowdown(short, threshold_s=0)


def test_total_makespan_is_from_first_submission_to_last_end() -> None:
    assert total_makespan_s([JobTiming(5, 6, 50), JobTiming(3, 9, 20)]) == 47
    with pytest.raises(InvalidError):
        total_makespan_s([])


def test_utilization_over_time() -> None:
    jobs = [JobTiming(0, 0, 10, 2), JobTiming(0, 5, 15, 1), JobTiming(0, 2, 4, 4, site=1)]
    assert busy_cores(jobs, 0) == [(0, 2), (5, 3), (10, 1), (15, 0)]
    assert utilization(jobs, 4, [0, 10, 20], site=0) == [25 / 40, 5 / 40]
    assert utilization(jobs, 4, [7, 12], site=0) == [(3 * 3 + 2) / 20]
    assert utilization(jobs, 4, [0, 4, 8], site=1) == [0.5, 0.0]
    assert utilization(jobs, 8, [0, 20]) == [(20 + 10 + 8) / 160]
    with pytest.raises(InvalidError):
        utilization(jobs, 4, [0, 0])
    with pytest.raises(InvalidError):
        utilization(jobs, 0, [0, 1])


def test_jobs_in_succession_leave_no_gap() -> None:
    jobs = [JobTiming(0, n, n + 1) for n in range(5)]
    assert busy_cores(jobs) == [(0, 1), (5, 0)]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(1, 8)), min_size=1),
    st.sets(st.integers(-5, 90), min_size=1, max_size=10),
)
def test_utilization_adds_up_to_the_work(
    drawn: list[tuple[int, int, int]], inner: set[int]
) -> None:
    jobs = [JobTiming(0, start, start + length, cores) for start, length, cores in drawn]
    edges = [-10.0, *sorted(inner), 100.0]
    shares = utilization(jobs, 8, edges)
    used = [s * 8 * (b - a) for s, a, b in zip(shares, edges, edges[1:], strict=False)]
    assert sum(used) == pytest.approx(sum(length * cores for _, length, cores in drawn))


# The 24

JOBS = [
    JobTiming(submit_s=100, start_s=100, end_s=120, cores=2, site=0),  # r 0, p 20, c 20
    JobTiming(submit_s=100, start_s=120, end_s=124, cores=4, site=0),  # r 0, p 4, c 24
    JobTiming(submit_s=110, start_s=115, end_s=150, cores=8, site=1),  # r 10, p 35, c 50
]
BY_HAND = {
    "ρ": 50 / 45,  # max(max(20, 4, 45), (40 + 16 + 280) / 12)
    "SD": (20 / 20 + 24 / 4 + 40 / 35) / 3,
    "SD_b": (20 / 20 + 24 / 10 + 40 / 35) / 3,
    "Th": 3 / 50,
    "TA": (20 + 24 + 40) / 3,
    "U": 336 / (50 * 12),
    "t_w": (0 + 20 + 5) / 3,
    "SCT": 94,
    "SWT": 25,
    "LBal_s": 0.25,  # 6/4 and 8/8
    "LBal_t": (6 - 4.375) / 2,  # 24/4 and 35/8
    "LBal_w": (35 - 14) / 2,  # 56/4 and 280/8
    "SWCT_s": 40 + 96 + 400,
    "SWCT_t": 400 + 96 + 1750,
    "SWCT_w": 800 + 384 + 14000,
    "SWWT_s": 80 + 40,
    "SWWT_t": 80 + 175,
    "SWWT_w": 320 + 1400,
    "WTA_s": (40 + 96 + 320) / 3,
    "WTA_t": (400 + 96 + 1400) / 3,
    "WTA_w": (800 + 384 + 11200) / 3,
    "WWT_s": 120 / 3,
    "WWT_t": 255 / 3,
    "WWT_w": 1720 / 3,
}


def test_the_24_metrics_by_hand() -> None:
    assert grid_metrics(MeasuredSchedule(JOBS, [4, 8])) == pytest.approx(BY_HAND)
    assert len(GRID_METRICS) == 24


def test_options_of_the_24_metrics() -> None:
    schedule = MeasuredSchedule(JOBS, [4, 8], origin_s=0, threshold_s=1)
    found = grid_metrics(schedule)
    assert found["SCT"] == 394
    assert found["SD_b"] == found["SD"]
    assert found["t_w"] == BY_HAND["t_w"]


def test_what_has_no_value_is_nan() -> None:
    found = grid_metrics(MeasuredSchedule([JobTiming(5, 5, 5)], [4]))
    nan = {symbol for symbol, value in found.items() if math.isnan(value)}
    assert nan == {"ρ", "SD", "Th", "U"}


def test_schedules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidError, match="without jobs"):
        MeasuredSchedule([], [4])
    with pytest.raises(InvalidError, match=r"at site 1, but there are sizes for sites 0 to 0"):
        MeasuredSchedule(JOBS, [4])
    with pytest.raises(InvalidError, match="no processors"):
        MeasuredSchedule(JOBS, [4, 0])


# Workflows


def diamond() -> Workflow:
    """a writes x and y, b and c read one each, d reads what b and c write. 10, 20, 5 and 7 s."""
    files = [
        File("in", size_bytes=100),
        File("x", size_bytes=100, producer=0),
        File("y", size_bytes=200, producer=0),
        File("bx", size_bytes=100, producer=1),
        File("cy", size_bytes=300, producer=2),
        File("out", size_bytes=1, producer=3, collect=True),
    ]
    tasks = [
        Task("a", "a", "a", inputs=(0,), outputs=(1, 2), runtime_s=10),
        Task("b", "b", "b", inputs=(1,), outputs=(3,), runtime_s=20),
        Task("c", "c", "c", inputs=(2,), outputs=(4,), runtime_s=5),
        Task("d", "d", "d", inputs=(3, 4), outputs=(5,), runtime_s=7),
    ]
    return Workflow("diamond", "diamond.dax", tasks, files, [(), (0,), (0,), (1, 2)])


def test_a_critical_path_is_the_longest_by_time() -> None:
    assert critical_path_s(diamond(), [10, 20, 5, 7]) == 37
    assert critical_path_s(diamond(), [10, 20, 35, 7]) == 52
    assert critical_path_s(Workflow("none", "none.dax", [], [], []), []) == 0


def test_the_schedule_length_of_a_bag_is_relative_to_all_its_work() -> None:
    assert bag_schedule_length(50, [10, 20, 70]) == 0.5
    assert bag_schedule_length(50, [0, 0]) is None


def workflow_timing(submit_s: float, end_s: float | None, done: int = 4) -> WorkflowTiming:
    return WorkflowTiming("w", submit_s, end_s, 4, done, 20.0, 0, 0)


def test_makespans_of_workflows() -> None:
    first, second = workflow_timing(10, 60), workflow_timing(15, 50)
    assert (first.makespan_s, first.nsl) == (50, 2.5)
    assert total_makespan_of_workflows_s([first, second]) == 50
    failed, running = workflow_timing(0, 30, done=3), workflow_timing(0, None, done=1)
    assert (failed.makespan_s, failed.nsl, running.nsl) == (None, None, None)
    assert total_makespan_of_workflows_s([first, failed]) is None


# From a log


def timings_of(world: FakeWorld, workflow: Workflow) -> RunTimings:
    world.run()
    return run_timings(world.log, {"0": workflow})


def two_sites() -> Catalog:
    """Round robin places a and c at fast, b and d at slow. Between sites 10 bytes a second."""
    links = [("origin", "fast"), ("fast", "slow"), ("slow", "fast"), ("slow", "origin")]
    return Catalog(
        (SiteSpec("fast", 1, 2.0), SiteSpec("slow", 1, 0.5)),
        tuple(LinkSpec(a, b, 10.0) for a, b in links),
    )


def test_a_log_gives_every_wait_of_every_task() -> None:
    workflow = diamond()
    found = timings_of(FakeWorld([workflow], two_sites(), ev.Settings("round-robin")), workflow)
    shown = {
        workflow.tasks[t.task].id: (
            t.site, t.eligible_s, t.held_s, t.staging_s, t.queue_wait_s, t.start_s, t.end_s,
        )
        for t in found.tasks
    }  # fmt: skip
    assert shown == {
        "a": (0, 0, 0, 10, 0, 10, 15),  # 100 bytes from the origin
        "b": (1, 15, 0, 10, 0, 25, 65),  # x to slow
        "c": (0, 15, 0, 0, 0, 15, 17.5),
        "d": (1, 65, 0, 30, 0, 95, 109),  # cy to slow
    }
    (metrics,) = found.workflow_metrics()
    assert metrics.makespan_s == 109
    assert metrics.nsl == pytest.approx(109 / 37)
    assert (metrics.transfers, metrics.moved_bytes) == (2, 400)
    assert metrics.staging_s == 50 / 4
    assert metrics.wait_s == 50 / 4
    assert found.outcome == "done"
    assert utilization(found.jobs(), 1, [0, 100], site=1) == [0.45]


def test_the_throttle_holds_tasks_back_and_queues_make_them_wait() -> None:
    bag = generate("bag", tasks=3, seed=1)
    tasks = [Task(t.id, t.name, "x", runtime_s=10) for t in bag.tasks]
    bag = Workflow("bag", "bag", tasks, [], [() for _ in tasks])
    one = Catalog((SiteSpec("one", 1),))
    free = timings_of(FakeWorld([bag], one, ev.Settings("round-robin")), bag)
    assert [(t.held_s, t.queue_wait_s) for t in free.tasks] == [(0, 0), (0, 10), (0, 20)]
    held = timings_of(FakeWorld([bag], one, ev.Settings("round-robin", throttle=1)), bag)
    assert [(t.held_s, t.queue_wait_s) for t in held.tasks] == [(0, 0), (10, 0), (20, 0)]
    assert free.workflow_metrics()[0].wait_s == held.workflow_metrics()[0].wait_s == 10


def test_a_retry_waits_from_when_it_is_eligible_again() -> None:
    workflow = Workflow("one", "one", [Task("t", "t", "x", runtime_s=10)], [], [()])

    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome(cause="exit" if key.endswith(".1") else "done", exit_code=1)

    world = FakeWorld(
        [workflow],
        Catalog((SiteSpec("one", 1),)),
        ev.Settings("round-robin", retry_delay_s=5),
        result=result,
    )
    found = timings_of(world, workflow)
    assert [(t.eligible_s, t.start_s, t.end_s, t.done) for t in found.tasks] == [
        (0, 0, 10, False),
        (15, 15, 25, True),
    ]
    (metrics,) = found.workflow_metrics()
    assert (metrics.makespan_s, metrics.nsl, metrics.wait_s) == (25, 2.5, 0)


def test_unknown_run_times_are_taken_as_measured_on_the_reference_processor() -> None:
    workflow = diamond()
    tasks = [Task(t.id, t.name, "x", inputs=t.inputs, outputs=t.outputs) for t in workflow.tasks]
    workflow = msgspec.structs.replace(workflow, tasks=tasks)
    times = [10, 20, 5, 7]
    world = FakeWorld(
        [workflow],
        two_sites(),
        ev.Settings("round-robin"),
        runtime_s=lambda _, task, site: times[task] / (2.0, 0.5)[site],
    )
    assert timings_of(world, workflow).workflows[0].critical_path_s == 37
    unfinished = run_timings(world.log[:20], {"0": workflow})
    assert unfinished.workflows[0].critical_path_s is None
    assert unfinished.workflow_metrics()[0].nsl is None


def test_what_ran_through_a_crash_counts_once() -> None:
    workflow = diamond()
    world = FakeWorld([workflow], two_sites(), ev.Settings("round-robin"))
    for event in world.steps():
        if isinstance(event, ev.AttemptStarted) and event.key.endswith(".0.1.1"):
            break
    world.crash()
    found = timings_of(world, workflow)
    assert sorted((t.task, t.done) for t in found.tasks) == [(n, True) for n in range(4)]
    assert found.workflows[0].makespan_s == 109


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(workflows(max_tasks=12), min_size=1, max_size=2), catalogs(), settings_of_runs())
def test_waits_of_any_run_add_up(
    drawn: list[Workflow], catalog: Catalog, settings: ev.Settings
) -> None:
    world = FakeWorld(drawn, catalog, settings)
    assert world.run() == "done"
    found = run_timings(world.log, {str(i): w for i, w in enumerate(drawn)})
    done = [(t.workflow, t.task) for t in found.tasks if t.done]
    assert len(done) == len(set(done)) == sum(len(w.tasks) for w in drawn)
    for t in found.tasks:
        assert t.held_s >= 0
        assert t.staging_s >= 0
        assert t.queue_wait_s >= 0
        assert t.held_s + t.staging_s + t.queue_wait_s == pytest.approx(t.wait_s)
    state = world.core.state
    assert sum(w.transfers for w in found.workflows) == state.transfers
    for w, s in zip(found.workflows, state.workflows, strict=True):
        mine = [t for t in found.tasks if t.workflow == s.index]
        staging_s, waiting_s = sum(t.staging_s for t in mine), sum(t.queue_wait_s for t in mine)
        assert waiting_s == pytest.approx(s.waiting_s)
        if not state.max_replicas:  # Of these some never start.
            assert staging_s == pytest.approx(s.staging_s)
        assert staging_s <= s.staging_s + 1e-6
        fastest = max(site.speed_ratio for site in catalog.sites)
        assert w.nsl is None or w.nsl >= 1 / fastest - 1e-9


@pytest.mark.slow
def test_a_real_run_is_read_from_its_directory(tmp_path: Path) -> None:
    workflow = generate("montage", tasks=25, seed=1)
    run(workflow, emulate=True, time_scale=0.001, run_dir=tmp_path / "run")
    store = Store(tmp_path / "run")
    found = run_timings(store.load(), store.workflows())
    store.close()
    assert sorted(t.task for t in found.tasks) == list(range(len(workflow.tasks)))
    (metrics,) = found.workflow_metrics()
    assert metrics.nsl is not None
    assert metrics.nsl > 1
    assert metrics.transfers == 0  # there is one site
    grid_metrics(MeasuredSchedule(found.jobs(), [site.slots for site in found.sites]))


def test_the_page_lists_the_24_as_they_are() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| `([^`]+)` \|", page, re.MULTILINE)
    assert rows == [(m.symbol, m.name, m.formula) for m in GRID_METRICS.values()]
