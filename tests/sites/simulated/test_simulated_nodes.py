"""Nodes of simulated sites: where tasks run, how fast, and what is lost when one fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.amounts import examples
from tests.sites.rig import Rig, other, slots_of, task
from wfrun.engine import events as ev
from wfrun.engine.model import NodeGroup
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import LRMS, SimulatedJob

FAST_AND_SLOW = (NodeGroup(1, 2), NodeGroup(2, 1, 0.5))


async def test_a_task_takes_as_long_as_on_the_slowest_of_its_nodes() -> None:
    rig = Rig(nodes=FAST_AND_SLOW)
    await rig.run(100.0, task("fast", 10), task("wide", 10, cores=2), task("late", 10, cores=1))
    outcomes = {e.key: e.outcome for e in rig.all(ev.AttemptEnded)}
    assert {key: (o.host, o.started_s, o.ended_s) for key, o in outcomes.items()} == {
        "fast": ("there-1", 0, 10),
        "wide": ("there-[1-2]", 0, 20),
        "late": ("there-3", 0, 20),
    }


async def test_a_task_without_walltime_asks_for_what_it_takes_on_the_slowest_node() -> None:
    rig = Rig(nodes=FAST_AND_SLOW)
    await rig.run(1.0, task("a", 10, cores=4))
    assert rig.site.lrm.estimate_start_s(1, 1.0, 1.0) == 20.0


async def test_a_pool_of_cores_names_no_host() -> None:
    rig = Rig()
    await rig.run(20.0, task("a", 10))
    assert [e.outcome.host for e in rig.all(ev.AttemptEnded)] == [None]


@pytest.mark.parametrize(("kill", "cause", "end_s"), [(True, "walltime", 15), (False, "done", 20)])
async def test_a_walltime_may_be_too_short_for_a_slow_node(
    kill: bool, cause: str, end_s: float
) -> None:
    rig = Rig(SiteModel(kill_overruns=kill), nodes=(NodeGroup(1, 1, 0.5),))
    await rig.run(60.0, task("k", 10, walltime_s=15))
    assert (rig.causes(), rig.ends()) == ({"k": cause}, {"k": end_s})


async def test_other_users_share_the_nodes() -> None:
    """The other's job of 10 s is on the fast node, 40 s of work are done on a slow one in 80 s."""
    background = [other(0, 10, 2), other(1, 40), other(2, 30, requested_s=50)]
    rig = Rig(SiteModel(observe_s=5.0), nodes=FAST_AND_SLOW, background=background)
    await rig.site.open(rig.probe.post)
    await rig.probe.let_pass(3.0)
    await rig.site.submit([task("mine", 5)])
    await rig.probe.let_pass(97.0)
    assert rig.starts() == {"mine": 10}
    seen = {job.id: job.runtime_s for e in rig.all(ev.SiteObserved) for job in e.background}
    assert seen == {"0": 10, "1": 80, "2": 50}  # the last is killed at its request
    assert rig.all(ev.SiteObserved)[-1].background == ()


def flaky(count: int, cores: int, mtbf_s: float = 100.0, mttr_s: float = 10.0) -> NodeGroup:
    return NodeGroup(count, cores, mtbf_s=mtbf_s, mttr_s=mttr_s)


async def test_a_failing_node_loses_what_runs_there_and_nothing_else() -> None:
    rig = Rig(nodes=(flaky(1, 2), NodeGroup(1, 3, 0.5)), seed=3)
    keys = {"there": 1, "across": 2, "safe": 2}
    await rig.run(0.0, *(task(key, 10_000, cores=cores) for key, cores in keys.items()))
    assert rig.site.nodes is not None
    hosts = {key: rig.site.nodes.hosts(key) for key in keys}
    assert hosts == {"there": "there-1", "across": "there-2", "safe": "there-[1-2]"}
    await rig.probe.until(lambda: bool(rig.causes()))
    lost = {e.key: e.outcome for e in rig.all(ev.AttemptEnded)}
    assert {key: (o.cause, o.host) for key, o in lost.items()} == {
        "there": ("lost", "there-1"),
        "safe": ("lost", "there-[1-2]"),
    }
    assert lost["there"].message == "simulated: node there-1 failed"
    failed_s = lost["there"].ended_s or 0.0
    # The node is gone for as long as its repair takes: only one core is left.
    await rig.site.submit([task("next", 1), task("after", 1, cores=2)])
    await rig.probe.ended("after")
    assert rig.starts()["next"] == failed_s
    assert rig.starts()["after"] > failed_s
    assert {e.key: e.outcome.host for e in rig.all(ev.AttemptEnded)}["after"] == "there-1"


