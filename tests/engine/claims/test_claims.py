"""Claims: all or nothing, under faults and crashes at every moment."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

import msgspec
import pytest

from tests.engine.claims.worlds import (
    SLOTS,
    facts_of,
    jobs_of,
    non_fixed,
    sites_of,
)
from tests.engine.model.audit.auditor import Auditor
from wfrun.engine import events as ev
from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.errors import InvalidError
from wfrun.engine.exchange import Outcome
from wfrun.engine.jobs.components import Component, Components
from wfrun.engine.model import Access, Catalog, File
from wfrun.runners.run.changes import changed_run
from wfrun.runners.run.store.frozen import freeze, thaw
from wfrun.testing.fake_sites import Behaviour, LauncherPlan
from wfrun.testing.fake_world import FakeWorld


def run_through(world: FakeWorld) -> Counter[str]:
    """Run a world to its end, under the rules of the model. Returns the number of ended claims by
    cause."""
    auditor, seen, given = Auditor(world.documents), 0, 0
    for steps, event in enumerate(world.steps()):
        assert steps < 20_000, "the run does not end"
        auditor.step(event, world.log[seen + 1 :], world.actions[given:])
        seen, given = len(world.log), len(world.actions)
    assert not auditor.violations
    return Counter(event.cause for event in of(world, ev.ClaimEnded))


class Plans(Behaviour):
    """Launchers with courses of their own, by the end of their key: claim and number."""

    def __init__(self, plans: dict[str, LauncherPlan]) -> None:
        self._plans = plans

    def launcher(self, key: str) -> LauncherPlan:
        return self._plans.get(key.partition(".")[2], LauncherPlan(wait_s=1.0))


def world_with(
    plans: dict[str, LauncherPlan], *sizes: Components | int, **options: Any
) -> FakeWorld:
    settings = ev.Settings("mlp", place="fcm", **options)
    return FakeWorld([jobs_of(*sizes)], sites_of(*SLOTS), settings, behaviour=Plans(plans))


E = TypeVar("E", bound=ev.Event)


def of(world: FakeWorld, kind: type[E]) -> list[E]:
    return [event for event in world.log if isinstance(event, kind)]


def test_a_job_starts_when_all_its_placeholders_are_ready() -> None:
    world = world_with({"C1.1": LauncherPlan(wait_s=30.0)}, Components(24))
    run_through(world)
    (placed,) = of(world, ev.AttemptPlaced)
    assert placed.at_s == 30.0
    (asked,) = of(world, ev.ClaimsAsked)
    assert [(part.site, part.launcher.cores) for part in asked.parts] == [(0, 16), (1, 8)]


def test_all_is_given_back_when_a_placeholder_is_late() -> None:
    """The next job runs meanwhile, and the first one after it."""
    late = LauncherPlan(wait_s=500.0)
    world = world_with({"C1.1": late}, Components(24), 16, claim_wait_s=20.0)
    causes = run_through(world)
    assert causes == {"late": 1, "done": 2}
    phases = world.core.state.get(ProcessorClaims).phases
    assert (phases.placed, phases.granted, phases.started) == (3, 2, 2)
    (first, *_) = of(world, ev.ClaimEnded)
    assert first.at_s == 21.0  # 20 s after the first one was ready
    stops = [a for a in world.actions if isinstance(a, act.StopLaunchers)][:2]
    assert stops == [
        act.StopLaunchers(0, ("w.C1.0",), now=True), act.StopLaunchers(1, ("w.C1.1",), now=True),
    ]  # fmt: skip
    order = [event.task for event in of(world, ev.AttemptPlaced)]
    assert order == [1, 0]


@pytest.mark.parametrize(("number", "cause"), [(0, "done"), (1, "broken")])
def test_the_first_component_that_dies_ends_the_job(number: int, cause: str) -> None:
    """The attempt is in the first one, whose site says so itself."""
    world = world_with({f"C1.{number}": LauncherPlan(dies_s=10.0)}, Components(24), retries=0)
    causes = run_through(world)
    assert causes == Counter([cause, "done"])
    first = next(e for e in world.log if isinstance(e, ev.ClaimEnded))
    assert first.at_s == 10.0
    assert world.core.state.ended == "done"


def test_a_job_that_is_reclaimed_often_is_neither_failed_nor_given_up() -> None:
    plans = {f"C{number}.1": LauncherPlan(dies_s=10.0) for number in range(1, 40)}
    world = world_with(plans, Components(24), retries=0)
    causes = run_through(world)
    assert causes == {"broken": 39, "done": 1}
    assert world.core.state.ended == "done"
    assert not world.core.state.recent_failures


def test_a_job_fails_above_the_maximum_number_of_tries() -> None:
    world = world_with({}, 16, 12, 12, 8, tries=1)
    world.post(0.0, ev.SiteLoadObserved(0.0, 0, 16, 0))
    world.post(5.0, ev.SiteLoadObserved(5.0, 0, 15, 0))
    world.post(6.0, ev.SiteLoadObserved(6.0, 0, 14, 0))
    run_through(world)
    state = world.core.state
    assert state.ended == "failed"
    assert "could not be placed in 1 tries" in (state.end_reason or "")
    assert state.failed + state.done == 4
    assert state.failed


def test_nothing_is_claimed_where_other_users_wait() -> None:
    """As the information service of KOALA counts: their jobs would overtake the placeholders."""
    settings = ev.Settings("mlp", place="wf")
    jobs = jobs_of(non_fixed(8, 8))
    world = FakeWorld([jobs], sites_of(*SLOTS), settings, arrive_s=(1.0,))
    world.post(0.5, ev.SiteLoadObserved(0.5, 0, 4, 2))
    run_through(world)
    assert [tried.idle for tried in of(world, ev.PlacementTried)] == [(0, 16, 12)]


def test_a_placeholder_that_starts_after_it_was_given_up_is_stopped_again() -> None:
    core = Core({"0": jobs_of(Components(24))})
    settings = ev.Settings("mlp", place="fcm", claim_wait_s=20.0)
    core.step(ev.RunStarted(0.0, "r", settings, sites_of(*SLOTS).sites, (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "jobs", "0"))
    core.step(ev.TimerFired(20.0, "claim:1"))
    _, actions = core.step(ev.LauncherStarted(21.0, 1, "r.C1.1", "n", 8, None, "tcp", 0.1))
    assert act.StopLaunchers(1, ("r.C1.1",), now=True) in actions


def test_a_site_that_refuses_a_placeholder_is_not_asked_again_for_the_job() -> None:
    world = world_with({"C1.0": LauncherPlan(refused="refused")}, Components(10))
    run_through(world)
    sites = [event.parts[0].site for event in of(world, ev.ClaimsAsked)]
    assert sites == [0, 1]


def test_fixed_components_go_to_their_sites() -> None:
    parts = Component(4, "gamma"), Component(8, "alpha")
    world = world_with({}, Components(12, (parts,)))
    run_through(world)
    (asked,) = of(world, ev.ClaimsAsked)
    assert [part.site for part in asked.parts] == [2, 0]


def test_a_job_that_fails_by_itself_costs_its_retries() -> None:
    settings = ev.Settings("mlp", place="fcm", retries=1, retry_delay_s=0.0)
    world = FakeWorld(
        [jobs_of(Components(24))], sites_of(*SLOTS), settings,
        result=lambda *_: Outcome("exit", exit_code=1),
    )  # fmt: skip
    causes = run_through(world)
    assert world.core.state.ended == "failed"
    assert causes == {"done": 2}


@pytest.mark.parametrize("forgets", [False, True])
def test_the_engine_may_die_after_any_step(forgets: bool) -> None:
    """Among them are all kinds of events. ``forgets``: what nothing depends on is lost with it."""
    plans = {"C1.1": LauncherPlan(wait_s=500.0), "C3.1": LauncherPlan(dies_s=10.0)}
    jobs = Components(24), 16, non_fixed(8, 8), Components(40)
    kinds = set()
    steps = sum(1 for _ in world_with(plans, *jobs, claim_wait_s=20.0).steps())
    for step in range(3, steps):
        world = world_with(plans, *jobs, claim_wait_s=20.0)
        for number, event in enumerate(world.steps(), 1):
            if number == step:
                kinds.add(type(event))
                break
        world.crash(away_s=1.0, forgets=forgets)
        world.run()
        state = world.core.state
        assert (state.ended, state.done) == ("done", 4), step
        assert not state.get(ProcessorClaims).by_job
    assert kinds >= {
        ev.LaunchersSubmitted, ev.LauncherStarted, ev.LauncherEnded, ev.AttemptsSubmitted,
        ev.AttemptStarted, ev.AttemptEnded, ev.TimerFired,
    }  # fmt: skip


def test_jobs_go_on_when_a_whole_site_is_killed() -> None:
    """All placeholders there end at once, and nothing is claimed there for a while."""
    plans = {f"C{claim}.{part}": LauncherPlan(dies_s=20.0) for claim in (1, 2) for part in (0, 1)}
    world = world_with(plans, Components(24), Components(20))
    run_through(world)
    assert world.core.state.ended == "done"


def test_claims_survive_a_change_of_the_options() -> None:
    world = world_with({}, Components(24), Components(24), 8)
    for number, _ in enumerate(world.steps()):
        if number == 12:
            break
    before = facts_of(world.core)
    world.crash(away_s=1.0)
    settings = msgspec.structs.replace(world.core.state.settings, retries=7)
    world.change(ev.RunChanged(world.now_s, settings, world.catalog.sites, ()))
    assert facts_of(world.core) == before
    world.run()
    assert world.core.state.ended == "done"
    assert world.core.state.done == 3


def test_claims_are_frozen_with_the_state() -> None:
    """A reader that begins with a checkpoint knows what one of the whole log knows."""
    jobs = jobs_of(Components(24), Components(24), 8)
    settings = ev.Settings("mlp", place="fcm")
    core = Core({"x": jobs})
    core.step(ev.RunStarted(0.0, "r", settings, sites_of(*SLOTS).sites, (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "jobs", "x"))
    core.step(ev.LauncherStarted(1.0, 0, "r.C1.0", "n", 16, None, "tcp", 0.1))
    core.step(ev.LauncherStarted(1.0, 1, "r.C1.1", "n", 8, None, "tcp", 0.1))
    thawed = thaw(freeze(core), {"x": jobs})
    assert facts_of(thawed) == facts_of(core)
    end = ev.LauncherEnded(2.0, 1, "r.C1.1", "node")
    assert thawed.step(end) == core.step(end)
    assert len(thawed.state.get(ProcessorClaims).tried) == 2


def begun(*jobs: Components | int, **options: Any) -> Core:
    """A core whose first job has a claim."""
    core = Core({"0": jobs_of(*jobs)})
    settings = ev.Settings("mlp", place="fcm", **options)
    core.step(ev.RunStarted(0.0, "r", settings, sites_of(*SLOTS).sites, (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "jobs", "0"))
    return core


@pytest.mark.parametrize(
    "event",
    [
        ev.SiteHeld(1.0, 1),
        ev.SitePaused(1.0, 1, "out of order"),
        ev.TaskCancelled(1.0, 0, 0),
    ],
)
def test_a_claim_that_is_of_no_use_any_more_is_given_back_at_once(event: ev.Event) -> None:
    """A component is at a site that gets no work, or the job was cancelled."""
    core = begun(Components(24))
    decided, actions = core.step(event)
    (ended, *_) = [one for one in decided if isinstance(one, ev.ClaimEnded)]
    assert (ended.key, ended.cause) == ("r.C1", "cancelled")
    stopped = [a for a in actions if isinstance(a, act.StopLaunchers)]
    assert [(a.site, a.keys, a.now) for a in stopped] == [
        (0, ("r.C1.0",), True), (1, ("r.C1.1",), True),
    ]  # fmt: skip


def test_a_job_waits_for_no_input_that_is_gone_from_another_site_of_its_claim() -> None:
    jobs = jobs_of(Components(24))
    files = [File("in", 10)]
    task = msgspec.structs.replace(jobs.tasks[0], inputs=(0,))
    jobs = msgspec.structs.replace(jobs, tasks=[task], files=files)
    world = FakeWorld([jobs], sites_of(*SLOTS), ev.Settings("mlp", place="fcm"))
    copied = next(event for event in world.steps() if isinstance(event, ev.TransferEnded))
    assert copied.destination in (0, 1)
    world.crash(((0, 0, copied.destination),))
    world.run()
    assert world.core.state.ended == "done"
    assert [ended.cause for ended in of(world, ev.ClaimEnded)] == ["cancelled", "done"]


@pytest.mark.parametrize("is_submitted", [False, True])
def test_a_placeholder_that_was_never_submitted_is_no_failure_of_its_site(
    is_submitted: bool,
) -> None:
    """The engine died between the decision and the submission. One that the site ended is."""
    core = begun(Components(12, ((Component(12, "beta"),),)))
    if is_submitted:
        core.step(ev.LaunchersSubmitted(0.5, 1, ("r.C1.0",)))
    core.step(ev.RunResumed(1.0, ()))
    decided, _ = core.step(ev.LauncherEnded(2.0, 1, "r.C1.0", "cancelled", "never submitted"))
    assert any(isinstance(one, ev.ClaimsAsked) for one in decided) is not is_submitted


def test_a_site_that_refused_a_placeholder_is_asked_again_after_a_resume() -> None:
    """Also for a job that waits in the queue meanwhile."""
    core = begun(Components(12, ((Component(12, "beta"),),)))
    core.step(ev.LauncherEnded(1.0, 1, "r.C1.0", "refused"))
    decided, _ = core.step(ev.RunResumed(2.0, ()))
    (asked,) = [one for one in decided if isinstance(one, ev.ClaimsAsked)]
    assert asked.parts[0].site == 1


def test_a_resume_takes_the_catalog_as_it_is_written() -> None:
    """Its clusters get placeholders, as at the start of the run."""
    core = begun(Components(24))
    written = [
        msgspec.structs.replace(site, slots=20, access=Access()) for site in sites_of(*SLOTS).sites
    ]
    change = changed_run(core.state, {}, Catalog(tuple(written)))
    assert change is not None
    assert [site.slots for site in change.sites] == [20, 20, 20]
    assert all(site.access and site.access.dispatch == "launchers" for site in change.sites)


@pytest.mark.parametrize("option", [{"throttle": 2}, {"policy": "mct"}, {"replicas": 1}])
def test_options_without_effect_on_claims_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match="has no effect: place places the jobs of this run"):
        changed_run(begun(Components(24)).state, option, None)
