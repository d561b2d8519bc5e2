"""Simulated transfers against an exact solver in rational numbers, and against sums by hand."""

from __future__ import annotations

import time
from fractions import Fraction
from math import inf
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.amounts import examples
from wfrun.engine.errors import InvalidError
from wfrun.engine.files.network import DEFAULT_BANDWIDTH_BYTES_PER_S
from wfrun.engine.model import ORIGIN, LinkSpec
from wfrun.sites.simulated.network import SimNetwork

NAMES = ["alpha", "beta", "gamma"]
PLACES = [0, 1, 2, ORIGIN]
PAIRS = [(s, d) for s in PLACES for d in PLACES if s != d]

Transfer = tuple[int, int, int, Fraction]
"""(source, destination, bytes, start in seconds)"""


class Case:
    """A network and what is transferred on it."""

    def __init__(
        self,
        bandwidths: dict[tuple[int, int], int | None],
        latencies: dict[tuple[int, int], Fraction],
        heads: dict[int, int],
        transfers: list[Transfer],
    ) -> None:
        self.bandwidths = bandwidths
        self.latencies = latencies
        self.heads = heads
        self.transfers = transfers

    def __repr__(self) -> str:
        return f"Case({self.bandwidths}, {self.latencies}, {self.heads}, {self.transfers})"

    def network(self) -> SimNetwork[int]:
        names = [*NAMES, "origin"]
        links = [
            LinkSpec(names[s], names[d], self.bandwidths[s, d], float(self.latencies[s, d]))
            for s, d in PAIRS
        ]
        heads = {names[site]: float(capacity) for site, capacity in self.heads.items()}
        return SimNetwork(NAMES, links, head_bytes_per_s=heads)

    def resources(self, number: int) -> list[tuple[tuple[int, ...], int]]:
        """(name, capacity) of the bounded resources that a transfer shares."""
        source, destination, _, _ = self.transfers[number]
        bandwidth = self.bandwidths[source, destination]
        shared = [((source, destination), bandwidth)] if bandwidth is not None else []
        return shared + [
            ((site,), self.heads[site]) for site in (source, destination) if site in self.heads
        ]


@st.composite
def cases(draw: st.DrawFn, latencies: bool = True) -> Case:
    bandwidth = st.sampled_from([None, 1, 2, 3, 5, 7, 10])
    seconds = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(3), Fraction(10)])
    return Case(
        {pair: draw(bandwidth) for pair in PAIRS},
        {pair: draw(seconds) if latencies else Fraction(0) for pair in PAIRS},
        draw(st.dictionaries(st.sampled_from(PLACES), st.sampled_from([1, 2, 3, 4, 9]))),
        draw(
            st.lists(
                st.tuples(
                    st.sampled_from(PLACES[:3]),
                    st.sampled_from(PLACES),
                    st.integers(0, 40),
                    st.integers(0, 12).map(lambda n: Fraction(n, 2)),
                ),
                max_size=12,
            )
        ),
    )


def run(case: Case, order: list[int] | None = None) -> dict[int, float]:
    """When each transfer ends; started in ``order`` at equal times."""
    network = case.network()
    order = order or list(range(len(case.transfers)))
    ends: dict[int, float] = {}
    for number in sorted(order, key=lambda n: case.transfers[n][3]):
        source, destination, size, start = case.transfers[number]
        drain(network, ends, until_s=float(start))
        network.start(number, source, destination, size, float(start))
    drain(network, ends)
    return ends


def drain(
    network: SimNetwork[int], ends: dict[int, float], until_s: float = float("inf")
) -> dict[int, float]:
    """Advance from change to change, and note when what ended."""
    while (at_s := network.next_change_s) < inf and at_s <= until_s:
        for key in network.advance(at_s):
            assert key not in ends, "told twice"
            ends[key] = at_s
    return ends


# The exact solver: every transfer by itself, rational numbers, nothing clever.


