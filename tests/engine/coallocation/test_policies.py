"""The placement policies of chapter 2 of the thesis, against its example and all placements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine.jobs.coallocation import (
    IdleProcessors,
    NodeLinks,
    Placement,
    PlacementRequest,
    cluster_minimization,
    communication_aware,
    place,
    worst_fit,
)

IDLE = st.lists(st.integers(0, 9), min_size=1, max_size=4)
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def non_fixed(*sizes: int) -> PlacementRequest:
    return PlacementRequest(sum(sizes), (tuple((size, None) for size in sizes),))


def total(placement: Placement) -> int:
    return sum(size for _, size in placement)


def test_figure_2_2() -> None:
    """Three clusters with 16 idle processors each, and a job of 24."""
    idle = IdleProcessors([16, 16, 16])
    assert place(non_fixed(8, 8, 8), idle, "wf") == ((0, 8), (1, 8), (2, 8))
    assert place(PlacementRequest(24), idle, "fcm") == ((0, 16), (1, 8))


def test_worst_fit_places_the_largest_component_first_where_most_is_idle() -> None:
    assert worst_fit([2, 9, 4], [5, 10, 7]) == ((0, 2), (1, 9), (2, 4))


def test_worst_fit_puts_components_on_the_same_site_if_it_still_has_the_most() -> None:
    assert worst_fit([4, 4], [20, 6, 6]) == ((0, 4), (0, 4))


def test_worst_fit_fails_when_the_site_with_most_idle_is_too_small() -> None:
    assert worst_fit([8, 8], [9, 7]) is None


@given(SIZES, IDLE)
def test_worst_fit_follows_the_rule_of_the_thesis_step_by_step(
    sizes: list[int], idle: list[int]
) -> None:
    remaining, expected = dict(enumerate(idle)), []
    for size in sorted(sizes, reverse=True):
        site = min(remaining, key=lambda s: (-remaining[s], s))
        expected.append((site, size))
        remaining[site] -= size
        if remaining[site] < 0:
            assert worst_fit(sizes, idle) is None
            return
    placed = worst_fit(sizes, idle)
    assert placed is not None
    assert [size for _, size in placed] == sizes
    assert sorted(placed) == sorted(expected)


def all_divisions(request: PlacementRequest, idle: list[int]) -> Iterator[Placement]:
    """All ways to divide a flexible request over different sites, within its bounds."""
    usable = [count - count % request.unit for count in idle]
    most = len(idle) if request.most is None else request.most
    for count in range(1, min(most, len(idle)) + 1):
        for sites in combinations(range(len(idle)), count):
            choices = (
                range(max(request.unit, request.least), usable[site] + 1, request.unit)
                for site in sites
            )
            for sizes in product(*choices):
                if sum(sizes) == request.size:
                    yield tuple(zip(sites, sizes, strict=True))


@st.composite
def flexible(draw: st.DrawFn) -> PlacementRequest:
    unit, size = draw(st.integers(1, 2)), draw(st.integers(1, 9))
    return PlacementRequest(
        unit * size,
        most=draw(st.none() | st.integers(1, 4)),
        least=unit * draw(st.integers(1, min(3, size))),
        unit=unit,
        sites=draw(st.sampled_from([-1, -1, 0b1011, 0b10])),
    )


@pytest.mark.slow
@given(flexible(), IDLE)
def test_fcm_places_whenever_that_is_possible_on_as_few_sites(
    request: PlacementRequest, idle: list[int]
) -> None:
    allowed = [count if request.sites >> site & 1 else 0 for site, count in enumerate(idle)]
    possible = list(all_divisions(request, allowed))
    placed = cluster_minimization(request, IdleProcessors(idle))
    if placed is None:
        assert not possible
    else:
        assert tuple(sorted(placed)) in possible
        assert len(placed) == min(map(len, possible))


@given(st.integers(1, 30), IDLE)
def test_fcm_without_bounds_fills_sites_by_decreasing_idle(size: int, idle: list[int]) -> None:
    placed = cluster_minimization(PlacementRequest(size), IdleProcessors(idle))
    if placed is None:
        assert sum(idle) < size
        return
    order = sorted(range(len(idle)), key=lambda site: -idle[site])
    assert [site for site, _ in placed] == order[: len(placed)]
    assert all(count == idle[site] for site, count in placed[:-1])
    assert total(placed) == size


LATENCIES = [[0.1, 5.0, 9.0, 2.0], [5.0, 0.2, 1.0, 8.0], [9.0, 1.0, 0.3, 4.0], [2.0, 8.0, 4.0, 0.4]]
"""Own latency 0.1, 0.2, 0.3, 0.4; means 4.025, 3.55, 3.575, 3.6."""


@given(flexible(), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_ca_places_whenever_that_is_possible(request: PlacementRequest, idle: list[int]) -> None:
    allowed = [count if request.sites >> site & 1 else 0 for site, count in enumerate(idle)]
    possible = list(all_divisions(request, allowed))
    links = NodeLinks(LATENCIES, "latency")
    placed = communication_aware(request, IdleProcessors(idle), links)
    whole = [site for site in links.by_own if allowed[site] >= request.size]
    if whole:
        assert placed == ((whole[0], request.size),)
    elif placed is None:
        assert not possible
    else:
        assert tuple(sorted(placed)) in possible


def test_ca_takes_the_site_with_the_lowest_latency_within_for_a_whole_job() -> None:
    links = NodeLinks(LATENCIES, "latency")
    assert communication_aware(PlacementRequest(6), IdleProcessors([5, 6, 16, 16]), links) == (
        (1, 6),
    )


def test_ca_fills_sites_by_increasing_mean_latency() -> None:
    links = NodeLinks(LATENCIES, "latency")
    assert links.by_mean == (1, 2, 3, 0)
    assert communication_aware(PlacementRequest(20), IdleProcessors([16, 8, 4, 16]), links) == (
        (1, 8), (2, 4), (3, 8),
    )  # fmt: skip


def test_ca_with_bandwidth_prefers_wide_links() -> None:
    links = NodeLinks([[500.0, 10.0], [10.0, 900.0]], "bandwidth")
    assert communication_aware(PlacementRequest(4), IdleProcessors([8, 8]), links) == ((1, 4),)
    assert links.by_mean == (1, 0)


def test_ca_with_a_maximum_drops_the_smallest_near_site() -> None:
    links = NodeLinks(LATENCIES, "latency")
    request = PlacementRequest(20, most=2)
    assert communication_aware(request, IdleProcessors([16, 8, 4, 15]), links) == ((1, 8), (3, 12))


def test_latencies_of_unmeasured_pairs_do_not_count() -> None:
    """As between Delft and Leiden in Table 2.1."""
    links = NodeLinks([[0.03, 1.0, 0.6], [1.0, 0.05, None], [0.6, None, 0.03]], "latency")
    assert links.by_mean == (2, 1, 0)
    with pytest.raises(ValueError, match="link within site 0"):
        NodeLinks([[None]], "latency")


@pytest.mark.parametrize("policy", ["wf", "fcm", "ca"])
def test_fixed_requests_go_where_they_say(policy: str) -> None:
    request = PlacementRequest(12, (((8, 1), (4, 0)),))
    assert place(request, IdleProcessors([4, 8]), policy) == ((1, 8), (0, 4))
    assert place(request, IdleProcessors([16, 7]), policy) is None
    both_at_one = PlacementRequest(12, (((8, 1), (4, 1)),))
    assert place(both_at_one, IdleProcessors([16, 11]), policy) is None


def test_splits_are_tried_in_the_order_of_preference() -> None:
    splits = tuple(tuple((size, None) for size in sizes) for sizes in ([24], [12, 12], [8, 8, 8]))
    request = PlacementRequest(24, splits)
    assert place(request, IdleProcessors([24, 20]), "wf") == ((0, 24),)
    assert place(request, IdleProcessors([23, 20]), "wf") == ((0, 12), (1, 12))
    assert place(request, IdleProcessors([11, 9, 8]), "wf") == ((0, 8), (1, 8), (2, 8))


@pytest.mark.parametrize(("policy", "message"), [("wf", "divides no flexible"), ("ca", "no links")])
def test_a_policy_that_cannot_divide_a_job_refuses_it(policy: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place(PlacementRequest(4), IdleProcessors([4]), policy)


@given(st.permutations([3, 7, 7, 1]))
def test_ties_follow_the_catalog(idle: list[int]) -> None:
    order = min(permutations(range(4)), key=lambda sites: [(-idle[s], s) for s in sites])
    placed = cluster_minimization(PlacementRequest(18), IdleProcessors(idle))
    assert placed is not None
    assert [site for site, _ in placed] == list(order)
