"""The sizes of malleable jobs, as users see them."""

from __future__ import annotations

import io

from rich.console import Console

from tests.engine.malleable.test_real_sites import run_through, world_with
from tests.engine.malleable.worlds import any_size, jobs_of
from wfrun.engine import events as ev
from wfrun.engine.capabilities.growing.malleability import Malleability
from wfrun.engine.explain.sizes import size_reason
from wfrun.runners.inspect.tables.sizes import size_table
from wfrun.testing.fake_world import FakeWorld


def shown(world: FakeWorld) -> list[str]:
    table = size_table(world.core.state, world.now_s)
    assert table is not None
    stream = io.StringIO()
    Console(file=stream, width=100).print(table)
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def reason_at(world: FakeWorld, at_s: float) -> str:
    for _ in world.steps():
        if world.now_s >= at_s and world.core.state.get(Malleability).jobs:
            break
    (job,) = world.core.state.get(Malleability).jobs.values()
    return size_reason(world.core.state, job)


def test_a_table_has_the_sizes_of_each_job() -> None:
    world = world_with(any_size(2, 16))
    world.post(10.0, ev.SiteLoadObserved(10.0, 0, 0, 5))
    world.post(12.0, ev.SiteLoadObserved(12.0, 0, 5, 0))
    world.post(30.0, ev.SiteLoadObserved(30.0, 0, 0, 0))
    run_through(world)
    assert shown(world) == [
        "malleable job smallest mean largest grows shrinks sizes", "j0 2 13.6 16 2 1 2 16 11 16",
    ]  # fmt: skip


def test_a_run_without_malleable_jobs_has_no_table() -> None:
    world = world_with((2,))
    run_through(world)
    assert size_table(world.core.state, world.now_s) is None
    assert not jobs_of((2,)).moldable


def test_the_reason_says_what_bounds_a_size() -> None:
    assert reason_at(world_with(any_size(2, 8)), 2.05) == "that is its largest"
    kept = reason_at(world_with(any_size(2, 20), threshold=3), 2.05)
    assert kept == "alpha has 3 idle processors, of which 3 are kept for other users"
    assert reason_at(world_with(any_size(2, 20)), 1.01) == "14 more have been asked for at alpha"
    assert "jobs of other users wait" in _crowded()


def _crowded() -> str:
    world = world_with(any_size(2, 20))
    world.post(10.0, ev.SiteLoadObserved(10.0, 0, 0, 50))
    return reason_at(world, 15.0)