def exact_rates(case: Case, active: list[int]) -> dict[int, Fraction]:
    """Progressive filling: raise all rates alike, freeze what uses a full resource, repeat.
    Transfers without a bounded resource are left out."""
    rates = {n: Fraction(0) for n in active if case.resources(n)}
    growing = set(rates)
    while growing:
        used: dict[tuple[int, ...], Fraction] = {}
        capacity = {}
        users: dict[tuple[int, ...], set[int]] = {}
        for n in rates:
            for name, bound in case.resources(n):
                used[name] = used.get(name, Fraction(0)) + rates[n]
                capacity[name] = bound
                if n in growing:
                    users.setdefault(name, set()).add(n)
        step = min((capacity[name] - used[name]) / len(users[name]) for name in users)
        for n in growing:
            rates[n] += step
        for name, who in users.items():
            if used[name] + step * len(who) == capacity[name]:
                growing -= who
    return rates


def exact_ends(case: Case) -> dict[int, Fraction]:
    arrivals = {}
    for n, (source, destination, _, start) in enumerate(case.transfers):
        latency = Fraction(0) if source == destination else case.latencies[source, destination]
        arrivals[n] = start + latency
    left = {n: Fraction(size) for n, (_, _, size, _) in enumerate(case.transfers)}
    ends: dict[int, Fraction] = {}
    now = Fraction(0)
    while len(ends) < len(left):
        active = [n for n in left if n not in ends and arrivals[n] <= now]
        for n in active:
            source, destination, _, _ = case.transfers[n]
            if left[n] == 0 or source == destination or not case.resources(n):
                ends[n] = now
        active = [n for n in active if n not in ends]
        rates = exact_rates(case, active)
        changes = [now + left[n] / rates[n] for n in active]
        changes += [at for n, at in arrivals.items() if at > now]
        if not changes:
            continue
        after = min(changes)
        for n in active:
            left[n] -= rates[n] * (after - now)
        now = after
    return ends


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(cases())
def test_transfers_end_when_the_exact_solver_says(case: Case) -> None:
    ends, exact = run(case), exact_ends(case)
    assert ends.keys() == exact.keys()
    for number, end in exact.items():
        assert ends[number] == pytest.approx(float(end), rel=1e-9)


