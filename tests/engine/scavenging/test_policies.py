"""How owners share idle processors, against a second implementation written from the thesis."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from wfrun.engine.jobs.scavenging.idleness import Occupancy, ScavengeRules, scavengeable
from wfrun.engine.jobs.scavenging.policies import (
    Partition,
    all_sites,
    nothing,
    per_site,
    preempted,
)

NO_LIMIT = 10**6


def equal_parts(idle: int, held: Sequence[int]) -> list[int]:
    """⌊idle/owners⌋ each; then the remainder, to those who hold more than that already, and to
    those with the fewest. Without limits."""
    base, rest = divmod(idle, len(held))
    parts = [base] * len(held)
    keeping = [n for n, count in enumerate(held) if count > base]
    others = [n for n, count in enumerate(held) if count <= base]
    order = sorted(keeping, key=lambda n: held[n]) + sorted(others, key=lambda n: held[n])
    for n in order[:rest]:
        parts[n] += 1
    return parts


def sites_of(held: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    return list(zip(*held, strict=True))


@pytest.mark.parametrize("seed", range(100))
def test_each_site_is_divided_equally(seed: int) -> None:
    random = Random(seed)
    owners, sites = random.randint(1, 5), random.randint(1, 4)
    before = nothing(owners, sites)
    for _ in range(8):
        idle = [random.randint(0, 20) for _ in range(sites)]
        found = per_site(idle, before, [NO_LIMIT] * owners)
        for site, held in enumerate(sites_of(found.held)):
            was = sites_of(before.held)[site]
            assert sorted(held) == sorted(equal_parts(idle[site], was))
            assert sum(held) == idle[site]
            assert max(held) - min(held) <= 1
        assert per_site(idle, found, [NO_LIMIT] * owners) == found
        before = found


def test_nobody_shrinks_for_a_remainder() -> None:
    before = Partition(((3,), (2,), (2,)), ((0,),) * 3)
    assert per_site([7], before, [NO_LIMIT] * 3).held == ((3,), (2,), (2,))
    assert per_site([8], before, [NO_LIMIT] * 3).held == ((3,), (3,), (2,))


def test_the_remainder_goes_to_the_owner_with_the_fewest_there() -> None:
    before = Partition(((2,), (1,), (2,)), ((0,),) * 3)
    assert per_site([7], before, [NO_LIMIT] * 3).held == ((2,), (3,), (2,))


def test_a_new_owner_makes_the_others_shrink() -> None:
    before = Partition(((6, 3), (6, 3), (0, 0)), ((0, 0),) * 3)
    assert per_site([12, 6], before, [NO_LIMIT] * 3).held == ((4, 2),) * 3
    found = all_sites([12, 6], before, [NO_LIMIT] * 3, again=True)
    assert [sum(row) for row in found.held] == [6, 6, 6]
    unchanged = all_sites([12, 6], before, [NO_LIMIT] * 3)
    assert unchanged.held == before.held


def test_what_an_owner_does_not_want_is_divided_among_the_others() -> None:
    assert per_site([9], nothing(3, 1), [1, 100, 100]).held == ((1,), (4,), (4,))
    found = all_sites([9], nothing(3, 1), [1, 100, 100], again=True)
    assert found.held == ((1,), (4,), (4,))


class Grid:
    """Equipartition-All as the text tells it: who lost a processor gets it back."""

    def __init__(self, held: Sequence[Sequence[int]]) -> None:
        self.held = [list(row) for row in held]
        self.losers: list[list[int]] = [[] for _ in self.held[0]]

    def reclaim(self, site: int, count: int) -> None:
        while count > 0:
            holders = [n for n, row in enumerate(self.held) if row[site]]
            holders.sort(key=lambda n: (-sum(self.held[n]), -n))
            for n in holders[:count]:
                self.held[n][site] -= 1
                self.losers[site].append(n)
            count -= len(holders[:count])

    def release(self, site: int, count: int) -> None:
        for _ in range(count):
            counts = {n: self.losers[site].count(n) for n in self.losers[site]}
            first = min(counts, key=lambda n: (-counts[n], sum(self.held[n]), n))
            self.losers[site].remove(first)
            self.held[first][site] += 1


@pytest.mark.parametrize("seed", range(100))
def test_reclaimed_processors_return_to_those_who_lost_them(seed: int) -> None:
    random = Random(seed)
    owners, sites = random.randint(1, 4), random.randint(1, 4)
    idle = [random.randint(4, 15) for _ in range(sites)]
    state = all_sites(idle, nothing(owners, sites), [NO_LIMIT] * owners, again=True)
    first, grid, left = state, Grid(state.held), list(idle)
    for _ in range(20):
        site = random.randrange(sites)
        count = random.randint(0, idle[site])
        if count < left[site]:
            grid.reclaim(site, left[site] - count)
        else:
            grid.release(site, count - left[site])
        left[site] = count
        state = all_sites(left, state, [NO_LIMIT] * owners)
        assert [sum(row[n] for row in state.held) for n in range(sites)] == left
        assert [sum(row) for row in zip(*state.held, strict=True)] == left
        assert state.held == tuple(map(tuple, grid.held))
    state = all_sites(idle, state, [NO_LIMIT] * owners)
    assert state.held == first.held
    assert not any(map(any, state.lost))


@pytest.mark.parametrize("seed", range(100))
def test_all_sites_are_divided_equally_when_an_owner_comes(seed: int) -> None:
    random = Random(seed)
    owners, sites = random.randint(2, 5), random.randint(1, 4)
    idle = [random.randint(0, 20) for _ in range(sites)]
    before = all_sites(idle, nothing(owners, sites), [NO_LIMIT] * (owners - 1) + [0], again=True)
    assert sum(before.held[-1]) == 0
    found = all_sites(idle, before, [NO_LIMIT] * owners, again=True)
    totals = [sum(row) for row in found.held]
    assert sorted(totals) == sorted(equal_parts(sum(idle), [sum(row) for row in before.held]))
    for owner in range(owners - 1):  # Nobody moves from a site to another.
        assert all(a <= b for a, b in zip(found.held[owner], before.held[owner], strict=True))


def test_the_launcher_that_pulled_last_goes_first() -> None:
    assert preempted([5.0, 9.0, 1.0, 9.0], 3) == [1, 3, 0]
    assert preempted([5.0], 0) == []


def test_a_site_says_when_it_may_be_scavenged() -> None:
    use = Occupancy(processors=10, held=4)
    noon = 12 * 3600.0
    assert scavengeable(ScavengeRules(), use, noon) == 6
    assert scavengeable(ScavengeRules(most=2), use, noon) == 2
    assert scavengeable(ScavengeRules(idle_share=0.6), use, noon) == 6
    assert scavengeable(ScavengeRules(idle_share=0.7), use, noon) == 0
    night = ScavengeRules(hours=(22 * 3600.0, 6 * 3600.0))
    assert scavengeable(night, use, noon) == 0
    assert scavengeable(night, use, 23 * 3600.0) == 6
    assert scavengeable(night, use, 3600.0) == 6
    waiting = Occupancy(processors=10, held=4, waited_for=2)
    assert scavengeable(ScavengeRules(), waiting, noon) == 4
    assert scavengeable(ScavengeRules(queue_empty=True), waiting, noon) == 0
    wide = Occupancy(processors=10, held=4, waited_for=50)
    assert scavengeable(ScavengeRules(), wide, noon) == 0


def one_by_one(idle: Sequence[int], before: Partition, wanted: Sequence[int]) -> list[list[int]]:
    """PerSite with limits: each processor to one who wants it, who has the fewest at the site, who
    does not have to grow for it, who had the fewest there, who gets the fewest in all."""
    owners = range(len(wanted))
    held = [[0] * len(idle) for _ in owners]
    for site, count in enumerate(idle):
        for _ in range(count):
            takers = [n for n in owners if sum(held[n]) < wanted[n]]
            if takers:
                was = [row[site] for row in before.held]
                rank = {
                    n: (held[n][site], was[n] <= held[n][site], was[n], sum(held[n]), n)
                    for n in takers
                }
                held[min(takers, key=rank.__getitem__)][site] += 1
    return held


@pytest.mark.parametrize("seed", range(100))
def test_what_an_owner_does_not_want_goes_to_the_others(seed: int) -> None:
    random = Random(seed)
    owners, sites = random.randint(0, 4), random.randint(1, 4)
    before = nothing(owners, sites)
    for _ in range(6):
        idle = [random.randint(0, 25) for _ in range(sites)]
        wanted = [random.choice([0, 3, 17, NO_LIMIT]) for _ in range(owners)]
        found = per_site(idle, before, wanted)
        assert [list(row) for row in found.held] == one_by_one(idle, before, wanted)
        before = found
