"""Packing of moldable jobs, beside optimal schedules that were found by trying everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.amounts import examples
from tests.engine.packing.brute_force import any_job, check, monotonic_job, optimum
from wfrun.engine.errors import InfeasibleError
from wfrun.engine.jobs.packing import (
    PACKERS,
    PackedJob,
    PackedSchedule,
    Packing,
    assign,
    dual_approximation,
    list_schedule,
    list_starts,
    pack_arrivals,
    weighted_program,
)
from wfrun.engine.jobs.packing.demt import batch_lengths, select_batches
from wfrun.engine.jobs.packing.dual import divide, knapsack

SHAPES = ((1, 3), (2, 2), (2, 3), (2, 4), (3, 2), (3, 2), (3, 3), (4, 2), (4, 1), (2, 5))
"""Numbers of jobs and processors of instances whose schedules can all be tried."""
ROUNDING = 1 + 1e-9

MakeJob = Callable[[Random, int], PackedJob]


def instances(count: int, make_job: MakeJob) -> Iterator[tuple[list[PackedJob], int]]:
    for seed in range(count):
        random = Random(seed)
        number, processors = SHAPES[seed % len(SHAPES)]
        yield [make_job(random, processors) for _ in range(number)], processors


def check_schedule(jobs: Sequence[PackedJob], schedule: PackedSchedule, processors: int) -> None:
    check(jobs, *schedule, assign(schedule, processors), processors)


@pytest.mark.slow
@pytest.mark.parametrize("make_job", [monotonic_job, any_job])
def test_small_instances_beside_their_optimum(make_job: MakeJob) -> None:
    """On 1,000 instances: bounds are bounds, schedules are schedules, and the dual approximation
    is within 3/2 for monotonic jobs."""
    pytest.importorskip("scipy.optimize")
    from wfrun.runners.simulate.packed.compare import weighted_bound

    for index, (jobs, processors) in enumerate(instances(1000, make_job)):
        best = optimum(jobs, processors)
        dual = dual_approximation(jobs, processors)
        assert dual.lower_s <= best.makespan_s * ROUNDING
        check_schedule(jobs, dual.schedule, processors)
        if make_job is monotonic_job:
            assert dual.schedule.makespan_s <= 1.5 * 1.001 * best.makespan_s * ROUNDING
        for name, pack in PACKERS.items():
            packing = pack(jobs, processors, dual, 0)
            assert sorted(packing.order) == list(range(len(jobs))), name
            schedule = list_schedule(jobs, packing, processors)
            check_schedule(jobs, schedule, processors)
            assert schedule.makespan_s * ROUNDING >= best.makespan_s
            assert schedule.weighted_s(jobs) * ROUNDING >= best.weighted_s
        if index % 5 == 0:
            bound_s = weighted_bound(jobs, processors, dual)
            assert 0 < bound_s <= best.weighted_s * ROUNDING
            printed_s = weighted_bound(jobs, processors, dual, as_printed=True)
            assert printed_s >= bound_s / ROUNDING


def test_the_printed_program_exceeds_the_optimum_of_one_job() -> None:
    """One job of 1 to 1.9 seconds ends at 1; the printed program has it end after t_0."""
    pytest.importorskip("scipy.optimize")
    from wfrun.runners.simulate.packed.compare import weighted_bound

    jobs = [PackedJob([1], [1.0], 1.0), PackedJob([1], [1.9], 1e-9)]
    dual = dual_approximation(jobs, 2)
    assert batch_lengths(jobs, dual.length_s)[0] == pytest.approx(1.9, rel=0.01)
    best = optimum(jobs, 2)
    assert best.weighted_s == pytest.approx(1.0)
    assert weighted_bound(jobs, 2, dual, as_printed=True) == pytest.approx(1.9, rel=0.01)
    assert weighted_bound(jobs, 2, dual) <= best.weighted_s


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 40), st.integers(1, 32), st.integers(0, 2**32))
def test_the_dual_approximation_keeps_its_promise(count: int, processors: int, seed: int) -> None:
    """Its schedule is at most 3/2 of an accepted length, just above the bound."""
    random = Random(seed)
    jobs = [monotonic_job(random, processors) for _ in range(count)]
    dual = dual_approximation(jobs, processors)
    assert dual.length_s <= dual.lower_s * 1.001 * ROUNDING
    assert dual.schedule.makespan_s <= 1.5 * dual.length_s * ROUNDING
    check_schedule(jobs, dual.schedule, processors)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 24), st.integers(0, 2**32))
def test_every_algorithm_packs_any_jobs(count: int, processors: int, seed: int) -> None:
    random = Random(seed)
    jobs = [any_job(random, processors) for _ in range(count)]
    dual = dual_approximation(jobs, processors)
    check_schedule(jobs, dual.schedule, processors)
    arrivals_s = [random.choice([0.0, random.uniform(0, 30)]) for _ in jobs]
    for name, pack in PACKERS.items():
        packing = pack(jobs, processors, dual, 3)
        assert packing == pack(jobs, processors, dual, 3), name
        check_schedule(jobs, list_schedule(jobs, packing, processors), processors)

        def packed(some: Sequence[PackedJob], width: int, pack: object = pack) -> Packing:
            assert callable(pack)
            found = pack(some, width, dual_approximation(some, width), 0)
            assert isinstance(found, Packing)
            return found

        online = pack_arrivals(jobs, arrivals_s, processors, packed)
        check_schedule(jobs, online, processors)
        assert all(s >= a for s, a in zip(online.starts_s, arrivals_s, strict=True))


def test_arrivals_wait_for_the_next_batch() -> None:
    jobs = [PackedJob([1], [10.0]), PackedJob([1], [1.0]), PackedJob([1], [2.0])]

    def pack(some: Sequence[PackedJob], processors: int) -> Packing:
        return PACKERS["demt"](some, processors, dual_approximation(some, processors), 0)

    found = pack_arrivals(jobs, [0.0, 3.0, 30.0], 2, pack)
    assert found.starts_s == [0.0, 10.0, 30.0]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.floats(0, 10)), max_size=9), st.integers(0, 14))
def test_the_knapsack_is_exact(items: list[tuple[int, float]], capacity: int) -> None:
    costs, values = [cost for cost, _ in items], [value for _, value in items]
    chosen = knapsack(costs, values, capacity)
    assert sorted(set(chosen)) == chosen
    assert sum(costs[item] for item in chosen) <= capacity
    best = max(
        sum(values[item] for item in some)
        for size in range(len(items) + 1)
        for some in combinations(range(len(items)), size)
        if sum(costs[item] for item in some) <= capacity
    )
    assert sum(values[item] for item in chosen) == pytest.approx(best)


def test_batches_double_and_take_the_largest_weight() -> None:
    """Lengths 1, 2, 4; the heavy short job goes first, the long one into the last batch."""
    jobs = [
        PackedJob([1], [4.0], 1.0),
        PackedJob([1], [1.0], 1.0),
        PackedJob([1], [1.0], 5.0),
        PackedJob([1, 2], [2.0, 1.0], 2.0),
    ]
    assert batch_lengths(jobs, 4.0) == [1.0, 2.0, 4.0]
    places = [0] * 4
    batches = select_batches(jobs, 2, 4.0, places)
    assert [(batch.length_s, batch.jobs) for batch in batches] == [
        (1.0, (2, 1)), (2.0, (3,)), (4.0, (0,)),
    ]  # fmt: skip
    assert places == [0, 0, 0, 0]


def test_small_sequential_jobs_share_a_processor_by_weight() -> None:
    """In a batch of 4 s two stacks of one processor: the heaviest jobs fill the first."""
    jobs = [PackedJob([1], [1.5], float(weight)) for weight in range(1, 7)]
    jobs.append(PackedJob([1], [4.0], 0.5))
    places = [0] * len(jobs)
    first, *_ = (b for b in select_batches(jobs, 1, 4.0, places) if b.length_s > 1.5)
    assert set(first.jobs) <= set(range(6))
    assert {5, 4} & set(first.jobs) or first.length_s == 2.0


def test_jobs_that_no_batch_takes_get_further_ones() -> None:
    jobs = [PackedJob([1], [1.0]) for _ in range(5)]
    places = [0] * 5
    batches = select_batches(jobs, 1, 1.0, places)
    assert [len(batch.jobs) for batch in batches] == [1, 1, 1, 1, 1]


def test_a_length_is_rejected_if_the_work_or_the_long_jobs_exceed_it() -> None:
    jobs = [PackedJob([1, 2], [4.0, 3.0]) for _ in range(3)]
    assert divide(jobs, 2, 2.9) is None, "no size is that short"
    assert divide(jobs, 2, 5.9) is None, "the work is 12 on 2 processors"
    assert divide(jobs, 2, 6.0) is None, "all three run at the time 3"
    assert divide(jobs, 2, 8.0) is not None


def test_a_list_starts_the_first_job_that_fits() -> None:
    """A narrow job overtakes a wide one that has to wait, and the list decides among others."""
    found = list_starts([0, 1, 2, 3], [1, 2, 1, 1], [3.0, 1.0, 4.0, 1.0], 2)
    assert found.starts_s == [0.0, 4.0, 0.0, 3.0]
    with pytest.raises(InfeasibleError, match="a job needs 3 processors, the allocation has 2"):
        list_starts([0], [3], [1.0], 2)


def test_sizes_above_the_allocation_are_left_out() -> None:
    job = PackedJob([2, 4, 8], [8.0, 4.0, 2.0])
    assert job.within(5).sizes == (2, 4)
    assert job.within(8) is job
    with pytest.raises(InfeasibleError, match="at least 2 processors, the allocation has 1"):
        job.within(1)


def test_the_program_of_the_bound() -> None:
    """Two jobs, lengths 1 and 2: the added interval is (1/2, 1]."""
    jobs = [PackedJob([1], [1.0], 3.0), PackedJob([1], [2.0], 1.0)]
    program = weighted_program(jobs, 1, 2.0)
    assert program.costs == [1.5, 3.0, 1.0, 6.0, 2.0]
    assert program.cover == [[0, 1, 3], [2, 4]]
    assert program.areas[0] == [(0, 1.0)]
    assert weighted_program(jobs, 1, 2.0, as_printed=True).costs == [3.0, 1.0, 6.0, 2.0]
