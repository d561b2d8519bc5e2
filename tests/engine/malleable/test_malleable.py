"""Policies and manager of malleable jobs (thesis chapter 3), against its text and a second
implementation."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.engine.malleable.slow import SlowSimulation, shares_to_grow, shares_to_shrink
from wfrun.engine.jobs.malleable.manager import PRECEDENCES, Manager, Resized, SizeBounds
from wfrun.engine.jobs.malleable.policies import (
    POLICIES,
    Change,
    SizedJob,
    demands,
    grow,
    offers,
    reclaimable,
    shrink,
)
from wfrun.engine.jobs.malleable.shapes import SHAPES, given_back, taken
from wfrun.engine.jobs.malleable.simulation import Rules, ScaledJob, simulate

SIZED = st.tuples(st.integers(1, 8), st.integers(0, 9), st.integers(0, 9)).map(
    lambda t: SizedJob(t[0] + t[1], t[0], t[0] + t[1] + t[2])
)
JOBS = st.lists(SIZED, max_size=6)


def test_fpsma_offers_all_to_the_earliest_started_job_and_then_what_is_left() -> None:
    jobs = [SizedJob(2, 2, 6), SizedJob(2, 2, 8), SizedJob(2, 2, 8)]
    seen: list[Change] = []

    def answer(offer: Change) -> int:
        seen.append(offer)
        return taken("any", jobs[offer.place], offer.processors)

    assert grow("fpsma", 3, 9, answer) == 0
    assert seen == [Change(0, 9), Change(1, 5)]


def test_fpsma_reclaims_from_the_latest_started_job_until_enough() -> None:
    jobs = [SizedJob(8, 2, 8), SizedJob(5, 2, 8), SizedJob(4, 2, 8)]
    assert demands("fpsma", jobs, 4) == [Change(2, 2), Change(1, 2)]


def test_egs_gives_the_remainder_to_the_earliest_and_reclaims_it_from_the_latest() -> None:
    assert offers("egs", 3, 8) == [Change(0, 3), Change(1, 3), Change(2, 2)]
    jobs = [SizedJob(8, 2, 8)] * 3
    assert demands("egs", jobs, 8) == [Change(2, 3), Change(1, 3), Change(0, 2)]


def test_ft_takes_the_highest_power_of_two_and_returns_the_rest() -> None:
    job = SizedJob(4, 2, 32)
    assert taken("power-of-two", job, 11) == 4
    assert taken("power-of-two", job, 3) == 0
    assert taken("power-of-two", job, 100) == 28
    assert given_back("power-of-two", SizedJob(16, 2, 32), 1) == 8
    assert given_back("power-of-two", SizedJob(16, 3, 32), 14) == 13


def test_egs_is_not_equipartition() -> None:
    """It shares what is idle, whatever the sizes are."""
    assert offers("egs", 2, 4) == [Change(0, 2), Change(1, 2)]


@given(st.integers(0, 7), st.integers(-3, 40))
def test_offers_of_egs_deal_the_idle_processors(jobs: int, idle: int) -> None:
    found = [0] * jobs
    for place, count in offers("egs", jobs, idle):
        found[place] = count
    assert found == shares_to_grow(jobs, idle)


@given(JOBS, st.integers(0, 60))
def test_demands_of_egs_collect_one_by_one(jobs: list[SizedJob], needed: int) -> None:
    found = [0] * len(jobs)
    for place, count in demands("egs", jobs, needed):
        found[place] = count
    assert found == shares_to_shrink([job.size - job.least for job in jobs], needed)


@given(st.sampled_from(sorted(POLICIES)), JOBS, st.integers(0, 60), st.sampled_from(SHAPES))
def test_a_shrink_gives_enough_and_goes_below_no_minimum(
    policy: str, jobs: list[SizedJob], needed: int, shape: str
) -> None:
    now = list(jobs)

    def answer(demand: Change) -> int:
        given = given_back(shape, now[demand.place], demand.processors)
        assert given >= demand.processors
        job = now[demand.place]
        now[demand.place] = job._replace(size=job.size - given)
        return given

    given_sum = shrink(policy, jobs, needed, answer)
    assert given_sum >= min(needed, reclaimable(jobs))
    assert all(job.least <= job.size for job in now)
    assert sum(job.size for job in jobs) - sum(job.size for job in now) == given_sum
    if shape == "any":
        assert given_sum == min(needed, reclaimable(jobs))


@given(st.sampled_from(sorted(POLICIES)), JOBS, st.integers(0, 60), st.sampled_from(SHAPES))
def test_growth_offers_no_more_than_is_idle(
    policy: str, jobs: list[SizedJob], idle: int, shape: str
) -> None:
    took: list[int] = []

    def answer(offer: Change) -> int:
        count = taken(shape, jobs[offer.place], offer.processors)
        assert 0 <= count <= offer.processors <= idle - (sum(took) if policy == "fpsma" else 0)
        took.append(count)
        return count

    assert grow(policy, len(jobs), idle, answer) == idle - sum(took)
    if shape == "any" and policy == "fpsma":
        room = sum(job.most - job.size for job in jobs)
        assert sum(took) == min(idle, room)


def whole(job: int, size: int, change: int) -> int:
    """Agree to everything."""
    return size + change


def manager(
    idle: list[int], policy: str = "fpsma", precedence: str = "pra", **more: int
) -> Manager:
    return Manager(idle, policy, precedence, whole, more.get("threshold", 0))


def test_pra_grows_running_jobs_before_it_places_waiting_ones() -> None:
    one = manager([10])
    one.submit(0, SizeBounds(2, 10))
    one.run_pass()
    one.submit(1, SizeBounds(2, 10))
    assert one.run_pass() == [Resized(0, 0, 2, 10, 8)]
    assert list(one.waiting) == [1]
    one.end(0)
    assert one.run_pass() == [Resized(1, 0, 0, 2, 2)]


def test_pra_places_when_no_running_job_can_grow() -> None:
    one = manager([10])
    one.submit(0, SizeBounds(2, 6))
    one.run_pass()
    one.submit(1, SizeBounds(2, 10))
    assert one.run_pass() == [Resized(0, 0, 2, 6, 8), Resized(1, 0, 0, 2, 2)]


def test_pwa_shrinks_for_the_first_waiting_job_or_grows() -> None:
    one = manager([10], precedence="pwa")
    one.submit(0, SizeBounds(2, 10))
    assert one.run_pass() == [Resized(0, 0, 0, 2, 2), Resized(0, 0, 2, 10, 8)]
    one.submit(1, SizeBounds(4, 4))
    assert one.run_pass() == [Resized(0, 0, 10, 6, 4), Resized(1, 0, 0, 4, 4)]
    one.submit(2, SizeBounds(5, 5))
    assert one.run_pass() == []
    one.end(1)
    assert one.run_pass() == [Resized(0, 0, 6, 5, 1), Resized(2, 0, 0, 5, 5)]


def test_the_threshold_bounds_growth_and_not_placement() -> None:
    one = manager([10], threshold=8, precedence="pwa")
    for job in range(5):
        one.submit(job, SizeBounds(2, 10))
    changes = one.run_pass()
    assert [change.after for change in changes] == [2] * 5
    one = manager([20], threshold=8, precedence="pwa")
    one.submit(0, SizeBounds(2, 46))
    assert one.run_pass()[-1].after == 12


def test_a_local_user_gets_grown_processors_back_first() -> None:
    one = manager([10], policy="egs", precedence="pwa")
    one.submit(0, SizeBounds(2, 10))
    one.submit(1, SizeBounds(2, 10))
    one.run_pass()
    assert [one.size(0), one.size(1)] == [5, 5]
    assert one.observe(0, -3) == [Resized(1, 0, 5, 3, 2), Resized(0, 0, 5, 4, 1)]
    assert one.sites[0].idle == 0
    one.observe(0, -20)
    assert [one.size(0), one.size(1)] == [2, 2]


def test_answers_out_of_turn_count_as_the_nearest_allowed_one() -> None:
    wild = Manager([10, 10], "egs", "pwa", lambda job, size, change: 1000 if change > 0 else 99)
    wild.submit(0, SizeBounds(2, 6))
    wild.run_pass()
    assert wild.size(0) == 6
    wild.observe(0, -6)
    assert wild.size(0) == 4
    below = Manager([10], "egs", "pwa", lambda job, size, change: -5)
    below.submit(0, SizeBounds(2, 6))
    below.run_pass()
    assert below.size(0) == 2


@pytest.mark.parametrize("bounds", [SizeBounds(0, 3), SizeBounds(4, 3), SizeBounds(-1, -1)])
def test_bounds_that_are_none_are_refused(bounds: SizeBounds) -> None:
    with pytest.raises(ValueError, match="processors"):
        manager([4]).submit(0, bounds)


def test_a_minimum_above_every_site_is_refused() -> None:
    with pytest.raises(ValueError, match="5 processors fits no site"):
        simulate([ScaledJob(0, SizeBounds(5, 9), lambda n: 1.0)], [4, 4], Rules())


def ideal(work_s: int, processors: int) -> float:
    return work_s / processors


@st.composite
def loads(draw: st.DrawFn) -> list[ScaledJob]:
    """Arrivals on whole seconds, and work that whole seconds do with up to 8 processors."""
    jobs = []
    for _ in range(draw(st.integers(1, 7))):
        least = draw(st.integers(1, 4))
        most = draw(st.integers(least, 8))
        jobs.append(
            ScaledJob(
                draw(st.integers(0, 12)),
                SizeBounds(least, most),
                partial(ideal, draw(st.integers(1, 6)) * 8),
                draw(st.sampled_from(SHAPES)),
            )
        )
    return sorted(jobs, key=lambda job: job.arrival_s)


@settings(max_examples=60, deadline=None)
@given(
    loads(),
    st.lists(st.integers(4, 12), min_size=1, max_size=3),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(sorted(PRECEDENCES)),
    st.integers(0, 3),
    st.booleans(),
)
def test_the_simulation_keeps_its_invariants(
    jobs: list[ScaledJob],
    sites: list[int],
    policy: str,
    precedence: str,
    threshold: int,
    settles: bool,
) -> None:
    found = simulate(jobs, sites, Rules(policy, precedence, threshold, settles=settles))
    for job, life in zip(jobs, found.lives, strict=True):
        assert life.start_s >= job.arrival_s
        assert life.end_s > life.start_s
        assert all(job.bounds.least <= size <= job.bounds.most for _, size in life.sizes)
        if job.shape == "power-of-two":
            assert all(n == job.bounds.least or n & (n - 1) == 0 for _, n in life.sizes)
        if precedence == "pra":
            assert [size for _, size in life.sizes] == sorted(size for _, size in life.sizes)
        work = sum(
            (end - at) / job.run_time_s(size)
            for (at, size), end in zip(
                life.sizes, [at for at, _ in life.sizes[1:]] + [life.end_s], strict=True
            )
        )
        assert work == pytest.approx(1)
    where = {change.job: change.site for _, change in found.changes}
    for at_s, _ in found.changes:
        used = [0] * len(sites)
        for number, life in enumerate(found.lives):
            if life.start_s <= at_s < life.end_s:
                used[where[number]] += [size for start, size in life.sizes if start <= at_s][-1]
        assert all(a <= b for a, b in zip(used, sites, strict=True))


def stepped(processors: int) -> float:
    """Rates are powers of two, so that most mixtures of sizes end at whole seconds."""
    return 32.0 / (1 << (processors.bit_length() - 1))


@settings(max_examples=60, deadline=None)
@given(
    loads(),
    st.lists(st.integers(4, 12), min_size=1, max_size=3),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(sorted(PRECEDENCES)),
    st.integers(0, 3),
)
def test_the_simulation_does_what_the_second_implementation_does(
    jobs: list[ScaledJob], sites: list[int], policy: str, precedence: str, threshold: int
) -> None:
    """One processor and second at a time. Ends within a second are seen at its end by the slow
    one, so that run times with powers of two are used, and jobs alone whose ends are whole."""
    jobs = [job._replace(run_time_s=stepped) for job in jobs]
    rules = Rules(policy, precedence, threshold)
    fast = simulate(jobs, sites, rules)
    assume(not any(life.end_s % 1 for life in fast.lives))
    history = SlowSimulation(jobs, sites, rules).run(1000)
    for at_s, slow in enumerate(history):
        expected = {
            number: [size for start, size in life.sizes if start <= at_s][-1]
            for number, life in enumerate(fast.lives)
            if life.start_s <= at_s < life.end_s
        }
        assert slow == expected, at_s


def test_a_change_of_size_costs_the_time_that_is_said() -> None:
    job = ScaledJob(0, SizeBounds(2, 4), partial(ideal, 40))
    (life,) = simulate([job], [4], Rules(precedence="pwa", resize_s=3)).lives
    assert life.end_s == 13.0
    assert life.mean_size == 4


def test_polls_delay_passes() -> None:
    job = ScaledJob(1, SizeBounds(2, 2), partial(ideal, 20))
    found = simulate([job, job._replace(arrival_s=3)], [2], Rules(poll_s=10))
    assert [life.start_s for life in found.lives] == [1, 11]
    found = simulate([job, job._replace(arrival_s=3)], [4], Rules(poll_s=10))
    assert [life.start_s for life in found.lives] == [1, 11]


def test_passes_that_settle_let_a_placed_job_grow_at_once() -> None:
    job = ScaledJob(0, SizeBounds(2, 8), partial(ideal, 40))
    assert simulate([job], [8], Rules()).lives[0].end_s == 20
    assert simulate([job], [8], Rules(settles=True)).lives[0].end_s == 5


def test_a_job_takes_the_sizes_that_it_lists() -> None:
    sizes = (3, 5, 6)
    job = SizedJob(3, 3, 6)
    assert [taken(sizes, job, offered) for offered in (1, 2, 3, 9)] == [0, 2, 3, 3]
    job = SizedJob(6, 3, 6)
    assert [given_back(sizes, job, asked) for asked in (1, 2, 3, 4)] == [1, 3, 3, 3]


def test_a_faster_site_does_more_work() -> None:
    job = ScaledJob(0, SizeBounds(2, 4), partial(ideal, 40))
    rules = Rules(precedence="pwa", resize_s=3)
    (life,) = simulate([job], [4], rules, [2.0]).lives
    assert life.end_s == 3 + 10 / 2
