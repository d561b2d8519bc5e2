"""Malleable jobs at real sites: their processors, under faults and crashes at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

import pytest

from tests.engine.claims.worlds import SLOTS, sites_of
from tests.engine.malleable.worlds import (
    SizeAuditor,
    any_size,
    facts_of,
    jobs_of,
    random_world,
)
from wfrun.engine import events as ev
from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.capabilities.growing.malleability import Malleability
from wfrun.engine.capabilities.health import FIRST_PAUSE_S
from wfrun.engine.core import actions as act
from wfrun.runners.run.store.frozen import freeze, thaw
from wfrun.testing.fake_programs import ProgramPlan
from wfrun.testing.fake_sites import Behaviour, LauncherPlan
from wfrun.testing.fake_world import FakeWorld


def run_through(world: FakeWorld, crashes: Sequence[int] = ()) -> SizeAuditor:
    """Run a world to its end; the engine dies after these numbers of steps."""
    auditor, steps, seen = SizeAuditor(world), 0, 0
    left, ended = list(crashes), False
    while not ended:
        for _ in world.steps():
            steps += 1
            assert steps < 20_000, "the run does not end"
            if left and steps >= left[0]:
                break
        else:
            ended = True
        for event in world.log[seen:]:
            auditor.apply(event)
        seen = len(world.log)
        if not ended:
            left.pop(0)
            lived = facts_of(world.core)
            world.crash(away_s=1.0)
            assert facts_of(world.core) == lived
    return auditor


def check_quiet(world: FakeWorld) -> None:
    """Nothing is held, and nothing goes on."""
    state = world.core.state
    claims = state.get(ProcessorClaims)
    assert not len(claims.queue)
    assert not claims.by_job
    assert not state.get(Malleability).jobs
    asked = {each.key for a in world.actions if isinstance(a, act.StartLaunchers)
             for each in a.launchers}  # fmt: skip
    ended = {e.key for e in world.log if isinstance(e, ev.LauncherEnded)}
    stopped = {key for a in world.actions if isinstance(a, act.StopLaunchers) for key in a.keys}
    assert asked <= ended | stopped


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_jobs_are_done_once_in_random_worlds(part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(part * 60, part * 60 + 60):
        world = random_world(seed)
        random = Random(f"crashes {seed}")
        crashes = sorted(random.randint(3, 120) for _ in range(random.choice([0, 1, 2, 4])))
        auditor = run_through(world, crashes)
        state = world.core.state
        assert not auditor.broken, (seed, auditor.broken)
        assert state.ended == "done", (seed, state.ended, state.end_reason)
        assert len(auditor.done) == state.tasks
        check_quiet(world)
        counts += auditor.counts
    for kind in ("GrowthOffered", "ShrinkAsked", "GrowthReleased", "JobResized"):
        assert counts[kind] > 1, counts


class Plans(Behaviour):
    """Launchers of a second, and programs with courses of their own, by task."""

    def __init__(self, *programs: ProgramPlan) -> None:
        self._programs = programs

    def launcher(self, key: str) -> LauncherPlan:
        return LauncherPlan(wait_s=1.0)

    def program(self, key: str) -> ProgramPlan:
        task = int(key.split(".")[-2])
        return self._programs[task] if task < len(self._programs) else ProgramPlan(0.0)


def world_with(
    *bounds: tuple[int, ...], programs: Sequence[ProgramPlan] = (), slots: Sequence[int] = (16,),
    runtime_s: float = 50.0, ppn: int | None = None, **options: Any,
) -> FakeWorld:  # fmt: skip
    settings = ev.Settings("mlp", place="wf", **{"malleable": "egs", **options})
    jobs = jobs_of(*bounds, runtime_s=runtime_s, ppn=ppn)
    return FakeWorld([jobs], sites_of(*slots), settings, behaviour=Plans(*programs))


E = TypeVar("E", bound=ev.Event)


def of(world: FakeWorld, kind: type[E]) -> list[E]:
    return [event for event in world.log if isinstance(event, kind)]


def sizes_of(world: FakeWorld) -> list[list[int]]:
    """The sizes of each attempt, in the order of their start."""
    return [[s.size for s in sizes] for sizes in world.core.state.get(Malleability).sizes.values()]


def test_a_job_starts_with_its_smallest_size_and_takes_what_is_idle() -> None:
    world = world_with(any_size(2, 10))
    run_through(world)
    assert sizes_of(world) == [[2, 10, 0]]
    (offered,) = of(world, ev.GrowthOffered)
    assert (offered.at_s, len(offered.launchers)) == (2.0, 8)
    names = [n.name for a in world.actions if isinstance(a, act.ResizeAttempt) for n in a.nodes]
    assert len(set(names)) == 8
    assert world.core.state.sites[0].used_core_s == pytest.approx(8 * 48.9)  # beyond the smallest
    check_quiet(world)


@pytest.mark.parametrize(
    ("policy", "expected"), [("egs", [[2, 7, 0], [2, 7, 0]]), ("fpsma", [[2, 12, 0], [2, 0]])]
)
def test_equal_shares_or_the_earliest_first(policy: str, expected: list[list[int]]) -> None:
    """Processors become idle when both jobs run."""
    world = world_with(any_size(2, 12), any_size(2, 12), slots=(14,), malleable=policy)
    world.post(0.0, ev.SiteLoadObserved(0.0, 0, 10, 0))
    world.post(10.0, ev.SiteLoadObserved(10.0, 0, 0, 0))
    run_through(world)
    sizes = sizes_of(world)
    assert [sizes[0][:3], *[found[:len(expected[1])] for found in sizes[1:]]] == [
        expected[0], expected[1],
    ]  # fmt: skip


def test_growth_is_by_full_nodes_where_the_job_has_them() -> None:
    world = world_with((4, 8, 12), ppn=4)
    run_through(world)
    assert sizes_of(world) == [[4, 12, 0]]
    (asked,) = of(world, ev.GrowthAsked)
    assert [(each.nodes, each.cores) for each in asked.launchers] == [(1, 4), (1, 4)]


def test_what_is_not_taken_is_given_back_and_not_offered_again() -> None:
    world = world_with(any_size(2, 16), programs=[ProgramPlan(0.0, most=2)])
    run_through(world)
    assert sizes_of(world) == [[2, 4, 0]]
    (released,) = of(world, ev.GrowthReleased)
    assert (released.cause, len(released.launchers)) == ("declined", 12)


def test_the_sizes_of_the_document_bound_what_is_asked_for() -> None:
    world = world_with((2, 4, 8, 16), slots=(15,))
    run_through(world)
    assert sizes_of(world) == [[2, 8, 0]]


def test_the_threshold_stays_idle() -> None:
    world = world_with(any_size(2, 16), threshold=5)
    run_through(world)
    assert sizes_of(world) == [[2, 11, 0]]


def test_local_users_get_grown_processors_back_first() -> None:
    world = world_with(any_size(2, 16))
    world.post(10.0, ev.SiteLoadObserved(10.0, 0, 0, 5))
    world.post(12.0, ev.SiteLoadObserved(12.0, 0, 5, 0))
    world.post(30.0, ev.SiteLoadObserved(30.0, 0, 0, 0))
    run_through(world)
    assert sizes_of(world) == [[2, 16, 11, 16, 0]]
    (shrink,) = of(world, ev.ShrinkAsked)
    assert (shrink.at_s, shrink.processors, shrink.cause) == (10.0, 5, "local")


def test_local_users_that_still_wait_get_more() -> None:
    """What was given back does not suffice for them, as on several nodes."""
    world = world_with(any_size(2, 16))
    world.post(10.0, ev.SiteLoadObserved(10.0, 0, 0, 5))
    run_through(world)
    first, second, *_ = of(world, ev.ShrinkAsked)
    assert (first.processors, second.processors) == (5, 5)
    assert second.at_s == pytest.approx(16.1, abs=0.2)


@pytest.mark.parametrize(("precedence", "started_s"), [("pra", 52.0), ("pwa", 31.0)])
def test_a_waiting_job_gets_room_with_precedence(precedence: str, started_s: float) -> None:
    """It has no room while local users have some, who leave when the first one has grown."""
    world = world_with(any_size(2, 12), (10,), slots=(16,), precedence=precedence)
    world.post(0.0, ev.SiteLoadObserved(0.0, 0, 5, 0))
    world.post(30.0, ev.SiteLoadObserved(30.0, 0, 0, 0))
    run_through(world)
    _, second = of(world, ev.AttemptPlaced)
    assert second.at_s == pytest.approx(started_s, abs=0.3)
    shrinks = [(e.cause, e.processors) for e in of(world, ev.ShrinkAsked)]
    assert shrinks == ([("waiting", 5)] if precedence == "pwa" else [])


def test_a_program_that_breaks_the_protocol_runs_again_with_its_smallest_size() -> None:
    world = world_with(any_size(2, 8), programs=[ProgramPlan(0.0, breaks=1)])
    run_through(world)
    assert sizes_of(world) == [[2, 0], [2, 0]]
    causes = [e.outcome.cause for e in of(world, ev.AttemptEnded)]
    assert causes == ["reclaimed", "done"]
    assert world.core.state.sites[0].failed == 0
    check_quiet(world)


def test_a_program_that_closes_its_connection_keeps_its_size() -> None:
    world = world_with(any_size(2, 8), programs=[ProgramPlan(0.0, most=2, leaves=2)])
    world.post(10.0, ev.SiteLoadObserved(10.0, 0, 0, 1))
    world.post(12.0, ev.SiteLoadObserved(12.0, 0, 0, 0))
    run_through(world)
    assert sizes_of(world)[0] == [2, 4, 0]
    check_quiet(world)


class DeadNode(Plans):
    """A node that fails before any of the placeholders of a first growth is ready."""

    def launcher(self, key: str) -> LauncherPlan:
        claim, number = key.split(".")[-2:]
        is_spare = claim == "C1" and 1 <= int(number) <= 14
        return LauncherPlan(1.0, refused="node" if is_spare else None)


def test_placeholders_that_fail_together_pause_their_site_once() -> None:
    settings = ev.Settings("mlp", place="wf", malleable="egs")
    jobs = jobs_of(any_size(2, 16), runtime_s=400.0)
    world = FakeWorld([jobs], sites_of(16), settings, behaviour=DeadNode())
    run_through(world)
    first, second = of(world, ev.GrowthAsked)
    assert second.at_s == first.at_s + FIRST_PAUSE_S
    assert sizes_of(world) == [[2, 16, 0]]


def test_a_rigid_program_is_offered_nothing() -> None:
    world = world_with(any_size(2, 8), programs=[ProgramPlan()])
    run_through(world)
    assert not of(world, ev.GrowthAsked)
    assert sizes_of(world) == [[2, 0]]


def test_a_frozen_state_goes_on() -> None:
    world = world_with(any_size(2, 10))
    for _ in world.steps():
        if world.now_s >= 5.0:
            break
    again = thaw(freeze(world.core), world.core.state.documents)
    assert facts_of(again) == facts_of(world.core)
    assert len(SLOTS) == 3