@settings(max_examples=examples(100), deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_starts_at_one_time_does_not_matter(case: Case, random: Random) -> None:
    order = list(range(len(case.transfers)))
    random.shuffle(order)
    assert run(case, order) == run(case)  # bit for bit


@settings(max_examples=examples(100), deadline=None)
@given(cases(), st.lists(st.floats(0, 30), max_size=8))
def test_looking_in_between_changes_nothing(case: Case, looks: list[float]) -> None:
    network = case.network()
    todo = sorted(range(len(case.transfers)), key=lambda n: case.transfers[n][3])
    finished: list[int] = []
    for look_s in [*sorted(looks), 1e6]:
        while todo and case.transfers[todo[0]][3] <= look_s:
            number = todo.pop(0)
            source, destination, size, start = case.transfers[number]
            finished += network.advance(float(start))
            network.start(number, source, destination, size, float(start))
        finished += network.advance(look_s)
    ends = run(case)
    assert sorted(finished) == sorted(ends)
    assert [ends[n] for n in finished] == sorted(ends.values())
    assert network.next_change_s == inf


@settings(max_examples=examples(200), deadline=None)
@given(cases(latencies=False))
def test_bytes_are_conserved_and_no_capacity_is_exceeded(case: Case) -> None:
    network = case.network()
    names = {n: case.transfers[n] for n in range(len(case.transfers))}
    for number, (source, destination, size, _) in names.items():
        network.start(number, source, destination, size, 0.0)
    carried = dict.fromkeys(PAIRS, 0.0)
    now_s = 0.0
    while (at_s := network.next_change_s) < inf:
        rates = {pair: network.throughput_bytes_per_s(*pair) for pair in PAIRS}
        for pair in PAIRS:
            bandwidth = case.bandwidths[pair]
            assert bandwidth is None or rates[pair] <= bandwidth * (1 + 1e-12)
            carried[pair] += rates[pair] * (at_s - now_s)
        for site, capacity in case.heads.items():
            passing = sum(rate for pair, rate in rates.items() if site in pair)
            assert passing <= capacity * (1 + 1e-12)
        now_s = at_s
        network.advance(at_s)
    for pair in PAIRS:
        sizes = sum(size for s, d, size, _ in names.values() if (s, d) == pair)
        bounded = case.bandwidths[pair] is not None or set(pair) & case.heads.keys()
        assert carried[pair] == pytest.approx(sizes if bounded else 0, rel=1e-9)


# By hand


def link(bandwidth: float | None = 10.0, latency_s: float = 0.0) -> list[LinkSpec]:
    return [LinkSpec("alpha", "beta", bandwidth, latency_s)]


def test_two_transfers_share_a_link_while_both_are_there() -> None:
    network: SimNetwork[str] = SimNetwork(NAMES, link(10, latency_s=1))
    network.start("long", 0, 1, 100, 0.0)
    assert network.next_change_s == 1.0  # the latency is over
    network.start("short", 0, 1, 20, 4.0)
    # long alone: 1 to 5, 40 bytes; both: 4 s for 20 bytes each; long alone: 40 bytes in 4 s
    assert network.advance(8.9) == []
    assert network.advance(9.0) == ["short"]
    assert network.next_change_s == 13.0
    assert network.advance(100.0) == ["long"]
    assert network.next_change_s == inf


def test_all_transfers_end_when_time_passes_without_an_end() -> None:
    network: SimNetwork[str] = SimNetwork(NAMES, link(10, latency_s=1))
    network.start("long", 0, 1, 100, 0.0)
    network.start("short", 0, 1, 20, 4.0)
    assert network.advance(inf) == ["short", "long"]
    assert network.next_change_s == inf


def test_a_head_node_is_shared_by_what_goes_in_and_out() -> None:
    links = [LinkSpec(a, b, 10) for a in NAMES for b in NAMES if a != b]
    network: SimNetwork[str] = SimNetwork(NAMES, links, head_bytes_per_s={"alpha": 12})
    network.start("out", 0, 1, 60, 0.0)
    network.start("in", 2, 0, 60, 0.0)
    network.start("elsewhere", 1, 2, 60, 0.0)
    assert network.throughput_bytes_per_s(0, 1) == 6
    assert network.throughput_bytes_per_s(2, 0) == 6
    assert network.throughput_bytes_per_s(1, 2) == 10
    assert network.advance(6.0) == ["elsewhere"]
    assert network.advance(10.0) == ["out", "in"]


def test_what_a_slow_link_leaves_goes_to_the_others() -> None:
    links = [LinkSpec("alpha", "beta", 2), LinkSpec("alpha", "gamma", 10)]
    network: SimNetwork[str] = SimNetwork(NAMES, links, head_bytes_per_s={"alpha": 10})
    network.start("slow", 0, 1, 20, 0.0)
    network.start("fast", 0, 2, 80, 0.0)
    assert network.throughput_bytes_per_s(0, 2) == 8
    assert network.advance(10.0) == ["slow", "fast"]


def test_both_directions_have_a_link_of_their_own() -> None:
    links = [LinkSpec("alpha", "beta", 10), LinkSpec("beta", "alpha", 5)]
    network: SimNetwork[str] = SimNetwork(NAMES, links)
    network.start("there", 0, 1, 50, 0.0)
    network.start("back", 1, 0, 50, 0.0)
    assert network.advance(5.0) == ["there"]
    assert network.advance(10.0) == ["back"]


@pytest.mark.parametrize("sharing", ["max-min", "serial"])
def test_what_takes_no_time_ends_at_once(sharing: Literal["max-min", "serial"]) -> None:
    links = [*link(10, 2), LinkSpec("beta", "alpha")]
    network: SimNetwork[str] = SimNetwork(NAMES, links, sharing=sharing)
    network.start("empty", 0, 1, 0, 5.0)
    network.start("same site", 0, 0, 10**12, 5.0)
    network.start("no bound", 1, 0, 10**12, 5.0)
    assert network.next_change_s == 5.0
    assert sorted(network.advance(5.0)) == ["no bound", "same site"]
    assert network.next_change_s == 7.0
    assert network.advance(7.0) == ["empty"]  # the latency counts, once


def test_places_without_a_link_get_the_default_and_are_listed() -> None:
    network: SimNetwork[str] = SimNetwork(NAMES, link())
    network.start("x", 1, ORIGIN, 2 * DEFAULT_BANDWIDTH_BYTES_PER_S, 0.0)
    assert network.next_change_s == 2.0
    assert ("beta", "origin") in network.assumed
    assert ("alpha", "beta") not in network.assumed
    assert len(network.assumed) == 11


def test_serial_transfers_of_a_task_take_the_sum_of_size_over_bandwidth() -> None:
    """Thesis section 6.2.1: one after another, and no sharing with other tasks."""
    links = [LinkSpec("alpha", "beta", 10, 0.5), LinkSpec("gamma", "beta", 5)]
    network: SimNetwork[str] = SimNetwork(NAMES, links, sharing="serial")
    network.start("first", 0, 1, 100, 1.0, task=7)
    network.start("second", 2, 1, 100, 1.0, task=7)
    network.start("another's", 0, 1, 100, 1.0, task=8)
    network.start("nobody's", 0, 1, 100, 1.0)
    assert network.advance(11.5) == ["first", "another's", "nobody's"]
    assert network.next_change_s == 31.5
    assert network.advance(31.5) == ["second"]
    network.start("later", 0, 1, 10, 40.0, task=7)
    assert network.advance(41.5) == ["later"]


def test_serial_transfers_are_no_faster_than_a_head_node() -> None:
    network: SimNetwork[str] = SimNetwork(
        NAMES, link(10), head_bytes_per_s={"beta": 4}, sharing="serial"
    )
    network.start("x", 0, 1, 40, 0.0)
    assert network.next_change_s == 10.0


def test_100_000_transfers_of_equal_size_on_one_link() -> None:
    network: SimNetwork[int] = SimNetwork(NAMES, link(1e6))
    begin_s = time.process_time()
    for number in range(100_000):
        network.start(number, 0, 1, 1000, 0.0)
    assert network.next_change_s == pytest.approx(100.0)
    assert len(network.advance(101.0)) == 100_000
    assert time.process_time() - begin_s < 10  # 0.5 s without other load


def test_many_transfers_under_contention_take_as_long_as_the_head_node_needs() -> None:
    rng = Random(1)
    links = [LinkSpec(a, b, 50, 0.1) for a in NAMES for b in NAMES if a != b]
    network: SimNetwork[int] = SimNetwork(NAMES, links, head_bytes_per_s={"alpha": 10})
    sizes = [rng.randrange(1, 100) for _ in range(3000)]
    for number, size in enumerate(sizes):
        network.start(number, 0, 1 + number % 2, size, number * 0.01)
    ends: dict[int, float] = {}
    drain(network, ends)
    assert max(ends.values()) == pytest.approx(0.1 + sum(sizes) / 10, rel=1e-9)


def test_mistakes_say_what_is_wrong() -> None:
    with pytest.raises(InvalidError, match=r"alpha to beta has a bandwidth of 0"):
        SimNetwork[int](NAMES, link(0))
    with pytest.raises(InvalidError, match=r"has a latency of -1"):
        SimNetwork[int](NAMES, link(1, -1))
    with pytest.raises(InvalidError, match=r"names 'delta'.*\n.*alpha, beta, gamma, origin"):
        SimNetwork[int](NAMES, [LinkSpec("alpha", "delta")])
    with pytest.raises(InvalidError, match=r"head node of beta has a bandwidth of -3"):
        SimNetwork[int](NAMES, [], head_bytes_per_s={"beta": -3})
    network: SimNetwork[int] = SimNetwork(NAMES, [])
    with pytest.raises(InvalidError, match=r"transfer 1 has a negative size"):
        network.start(1, 0, 1, -5, 0.0)
    network.advance(3.0)
    with pytest.raises(ValueError, match=r"back from 3\.0 s to 2\.0 s"):
        network.advance(2.0)


def test_serial_transfers_of_one_task_that_end_together() -> None:
    network: SimNetwork[str] = SimNetwork(["a", "b"], [LinkSpec("a", "b")], sharing="serial")
    for key in ("first", "second"):
        network.start(key, 0, 1, 10, 0.0, task="t")
    assert network.advance(1.0) == ["first", "second"]
    network.start("third", 0, 1, 10, 1.0, task="t")
    assert network.advance(2.0) == ["third"]
