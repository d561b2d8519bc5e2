"""Owners who share idle processors: launchers, reclaims, admission, crashes at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.engine.scavenging.worlds import load, random_world, run_through, sites_of, sweep_of
from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome, claim_of
from wfrun.engine.explain.shares import share_text, turns_text
from wfrun.engine.jobs.scavenging.idleness import ScavengeRules
from wfrun.engine.jobs.scavenging.policies import PREEMPTION
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.testing.fake_world import FakeWorld

E = TypeVar("E", bound=ev.Event)


def of(world: FakeWorld, kind: type[E]) -> list[E]:
    return [event for event in world.log if isinstance(event, kind)]


def test_owners_share_each_site_equally() -> None:
    world = FakeWorld(
        [sweep_of("ann", 100), sweep_of("bea", 100)],
        sites_of(8, 5),
        ev.Settings(scavenge="persite"),
    )
    audit = run_through(world)
    assert world.core.state.ended == "done"
    first = next(e for e in of(world, ev.ProcessorsShared) if len(e.owners) == 2)
    assert sorted(first.held) == [(4, 2), (4, 3)]
    assert set(audit.done.values()) == {1}
    assert not world.core.state.failed


def test_a_job_that_waits_gets_what_it_requests_from_the_launchers_that_pulled_last() -> None:
    """Their tasks run again, without a failure or a setback."""
    world = FakeWorld(
        [sweep_of("ann", 20, runtime_s=100.0)],
        sites_of(8),
        ev.Settings(scavenge="persite", retries=0),
    )
    world.post(150.0, load(0, 150.0, 0, 3))
    world.post(152.0, load(0, 152.0, 3))
    world.post(500.0, load(0, 500.0, 0))
    run_through(world)
    state = world.core.state
    assert state.ended == "done"
    (reclaim,) = [e for e in of(world, ev.LaunchersStopped) if e.cause == "local"]
    assert (reclaim.at_s, len(reclaim.keys), reclaim.now) == (150.0, 3, True)
    ended = Counter(e.outcome.cause for e in of(world, ev.AttemptEnded))
    assert ended == {"done": 20, "reclaimed": 3}
    assert not state.workflows[0].failures
    assert not state.workflows[0].setbacks


@pytest.mark.slow
def test_a_thousand_reclaims_in_a_row() -> None:
    """Each takes two processors for a second."""
    world = FakeWorld(
        [sweep_of("ann", 120, runtime_s=20.0), sweep_of("bea", 120, runtime_s=20.0)],
        sites_of(4),
        ev.Settings(scavenge="persite", retries=0),
    )
    for number in range(1000):
        at_s = 10.0 + 2.0 * number
        world.post(at_s, load(0, at_s, 0, 2))
        world.post(at_s + 1.0, load(0, at_s + 1.0, 0))
    audit = run_through(world)
    assert world.core.state.ended == "done"
    assert set(audit.done.values()) == {1}
    assert len(audit.done) == 240
    reclaims = [e for e in of(world, ev.LaunchersStopped) if e.cause == "local"]
    assert len({e.at_s for e in reclaims}) == 1000
    assert not any(w.setbacks or w.failures for w in world.core.state.workflows)


def reclaimed_starts(world: FakeWorld) -> list[float]:
    """When the attempts that were reclaimed had started."""
    ended = {e.key for e in of(world, ev.AttemptEnded) if e.outcome.cause == "reclaimed"}
    return [e.at_s for e in of(world, ev.AttemptStarted) if e.key in ended]


@pytest.mark.parametrize("name", ["last-pulled", "first-pulled"])
def test_a_function_of_the_user_chooses_who_goes_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_pulled(pulled_s: Sequence[float], count: int) -> list[int]:
        return sorted(range(len(pulled_s)), key=lambda n: pulled_s[n])[:count]

    monkeypatch.setitem(PREEMPTION, "first-pulled", first_pulled)
    settings = ev.Settings(scavenge="persite", preempt=name)
    world = FakeWorld([sweep_of("ann", 20, runtime_s=100.0)], sites_of(4), settings)
    world.post(30.0, load(0, 30.0, 0, 2))
    world.post(31.0, load(0, 31.0, 2))
    world.post(50.0, load(0, 50.0, 0))
    world.post(90.0, load(0, 90.0, 0, 1))
    world.post(91.0, load(0, 91.0, 0))
    run_through(world)
    assert world.core.state.ended == "done"
    early, late = sorted(reclaimed_starts(world))[:2], sorted(reclaimed_starts(world))[2:]
    assert max(early) < 30.0
    assert (max(late) > 40.0) == (name == "last-pulled")


def test_a_wrong_choice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PREEMPTION, "odd", lambda pulled_s, count: [0] * count)
    settings = ev.Settings(scavenge="persite", preempt="odd")
    world = FakeWorld([sweep_of("ann", 20, runtime_s=100.0)], sites_of(4), settings)
    world.post(30.0, load(0, 30.0, 0, 2))
    with pytest.raises(PolicyError, match=r"order of preemption 'odd' chose \[0, 0\]"):
        run_through(world)


def test_tasks_are_pulled_in_the_order_of_the_policy() -> None:
    workflow = sweep_of("ann", 6)
    tasks = [replace(task, runtime_s=10.0 * (n + 1)) for n, task in enumerate(workflow.tasks)]
    settings = ev.Settings(scavenge="persite", policy="max-min")
    world = FakeWorld([replace(workflow, tasks=tuple(tasks))], sites_of(1), settings)
    run_through(world)
    assert world.core.state.ended == "done"
    assert [e.task for e in of(world, ev.AttemptPlaced)] == [5, 4, 3, 2, 1, 0]


def test_a_new_owner_makes_the_others_shrink() -> None:
    world = FakeWorld(
        [sweep_of("ann", 40), sweep_of("bea", 10)],
        sites_of(8),
        ev.Settings(scavenge="persite"),
        arrive_s=[0.0, 60.0],
    )
    run_through(world)
    shared = [e for e in of(world, ev.LaunchersStopped) if e.cause == "shared"]
    assert [(e.at_s, len(e.keys)) for e in shared] == [(60.0, 4)]
    asked = [e for e in of(world, ev.LaunchersAsked) if e.at_s == 60.0]
    assert [claim_of(x.key) for e in asked for x in e.launchers] == ["w.C2"] * 4


def test_owners_wait_for_their_turn() -> None:
    world = FakeWorld(
        [sweep_of(name, 8) for name in ("ann", "bea", "cho")],
        sites_of(4),
        ev.Settings(scavenge="all", most_scavengers=2),
    )
    run_through(world)
    assert max(len(e.owners) for e in of(world, ev.ProcessorsShared)) == 2
    assert world.core.state.ended == "done"


def test_reclaimed_processors_return_to_who_lost_them() -> None:
    world = FakeWorld(
        [sweep_of("ann", 200), sweep_of("bea", 200)], sites_of(4, 4), ev.Settings(scavenge="all")
    )
    world.post(10.0, load(0, 10.0, 0, 4))
    world.post(11.0, load(0, 11.0, 4))
    world.post(40.0, load(0, 40.0, 0))
    run_through(world)
    before, during, after = (
        [e for e in of(world, ev.ProcessorsShared) if e.at_s <= at_s][-1] for at_s in (5, 30, 45)
    )
    assert [sum(row) for row in before.held] == [4, 4]
    assert sum(sum(row) for row in during.lost) == 4
    assert after.held == before.held
    assert not any(map(any, after.lost))


def test_a_job_that_waits_on_gets_as_many_again() -> None:
    """As where its processors have to be of one node."""
    world = FakeWorld([sweep_of("ann", 100)], sites_of(8), ev.Settings(scavenge="persite"))
    world.post(20.0, load(0, 20.0, 0, 2))
    world.post(35.0, load(0, 35.0, 2))
    world.post(60.0, load(0, 60.0, 0))
    run_through(world)
    local = [(e.at_s, len(e.keys)) for e in of(world, ev.LaunchersStopped) if e.cause == "local"]
    assert local == [(20.0, 2), (26.0, 2), (32.0, 2)]
    assert world.core.state.ended == "done"


def test_nothing_is_taken_where_the_rules_forbid_it() -> None:
    """The hours begin in the evening, and then at most three processors may be used."""
    rules = ScavengeRules(hours=(72_000.0, 28_800.0), most=3)
    world = FakeWorld(
        [sweep_of("ann", 6)], sites_of(8, rules=rules), ev.Settings(scavenge="persite")
    )
    world.post(36_000.0, load(0, 36_000.0, 1))  # it is morning
    world.post(36_000.0, load(0, 36_000.0, 0))
    run_through(world)
    assert world.core.state.ended == "done"
    first = [sweep_of("ann", 2000, 100.0)]
    world = FakeWorld(first, sites_of(8, rules=rules), ev.Settings(scavenge="persite"))
    run_through(world)
    assert world.core.state.ended == "done"
    placed = [e.at_s % 86_400 for e in of(world, ev.AttemptPlaced)]
    assert all(at_s < 28_800 or at_s >= 72_000 for at_s in placed)
    assert max(sum(row[0] for row in e.held) for e in of(world, ev.ProcessorsShared)) == 3


def test_a_site_without_a_use_ends_the_run_with_the_reason() -> None:
    rules = ScavengeRules(most=0)
    world = FakeWorld(
        [sweep_of("ann", 6)], sites_of(8, rules=rules), ev.Settings(scavenge="persite")
    )
    run_through(world)
    assert world.core.state.ended == "failed"
    assert "owners who scavenge" in (world.core.state.end_reason or "")


def test_running_tasks_are_not_preempted_because_few_are_left() -> None:
    world = FakeWorld(
        [sweep_of("ann", 9, 30.0)], sites_of(8, unit=4), ev.Settings(scavenge="persite")
    )
    run_through(world)
    assert {e.outcome.cause for e in of(world, ev.AttemptEnded)} == {"done"}


def test_a_site_may_preempt_launchers_itself() -> None:
    """As often as it likes: that is neither a failure nor a setback."""

    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome("done" if int(key.rpartition(".")[2]) > 40 else "preempted")

    world = FakeWorld(
        [sweep_of("ann", 2, 1.0)], sites_of(2), ev.Settings(scavenge="all", retries=0),
        result=result,
    )  # fmt: skip
    run_through(world)
    assert world.core.state.ended == "done"
    assert not world.core.state.workflows[0].setbacks


def test_users_see_why_a_site_has_no_more_launchers() -> None:
    rules = ScavengeRules(most=6, hours=(0.0, 3600.0), idle_share=0.5)
    world = FakeWorld(
        [sweep_of(name, 900, 60.0) for name in ("ann", "bea")],
        sites_of(8, rules=rules),
        ev.Settings(scavenge="persite", most_scavengers=1),
    )
    for at_s, running, queued in ((100.0, 3, 0), (200.0, 3, 1), (300.0, 5, 0)):
        world.post(at_s, load(0, at_s, running, queued))
    seen: dict[str, float] = {}
    for event in world.steps():
        state = world.core.state
        if state.workflows:
            seen.setdefault(share_text(state, 0).partition("; ")[2], event.at_s)
            turns = "at most 1 owner at a time has processors; waiting for their turn: bea"
            assert turns_text(state) in ("", turns)
        if event.at_s > 4000.0:
            break
    found = {text.partition(";")[0] for text in seen}
    assert {
        "its 'scavenge' allows 6 processors",
        "jobs of others hold 3 of 8 processors",
        "jobs of others wait for 1 processors",
        "3 of 8 processors are idle, less than its 'idle_share'",
        "it is not within the hours of its 'scavenge'",
    } <= found


@pytest.mark.cases
@pytest.mark.parametrize("seed", range(60))
def test_random_worlds(seed: int) -> None:
    """Each task is done once, whatever sites, local users and engines do."""
    random = Random(f"crashes {seed}")
    crashes = tuple(random.randrange(400) for _ in range(random.choice([0, 1, 3])))
    world = random_world(seed)
    audit = run_through(world, crashes)
    state = world.core.state
    assert state.ended == "done", state.end_reason
    tasks = {(w.index, t) for w in state.workflows for t in range(len(w.status))}
    assert set(audit.done) == tasks
    assert not state.attempts