async def test_repairs_are_told_of_as_taken_cores() -> None:
    rig = Rig(SiteModel(observe_s=1.0), nodes=(flaky(1, 2, mttr_s=50.0),))
    await rig.site.open(rig.probe.post)
    await rig.probe.until(lambda: len(rig.all(ev.SiteObserved)) == 2)
    first, second = rig.all(ev.SiteObserved)
    (repair,) = first.background
    assert (repair.id, repair.cores, repair.runtime_s) == ("repair of there-1", 2, 50.0)
    assert 0 < first.at_s - (repair.started_s or 0.0) <= 1
    assert second.background == ()


async def test_when_a_node_fails_depends_on_the_seed_and_the_node_alone() -> None:
    async def failures(seed: int, *others: NodeGroup, work: int = 0) -> list[tuple[str, float]]:
        model = SiteModel(observe_s=0.5)
        rig = Rig(model, nodes=(flaky(2, 1), *others), seed=seed)
        await rig.run(300.0, *(task(f"k{n}", 10) for n in range(work)))
        seen = [job for e in rig.all(ev.SiteObserved) for job in e.background]
        return list(dict.fromkeys((job.id, job.started_s or 0.0) for job in seen))

    expected = await failures(1)
    assert {name for name, _ in expected} == {"repair of there-1", "repair of there-2"}
    assert len(expected) > 4  # and it is not only once that they fail
    assert await failures(1, NodeGroup(3, 2), work=20) == expected
    assert await failures(2) != expected


@pytest.mark.parametrize("hold_s", [0.0, 7.0])
async def test_nodes_stay_in_repair_over_an_outage(hold_s: float) -> None:
    """An outage empties the site, the queue's and the nodes' accounts stay in step."""
    model = SiteModel(outage_every_s=50.0, outage_s=20.0, hold_s=hold_s)
    rig = Rig(model, nodes=(flaky(3, 2, 40.0, 40.0), NodeGroup(1, 1)), background=BUSY)
    await rig.site.open(rig.probe.post)
    assert rig.site.nodes is not None
    for n in range(200):
        await rig.site.submit([task(f"k{n}", 5.0, cores=1 + n % 3)])
        await rig.probe.let_pass(5.0)
        assert rig.site.lrm.free == rig.site.nodes.free
    assert {"done", "lost"} == set(rig.causes().values())


BUSY = [SimulatedJob(7.0 * n, 9.0 + n % 4, 1 + n % 3, 10.0 + n % 5) for n in range(60)]

NODES = st.lists(
    st.builds(
        flaky,
        count=st.integers(1, 3),
        cores=st.integers(1, 3),
        mtbf_s=st.sampled_from([20.0, 300.0]),
        mttr_s=st.sampled_from([1.0, 30.0]),
    ),
    min_size=1,
    max_size=2,
)
WORK = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 4), st.sampled_from([None, 1, 20])), max_size=12
)


@pytest.mark.parametrize("lrm", LRMS)
@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(nodes=NODES, work=WORK, others=st.integers(0, 20), seed=st.integers(0, 5))
async def test_no_more_cores_are_taken_than_are_in_service(
    lrm: str,
    nodes: list[NodeGroup],
    work: list[tuple[int, int, float | None]],
    others: int,
    seed: int,
) -> None:
    """At all times: what runs, as the events tell, and the nodes in repair, as the queue and the
    node map account for them. And every task comes to an end."""
    slots = slots_of(nodes)
    jobs = [job for job in BUSY[:others] if job.cores <= slots]
    model = SiteModel(lrm=lrm, observe_s=0.1)
    rig = Rig(model, nodes=tuple(nodes), background=jobs, seed=seed)
    cores = {f"k{n}": min(wide, slots) for n, (_, wide, _) in enumerate(work)}
    tasks = [
        task(f"k{n}", float(takes), cores=cores[f"k{n}"], walltime_s=walltime)
        for n, (takes, _, walltime) in enumerate(work)
    ]
    await rig.run(0.0, *tasks)
    map_of_nodes = rig.site.nodes
    assert map_of_nodes is not None
    seen = 0
    running: dict[str, int] = {}
    while set(rig.causes()) != set(cores):
        await rig.probe.more()
        background: Sequence[ev.BackgroundJob] = ()
        for event in rig.probe.events[seen:]:
            if isinstance(event, ev.AttemptStarted):
                running[event.key] = cores[event.key]
            elif isinstance(event, ev.AttemptEnded):
                running.pop(event.key, None)
            elif isinstance(event, ev.SiteObserved):
                background = event.background
                taken = sum(job.cores for job in background if job.started_s is not None)
                assert sum(running.values()) + taken == slots - map_of_nodes.free
        seen = len(rig.probe.events)
        assert 0 <= rig.site.lrm.free == map_of_nodes.free <= slots - sum(running.values())
