"""Several brokers in one simulated world."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from wfrun.engine import events as ev
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec, Workflow
from wfrun.parsers.generate import generate
from wfrun.runners.simulate.brokers import BrokerRun, BrokerWorld, simulate_brokers
from wfrun.sites.simulated.head_node import HeadModel
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.studies.workflows.experiments import one_file_per_task

SITES = (SiteSpec("one", 8, speed_ratio=2.0), SiteSpec("two", 8))
LINKS = (LinkSpec("one", "two", 1e7, 0.0), LinkSpec("two", "one", 1e7, 0.0))
WORLD = BrokerWorld(Catalog(SITES, LINKS), "one")


def workflow() -> Workflow:
    return one_file_per_task(generate("montage", 50, 0))


def run(
    instances: int = 1,
    policy: str = "all-clusters",
    throttle: Literal["none"] | int = "none",
    **changes: object,
) -> BrokerRun:
    world = msgspec.structs.replace(WORLD, **changes)
    settings = ev.Settings(policy=policy, throttle=throttle)
    return simulate_brokers([workflow()] * instances, world, settings)


def span_s(run: BrokerRun) -> float:
    return max(log[-1].at_s for log in run.logs)


def placed(run: BrokerRun, broker: int) -> set[int]:
    return {event.site for event in run.logs[broker] if isinstance(event, ev.AttemptPlaced)}


def test_every_broker_runs_its_own_workflow() -> None:
    found = run(3)
    assert len(found.logs) == 3
    for log in found.logs:
        done = [e for e in log if isinstance(e, ev.AttemptEnded) and e.outcome.cause == "done"]
        assert len(done) == len(workflow().tasks)
        assert isinstance(log[-1], ev.RunEnded)
        assert log[-1].outcome == "done"
    assert run(3).logs == found.logs


def test_outputs_return_before_successors_become_eligible() -> None:
    slow = tuple(msgspec.structs.replace(x, bandwidth_bytes_per_s=1e5) for x in LINKS)
    catalog = Catalog(SITES, slow)
    away = [SimulatedJob(0.0, 1e6, 1, 1e6)] * 8
    background = {"one": away}  # so that all tasks are at the site that is not the submission site
    changes = {"catalog": catalog, "background": background, "policy": "single-cluster"}
    returned, stayed = run(**changes), run(**changes, returns=False)  # type: ignore[arg-type]
    assert placed(returned, 0) == placed(stayed, 0) == {1}
    assert span_s(returned) > 1.5 * span_s(stayed)


def test_head_nodes_delay_submissions_and_record_their_load() -> None:
    free, busy = run(), run(head=HeadModel(submit_s=5.0, copy_s=1.0))
    assert span_s(busy) > span_s(free) + 50
    assert max(load for _, load in busy.loads["two"]) > 5
    assert not any(load for _, load in free.loads["two"])
    waits = [
        event.at_s - busy.ready_s[key]
        for event in busy.logs[0]
        if isinstance(event, ev.AttemptsSubmitted)
        for key in event.keys
    ]
    assert min(waits) == pytest.approx(5.0)


def test_brokers_learn_of_each_other_by_the_status_alone() -> None:
    """Brokers that begin later know the load at their start, and see changes at the next report."""
    known = run(2, policy="single-cluster", apart_s=1.0)
    assert placed(known, 0) != placed(known, 1)
    seen = [event for event in known.logs[0] if isinstance(event, ev.SiteLoadObserved)]
    assert seen
    assert all(event.at_s % 10 == 0 or event.at_s == 1.0 for event in seen)


def test_tasks_that_only_wait_do_not_gain_by_fast_processors() -> None:
    assert span_s(run(own_speed=True)) < span_s(run())


def test_a_throttle_bounds_the_load_of_head_nodes() -> None:
    head = HeadModel(submit_s=2.0)
    throttled, free = run(3, throttle=2, head=head), run(3, head=head)
    peaks = [max(load for _, load in found.loads["two"]) for found in (throttled, free)]
    assert peaks[0] <= 6 < peaks[1]
