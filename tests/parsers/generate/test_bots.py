"""Generated workloads of bags have what the model's tables say."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from random import Random
from statistics import correlation, fmean, median, pvariance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.amounts import examples
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.parsers.generate.bots import (
    LONGEST_S,
    DailyCycle,
    at_load,
    generate_workload,
    row_called,
    spread,
    with_estimates,
)
from wfrun.parsers.generate.bots_model import (
    ROWS,
    Fit,
    FittedLogNormal,
    FittedNormal,
    Gamma,
    Weibull,
)
from wfrun.parsers.generate.bots_statistics import statistics_of

SITES = [SiteSpec(f"c{number}", 100 + 10 * number, 1 + number / 10) for number in range(5)]
SEVERAL = [Weibull(1.76, 2.11), FittedNormal(2.73, 6.1), FittedLogNormal(1.82, 0.34),
           Gamma(2.47, 1.64), Gamma(2.62, 0.13), Gamma(1.79, 0.29)]  # fmt: skip


@pytest.fixture(scope="module")
def average() -> BotWorkload:
    return generate_workload(SITES, tasks=20_000, seed=3)


# The fits


@pytest.mark.parametrize("fit", SEVERAL, ids=str)
def test_quantiles_are_the_inverse_of_the_distribution_function(fit: Fit) -> None:
    for probability in (1e-6, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1 - 1e-6):
        assert fit.cdf(fit.quantile(probability)) == pytest.approx(probability, abs=1e-5)


def test_moments_are_those_of_the_parameters() -> None:
    """By integrating over the quantiles; the parameters are shape and scale, shape and rate, …"""
    middles = [(i + 0.5) / 20_000 for i in range(20_000)]

    def mean(fit: Fit) -> float:
        return fmean(map(fit.quantile, middles))

    assert mean(Weibull(1.76, 2.11)) == pytest.approx(2.11 * math.gamma(1 + 1 / 1.76), rel=1e-3)
    assert mean(Gamma(2.62, 0.13)) == pytest.approx(2.62 / 0.13, rel=1e-3)
    assert mean(FittedNormal(2.73, 6.1)) == pytest.approx(6.1, rel=1e-3)
    assert mean(FittedLogNormal(1.82, 0.34)) == pytest.approx(
        math.exp(1.82 + 0.34**2 / 2), rel=1e-3
    )


def test_the_gamma_distribution_of_whole_shape_is_that_of_poisson_waits() -> None:
    fit = Gamma(2.0, 0.5)
    for value in (0.1, 1.0, 4.0, 30.0):
        x = value * 0.5
        assert fit.cdf(value) == pytest.approx(1 - math.exp(-x) * (1 + x), abs=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_parameters_are_in_the_order_that_is_plausible(name: str) -> None:
    """What the docstring of the model says of the table."""
    row = ROWS[name]
    assert 7 < row.cycle.quantile(0.5) / 2 < 14.5  # o'clock
    assert 60 < 2 ** row.gap.quantile(0.5) < 300  # s
    assert 2 < 2 ** row.size.quantile(0.5) < 7
    assert 10 < 2 ** row.runtime.quantile(0.5) < 600  # s


@pytest.mark.slow
def test_the_average_bag_has_five_tasks() -> None:
    """Section 5.2.4: the average is between 5 and 50."""
    sizes = generate_workload(SITES, tasks=40_000, seed=1).bags
    assert 5 < 40_000 / len(sizes) < 5.6


# Whole workloads


@pytest.mark.slow
@pytest.mark.parametrize("name", ["das-2", "grid5000", "average"])
def test_workloads_have_the_distributions_of_their_row(name: str) -> None:
    """Within the distances that so many bags of so few applications can have."""
    sites = [SiteSpec(f"s{number}", 10) for number in range(10)]
    workload = generate_workload(sites, row=name, tasks=40_000, seed=2)
    found = {each.name: each for each in statistics_of(workload, ROWS[name]).characteristics}
    assert found["size"].distance < 1.95 / found["size"].values ** 0.5  # what 1 of 1000 exceed
    assert found["ART"].distance < 0.06
    assert found["RTV"].distance < 0.12
    gaps = found["gap at peak"]  # shorter in the morning, when the cycle is above its mean
    assert gaps.distance < 0.03 + 1.95 / gaps.values**0.5
    for each in found.values():
        assert each.values > 900, each.name


@pytest.mark.slow
def test_users_have_the_shares_of_zipf() -> None:
    row = ROWS["average"]
    workload = generate_workload([SiteSpec("one", 1000)], tasks=40_000, seed=5)
    ranks = [int(bag.user.rpartition(".u")[2]) for bag in workload.bags]
    shares = row.users.shares()
    assert len(shares) == 368
    for rank in (1, 2, 3, 10):
        assert ranks.count(rank) / len(ranks) == pytest.approx(shares[rank - 1], abs=0.012)
    assert shares[0] / shares[9] == pytest.approx(10**1.31)
    assert statistics_of(workload, row).alpha == pytest.approx(1.31, abs=0.05)


@pytest.mark.slow
def test_arrivals_follow_the_day(average: BotWorkload) -> None:
    """More in an hour of the peak than in one of the night, as the fit has it."""
    cycle = ROWS["average"].cycle
    workload = generate_workload([SiteSpec("one", 1000)], tasks=40_000, seed=6)
    days = int(workload.span_s / workload.pace / 86400)
    assert days >= 14
    slots = [0] * 48
    for bag in workload.bags:
        at_s = workload.midnight_s + bag.arrival_s / workload.pace
        if at_s < days * 86400:
            slots[int(at_s % 86400 / 1800)] += 1
    for start in range(0, 48, 8):
        expected = (cycle.cdf(start + 8) - cycle.cdf(start)) / cycle.cdf(48)
        assert sum(slots[start : start + 8]) / sum(slots) == pytest.approx(expected, abs=0.02)


def test_time_is_changed_and_no_arrival_lost() -> None:
    cycle = DailyCycle(ROWS["average"].cycle)
    peak = sum(cycle.rates[16:34]) / 18
    assert peak == pytest.approx(1)
    times = [cycle.time_s(passed * 997.0) for passed in range(300)]
    assert times == sorted(times)
    assert cycle.time_s(0) == 0
    assert cycle.time_s(cycle.ends_s[-1]) == 86400
    at_eight, at_five = cycle.ends_s[16], cycle.ends_s[34]
    assert cycle.time_s(at_five) - cycle.time_s(at_eight) == pytest.approx(9 * 3600)
    assert at_five - at_eight == pytest.approx(9 * 3600)


@pytest.mark.cases
@pytest.mark.parametrize("load", [0.2, 0.6, 0.95])
def test_the_load_is_exact_and_bags_are_the_same_at_all_loads(
    load: float, average: BotWorkload
) -> None:
    workload = generate_workload(SITES, load=load, tasks=20_000, seed=3)
    work_s = sum(sum(bag.runtime_s) for bag in workload.bags)
    possible = sum(site.slots * site.speed_ratio for site in SITES)
    span_s = workload.bags[-1].arrival_s - workload.bags[0].arrival_s
    assert work_s / (possible * span_s) == pytest.approx(load, rel=1e-4)
    assert workload.load == pytest.approx(load, rel=1e-9)
    assert workload.tasks == 20_000
    assert [bag.runtime_s for bag in workload.bags] == [bag.runtime_s for bag in average.bags]


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    one, two = (generate_workload(SITES, tasks=500, seed=8, inaccuracy=40) for _ in range(2))
    assert one == two
    assert one.bags != generate_workload(SITES, tasks=500, seed=9, inaccuracy=40).bags


def test_bags_are_in_order_and_of_their_clusters_users(average: BotWorkload) -> None:
    arrivals = [bag.arrival_s for bag in average.bags]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0
    assert {bag.cluster for bag in average.bags} == set(range(5))
    for bag in average.bags:
        assert bag.user.startswith(f"{average.clusters[bag.cluster]}.u")
        assert bag.application.startswith(f"{bag.user}.a")
        assert min(bag.runtime_s) >= 1
        assert max(bag.runtime_s) <= LONGEST_S
        assert bag.estimate_s is bag.runtime_s


@pytest.mark.parametrize("likeness", [0.0, 0.5])
def test_bags_of_one_application_are_as_alike_as_is_asked(likeness: float) -> None:
    """Predictions from history need likeness."""
    workload = generate_workload(SITES, tasks=20_000, seed=3, likeness=likeness)
    latest: dict[str, float] = {}
    before, after = [], []
    for bag in workload.bags:
        value = math.log2(fmean(bag.runtime_s))
        if bag.application in latest:
            before.append(latest[bag.application])
            after.append(value)
        latest[bag.application] = value
    assert correlation(before, after) == pytest.approx(likeness, abs=0.1)


@pytest.mark.slow
def test_streams_may_be_in_proportion_to_the_slots() -> None:
    sites = [SiteSpec("small", 100), SiteSpec("large", 300)]
    equal, slots = (
        Counter(bag.cluster for bag in generate_workload(sites, tasks=20_000, streams=way).bags)
        for way in ("equal", "slots")
    )
    assert equal[1] / equal[0] == pytest.approx(1, rel=0.1)
    assert slots[1] / slots[0] == pytest.approx(3, rel=0.1)


def test_what_is_cut_is_told() -> None:
    workload = generate_workload(SITES, row="auvergrid", tasks=5_000)
    cut = sum(1 for bag in workload.bags for x in bag.runtime_s if x == LONGEST_S)
    assert workload.remarks[0].startswith(f"{cut} of 5000 tasks are cut to 6 h, ")


# Run times within a bag


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(2, 1e5), st.floats(0.01, 0.8), st.integers(2, 60), st.integers(0, 2**32))
def test_a_bag_has_its_mean_and_its_variance(
    mean_s: float, share: float, size: int, seed: int
) -> None:
    """Also near the largest variance that positive numbers can have."""
    variance = share * min(size - 1, 3) * (mean_s - 1) ** 2
    times = spread(mean_s, variance, size, Random(seed))
    assert len(times) == size
    assert min(times) >= 1
    assert fmean(times) == pytest.approx(mean_s, rel=1e-9)
    assert pvariance(times) <= variance * 1.01
    if share < 0.3:
        assert pvariance(times) == pytest.approx(variance, rel=0.01)


@pytest.mark.parametrize(("mean_s", "size"), [(0.2, 4), (1.0, 1), (1.0, 3)])
def test_no_task_is_shorter_than_a_second(mean_s: float, size: int) -> None:
    assert list(spread(mean_s, 100.0, size, Random(1))) == [1.0] * size


def test_a_single_task_takes_the_mean() -> None:
    assert list(spread(77.5, 1e6, 1, Random(1))) == [77.5]


def test_a_variance_beyond_reach_is_the_largest_that_there_is() -> None:
    times = spread(100.0, 1e12, 4, Random(1))
    assert fmean(times) == pytest.approx(100)
    assert max(times) > 300


# Variations of sections 5.4.2 and 5.4.3


def test_all_bags_at_once() -> None:
    workload = generate_workload(SITES, tasks=2_000, arrival="at-once")
    assert {bag.arrival_s for bag in workload.bags} == {0}
    assert workload.load == pytest.approx(0.6)


def test_bags_at_equal_distances() -> None:
    like = generate_workload(SITES, tasks=2_000)
    workload = generate_workload(SITES, tasks=2_000, arrival="even")
    arrivals = [bag.arrival_s for bag in workload.bags]
    gaps = [after - before for before, after in itertools.pairwise(arrivals)]
    assert max(gaps) - min(gaps) < 0.01
    assert workload.span_s == like.span_s
    assert [bag.runtime_s for bag in workload.bags] == [bag.runtime_s for bag in like.bags]


@pytest.mark.parametrize("size", [10, 25, 50])
def test_the_median_size_is_what_was_asked_for(size: int) -> None:
    workload = generate_workload(SITES, tasks=40_000, median_size=size)
    assert median(map(len, workload.bags)) == pytest.approx(size, rel=0.15)


@pytest.mark.parametrize("mean_s", [2.0, 180.0, 10_800.0])
def test_the_mean_run_time_is_what_was_asked_for(mean_s: float) -> None:
    workload = generate_workload(SITES, tasks=5_000, mean_runtime_s=mean_s)
    assert workload.work_s / workload.tasks == pytest.approx(mean_s, rel=0.01)
    assert workload.load == pytest.approx(0.6)
    assert min(min(bag.runtime_s) for bag in workload.bags) >= 1


@pytest.mark.parametrize("inaccuracy", [0, 50, 10_000])
def test_estimates_are_wrong_by_so_much(inaccuracy: float, average: BotWorkload) -> None:
    workload = with_estimates(average, inaccuracy, seed=1)
    pairs = [
        (runtime_s, estimate_s)
        for bag in workload.bags
        for runtime_s, estimate_s in zip(bag.runtime_s, bag.estimate_s, strict=True)
    ]
    errors = [100 * (estimate_s / runtime_s - 1) for runtime_s, estimate_s in pairs]
    assert min(estimate_s for _, estimate_s in pairs) >= 1
    assert min(errors) >= -101
    assert max(errors) == pytest.approx(inaccuracy, rel=0.03)
    assert [bag.runtime_s for bag in workload.bags] == [bag.runtime_s for bag in average.bags]
    if inaccuracy == 50:  # none is cut at 1 s but the shortest
        assert fmean(errors) == pytest.approx(0, abs=1)


# What cannot be


@pytest.mark.cases
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"row": "avrage"}, "'avrage'"),
        ({"load": 0.0}, "load of 0.0"),
        ({"load": math.nan}, "load of nan"),
        ({"tasks": 0}, "0 tasks"),
        ({"tasks": 1}, "a single bag"),
        ({"inaccuracy": -1.0}, "inaccurate by -1.0%"),
        ({"inaccuracy": math.inf}, "inaccurate by inf%"),
        ({"tasks": 10**9}, "1000000000 tasks"),
        ({"median_size": 0.5}, "median of 0.5"),
        ({"tasks": 50, "median_size": 1e300}, "median of 1e\\+300"),
        ({"mean_runtime_s": 0.1}, "0.1 s"),
        ({"mean_runtime_s": 1e300}, "1e\\+300 s"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidError, match=told) as error:
        generate_workload(SITES, **asked)  # type: ignore[arg-type]
    assert error.value.hint


def test_without_clusters_there_is_no_workload() -> None:
    with pytest.raises(InvalidError, match="needs a cluster"):
        generate_workload([])


def test_a_row_that_is_nearly_right_is_proposed() -> None:
    assert row_called("das-2") is ROWS["das-2"]
    with pytest.raises(InvalidError) as error:
        row_called("DAS2")
    assert "Did you mean 'das-2'?" in (error.value.hint or "")


def test_a_workload_of_bags_at_once_has_no_other_load() -> None:
    workload = generate_workload(SITES, tasks=100)
    with pytest.raises(InvalidError, match="a load of -1"):
        at_load(workload, -1)
