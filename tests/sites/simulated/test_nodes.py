"""Which nodes of a simulated site run what: placements worked out by hand, and any others."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.amounts import examples
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import NodeGroup, SiteSpec
from wfrun.sites.simulated.nodes import NodeMap
from wfrun.sites.simulated.queues import JobId


def node_map(*groups: NodeGroup) -> NodeMap:
    return NodeMap(SiteSpec("das3", sum(g.count * g.cores for g in groups), nodes=groups))


def test_one_node_the_fastest_and_there_the_best_fit() -> None:
    # das3-1 and das3-2 are slow and wide, das3-3 to das3-5 fast
    nodes = node_map(NodeGroup(2, 8, 0.5), NodeGroup(2, 4), NodeGroup(1, 2))
    placed = {
        job: (nodes.place(job, cores), nodes.hosts(job))
        for job, cores in (("a", 1), ("b", 3), ("c", 1), ("d", 3), ("e", 2))
    }
    assert placed == {
        "a": (1.0, "das3-5"),  # the fast one with the least room
        "b": (1.0, "das3-3"),
        "c": (1.0, "das3-3"),  # one core is left there, and one on das3-5: the first
        "d": (1.0, "das3-4"),
        "e": (0.5, "das3-1"),  # two cores at once are free on slow nodes only
    }
    assert nodes.free == 26 - 10
    nodes.release("b")
    assert (nodes.place("f", 2), nodes.hosts("f")) == (1.0, "das3-3")


def test_as_few_nodes_as_possible_and_then_the_fastest() -> None:
    nodes = node_map(NodeGroup(3, 4), NodeGroup(2, 4, 2.0), NodeGroup(4, 2, 3.0))
    # Two nodes of 4 cores: the two of speed 2. Four of speed 3 would be more nodes.
    assert (nodes.place("a", 8), nodes.hosts("a")) == (2.0, "das3-[4-5]")
    # Two of speed 1 and one of speed 3, which has room enough for the rest.
    assert (nodes.place("b", 10), nodes.hosts("b")) == (1.0, "das3-[1-2,6]")
    assert nodes.shares("b") == [(0, 4), (1, 4), (5, 2)]
    # One node has room for 4 cores, the slow one; two of speed 3 for 4, and are two.
    assert (nodes.place("c", 4), nodes.hosts("c")) == (1.0, "das3-3")
    assert (nodes.place("d", 5), nodes.hosts("d")) == (3.0, "das3-[7-9]")
    assert nodes.shares("d") == [(6, 2), (7, 2), (8, 1)]
    assert nodes.free == 1


def test_nothing_is_placed_on_a_node_that_is_out_of_service() -> None:
    nodes = node_map(NodeGroup(2, 2, 2.0), NodeGroup(1, 2))
    nodes.place("a", 3)
    assert (nodes.jobs_on(0), nodes.jobs_on(1), nodes.jobs_on(2)) == (["a"], ["a"], [])
    nodes.release("a")
    nodes.take_out(0)
    assert nodes.free == 4
    assert (nodes.place("b", 3), nodes.hosts("b")) == (1.0, "das3-[2-3]")
    nodes.put_back(0)
    assert nodes.free == 3
    assert (nodes.place("c", 2), nodes.hosts("c")) == (2.0, "das3-1")


GROUPS = st.lists(
    st.builds(
        NodeGroup,
        count=st.integers(1, 3),
        cores=st.integers(1, 4),
        speed_ratio=st.sampled_from([0.5, 1.0, 2.0]),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=examples(300), deadline=None)
@given(groups=GROUPS, data=st.data())
def test_any_placement_is_the_best_that_there_is(
    groups: list[NodeGroup], data: st.DataObject
) -> None:
    """Beside a plain account of who has what: fewest nodes, and of such the fastest; one node is
    a best fit."""
    nodes = node_map(*groups)
    kinds = [node.kind for node in nodes.nodes]
    free = {n: kind.cores for n, kind in enumerate(kinds)}
    running: dict[JobId, list[tuple[int, int]]] = {}
    for step in range(data.draw(st.integers(1, 15))):
        verbs = ["place"] * 3 * (sum(free.values()) > 0) + ["release"] * (len(running) > 0)
        idle = [n for n in free if free[n] == kinds[n].cores]
        out = [n for n in range(len(kinds)) if n not in free]
        verbs += ["take_out"] * (len(idle) > 0) + ["put_back"] * (len(out) > 0)
        verb = data.draw(st.sampled_from(verbs))
        if verb == "take_out":
            node = data.draw(st.sampled_from(idle))
            nodes.take_out(node)
            del free[node]
        elif verb == "put_back":
            node = data.draw(st.sampled_from(out))
            nodes.put_back(node)
            free[node] = kinds[node].cores
        elif verb == "release":
            job = data.draw(st.sampled_from(list(running)))
            nodes.release(job)
            for node, cores in running.pop(job):
                free[node] += cores
        else:
            cores = data.draw(st.integers(1, sum(free.values())))
            speed_ratio = nodes.place(step, cores)
            shares = nodes.shares(step)
            fewest, fastest = best(free, kinds, cores)
            assert sum(taken for _, taken in shares) == cores
            assert len({node for node, _ in shares}) == len(shares) == fewest
            slowest_ratio = min(kinds[node].speed_ratio for node, _ in shares)
            assert speed_ratio == slowest_ratio == fastest
            if fewest == 1:
                room = [free[n] for n in free if kinds[n].speed_ratio == fastest]
                assert free[shares[0][0]] == min(r for r in room if r >= cores)
            for node, taken in shares:
                assert 0 < taken <= free[node]
                free[node] -= taken
            running[step] = shares
        assert nodes.free == sum(free.values())
        for node in range(len(kinds)):
            assert nodes.jobs_on(node) == [j for j, s in running.items() if node in dict(s)]


def best(free: dict[int, int], kinds: list[NodeGroup], cores: int) -> tuple[int, float]:
    """The least number of nodes with so much room, and the best speed of the slowest of as
    many; by trying all."""
    for count in range(1, len(free) + 1):
        speeds = [
            min(kinds[n].speed_ratio for n in chosen)
            for chosen in combinations([n for n in free if free[n]], count)
            if sum(free[n] for n in chosen) >= cores
        ]
        if speeds:
            return count, max(speeds)
    raise AssertionError("there is no room")


@pytest.mark.parametrize(
    ("slots", "group", "says"),
    [
        (5, NodeGroup(2, 2), "5 slots, but its nodes have 4 cores"),
        (0, NodeGroup(0, 2), "has invalid nodes"),
        (2, NodeGroup(1, 2, speed_ratio=0.0), "has invalid nodes"),
        (2, NodeGroup(1, 2, mtbf_s=10.0), "has invalid nodes"),
        (2, NodeGroup(1, 2, mtbf_s=float("nan"), mttr_s=1.0), "has invalid nodes"),
    ],
)
def test_nodes_that_make_no_sense_are_refused(slots: int, group: NodeGroup, says: str) -> None:
    with pytest.raises(InvalidError, match=says):
        NodeMap(SiteSpec("das3", slots, nodes=(group,)))
