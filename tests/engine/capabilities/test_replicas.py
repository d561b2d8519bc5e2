"""Several attempts of one task: which one counts, what the others cost, and what is kept of
both."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.policies.test_policies import chain, sites
from wfrun.engine import events as ev
from wfrun.engine.capabilities.replication.replication import Replication
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import SUPERSEDED
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.model import Catalog, File, Task, Workflow
from wfrun.engine.tasks.attempts import SUPERSEDED_TIMEOUT_S
from wfrun.runners.run.files.stored_names import stored_as, stored_name
from wfrun.testing.fake_sites import Behaviour
from wfrun.testing.fake_world import FakeWorld

WQR = ev.Settings("wqr", replicas=2, retries=2, retry_delay_s=1.0)


class LateReports(Behaviour):
    """Ends are reported late: that of the first attempt later than that of the second."""

    def report_delay_s(self, key: str) -> float:
        return 20.0 / int(key.rpartition(".")[2])


class Timed(Behaviour):
    """Sites report when attempts started and ended."""

    reports_times = True


class DeafWorld(FakeWorld):
    """A world whose first site ignores cancellations."""

    def _carry_out(self, action: act.Action) -> None:
        if not (isinstance(action, act.CancelAttempts) and action.site == 0):
            super()._carry_out(action)


def bag(count: int, runtime_s: float = 10.0) -> Workflow:
    tasks = [Task(f"t{n}", "x", "x", runtime_s=runtime_s) for n in range(count)]
    return Workflow("w", "w.dax", tasks, [], [()] * count)


def ends(world: FakeWorld, cause: Cause) -> list[str]:
    return [e.key for e in world.log if isinstance(e, ev.AttemptEnded) and e.outcome.cause == cause]


def placed(world: FakeWorld) -> list[str]:
    return [e.key for e in world.log if isinstance(e, ev.AttemptPlaced)]


def test_the_first_success_counts_and_the_others_are_cancelled() -> None:
    """A slow site and two equally fast ones: the third attempt can only be cancelled."""
    world = FakeWorld([bag(1)], sites((1, 0.1), (1, 1.0), (1, 0.5)), WQR)
    assert world.run() == "done"
    assert placed(world) == ["w.0.0.1", "w.0.0.2", "w.0.0.3"]
    assert ends(world, "done") == ["w.0.0.2"]
    assert sorted(ends(world, "cancelled")) == ["w.0.0.1", "w.0.0.3"]
    state = world.core.state
    assert [site.failed for site in state.sites] == [0, 0, 0]
    assert state.now_s == 10.0
    assert state.workflows[0].variants == {0: 2}


def test_a_replica_goes_to_the_site_of_its_task_when_no_other_is_idle() -> None:
    """Thesis section 5.1.4: replicas go to the resources that become available. The first one
    goes to beta, which has one core, the second beside its task."""
    world = FakeWorld([bag(1)], sites((3, 1.0), (1, 1.0)), WQR)
    assert world.run() == "done"
    sites_of = [e.site for e in world.log if isinstance(e, ev.AttemptPlaced)]
    assert sites_of == [0, 1, 0]
    assert len(ends(world, "done")) == 3  # all at once; the first to be reported counts
    assert world.core.state.done == 1


def test_one_site_replicates_its_tasks() -> None:
    world = FakeWorld([bag(1)], sites((2, 1.0)), WQR)
    assert world.run() == "done"
    assert placed(world) == ["w.0.0.1", "w.0.0.2"]
    assert world.core.state.sites[0].done == 1


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_straggler_gets_no_more_replicas_than_allowed(replicas: int) -> None:
    """The last task takes 1000 s at each site, and ten cores are idle."""
    world = FakeWorld(
        [bag(6)],
        sites((8, 1.0), (8, 1.0)),
        ev.Settings("round-robin", replicas=replicas, replication="stragglers"),
        runtime_s=lambda workflow, task, site: 1000.0 if task == 5 else 10.0,
        behaviour=Timed(),
    )
    assert world.run() == "done"
    assert placed(world)[6:] == [f"w.0.5.{number + 2}" for number in range(replicas)]


@pytest.mark.parametrize(("returns", "end_s"), [(False, 20.0), (True, 1000.0)])
def test_a_task_with_all_its_attempts_at_a_site_that_is_away_gets_another(
    returns: bool, end_s: float
) -> None:
    """The first task and its only replica are at alpha, where they take 1000 s, since beta is
    busy until 10 s."""
    world = FakeWorld(
        [bag(2)],
        sites((4, 1.0), (1, 1.0)),
        ev.Settings("wqr", replicas=1),
        runtime_s=lambda workflow, task, site: (1000.0, 10.0)[site],
    )
    world.post(5.0, ev.SitePaused(5.0, 0, "away"))
    if returns:
        world.post(7.0, ev.SiteReopened(7.0, 0))
    assert world.run() == "done"
    assert world.core.state.now_s == end_s


def test_a_task_that_always_fails_is_given_up_after_its_retries() -> None:
    """Replicas neither cost a retry nor add one: three rounds, the first with an attempt at each
    site, then none at the site that failed last."""
    result = Outcome("exit", exit_code=3)
    world = FakeWorld(
        [bag(1)],
        sites((1, 1.0), (1, 1.0), (1, 1.0)),
        WQR,
        result=lambda key, workflow, task: result,
    )
    assert world.run() == "failed"
    assert len(placed(world)) == 3 + 2 + 2
    assert world.core.state.workflows[0].failures == {0: 3}
    assert world.core.state.workflows[0].setbacks == {}


def test_what_only_replicas_failed_of_costs_no_retry() -> None:
    """The first attempts are lost; replicas, at sites that lack the program, fail by themselves."""
    rounds: list[str] = []

    def result(key: str, workflow: int, task: int) -> Outcome:
        if world.core.state.attempts[key].is_replica:
            return Outcome("exit", exit_code=127)
        rounds.append(key)
        return Outcome("done" if len(rounds) > 5 else "lost", exit_code=0)

    one_slow = sites((1, 2.0), (1, 1.0))
    world = FakeWorld([bag(1)], one_slow, ev.Settings("wqr", replicas=1, retries=0), result=result)
    assert world.run() == "done"
    assert world.core.state.workflows[0].failures == {}
    assert world.core.state.workflows[0].setbacks == {0: 5}


def test_a_replica_that_goes_on_saves_the_task() -> None:
    """The first attempt fails, with no retries: its task is done by the replica."""

    def result(key: str, workflow: int, task: int) -> Outcome:
        done = world.core.state.attempts[key].is_replica
        return Outcome("done" if done else "exit", exit_code=1 - done)

    settings = ev.Settings("wqr", replicas=1, retries=0)
    world = FakeWorld([bag(1)], sites((1, 2.0), (1, 1.0)), settings, result=result)
    assert world.run() == "done"
    assert len(placed(world)) == 2
    assert world.core.state.retried == 0


def test_a_run_waits_no_longer_for_what_does_not_matter() -> None:
    """The run waits half a minute for a site that ignores the cancellation; its core seconds count
    as superseded."""
    world = DeafWorld([bag(1, 100.0)], sites((1, 0.1), (1, 1.0)), WQR)
    assert world.run() == "done"
    assert world.core.state.now_s == 100.0 + SUPERSEDED_TIMEOUT_S
    done = DeafWorld([bag(1, 100.0)], sites((1, 0.8), (1, 1.0)), WQR)
    assert done.run() == "done"
    assert done.core.state.now_s == 125.0
    replication = done.core.state.find(Replication)
    assert replication is not None
    assert replication.placed_total == 1


def test_a_new_engine_waits_anew_for_what_does_not_matter() -> None:
    """A superseded attempt is cancelled again after a resume, however long no engine ran."""
    world = DeafWorld([bag(1, 100.0)], sites((1, 0.1), (1, 1.0)), WQR)
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded):
            break
    resumed_s = 100.0 + 10 * SUPERSEDED_TIMEOUT_S
    core = Core({"0": bag(1, 100.0)})
    core.replay(world.log)
    _, actions = core.step(ev.RunResumed(resumed_s))
    assert core.state.ended is None
    assert act.FindAttempts(0, ("w.0.0.1",)) in actions
    assert act.SetTimer(SUPERSEDED, resumed_s + SUPERSEDED_TIMEOUT_S) in actions
    _, actions = core.step(ev.AttemptsFound(resumed_s, 0, (), ("w.0.0.1",)))
    assert act.CancelAttempts(0, ("w.0.0.1",)) in actions


def redone(first: Cause) -> DeafWorld:
    """t0 → t1 at two sites. A replica of t0 is done first, while the first site goes on with it;
    then the file is lost, and t0 is done again, where it ends with ``first`` for once."""
    tries: list[str] = []

    def result(key: str, workflow: int, task: int) -> Outcome:
        if task == 1:
            return Outcome("done", exit_code=0)
        tries.append(key)
        cause: Cause = first if len(tries) == 3 else "done"
        return Outcome(cause, exit_code=0 if cause == "done" else 1, sizes=(9,))

    def runtime_s(workflow: int, task: int, site: int) -> float:
        return (1000.0, 1.0)[site] if task == 0 else 5.0

    workflow = chain((0, 1, 9), runtimes_s=[1.0, 1.0])
    catalog: Catalog = sites((2, 1.0), (2, 1.0))
    settings = ev.Settings("wqr", replicas=1, retries=1, retry_delay_s=1.0)
    world = DeafWorld([workflow], catalog, settings, result=result, runtime_s=runtime_s)
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded) and event.key == "w.0.0.2":
            break
    assert world.core.state.workflows[0].variants == {0: 2}
    world.crash(lost=((0, 0, 1),))
    return world


def test_a_task_is_done_again_beside_an_attempt_that_does_not_matter() -> None:
    """Files that are then written have names of their own, which the run knows."""
    world = redone("done")
    assert world.run() == "done"
    w = world.core.state.workflows[0]
    number = w.variants[0]
    assert number > 2
    assert stored_as(w, 0) == stored_name(w.workflow, 0, 0, number)
    assert world.core.state.now_s < 1000.0


def test_a_failure_beside_an_attempt_that_does_not_matter_is_a_failure() -> None:
    world = redone("exit")
    assert world.run() == "done"
    assert world.core.state.workflows[0].done == 2
    assert world.core.state.now_s < 1000.0


def test_a_retry_writes_files_of_its_own_and_those_of_older_logs_do_not() -> None:
    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome("lost" if key == "w.0.0.1" else "done", exit_code=0, sizes=(9,))

    settings = ev.Settings("round-robin", retry_delay_s=1.0)
    catalog = sites((2, 1.0))
    world = FakeWorld([chain((0, 1, 9), runtimes_s=[1.0, 1.0])], catalog, settings, result=result)
    assert world.run() == "done"
    assert world.core.state.workflows[0].variants == {0: 2}
    started, *rest = world.log
    assert isinstance(started, ev.RunStarted)
    older = Core({"0": world.core.state.workflows[0].workflow})
    older.replay([msgspec.structs.replace(started, own_outputs=False), *rest])
    assert older.state.workflows[0].variants == {}


def test_the_copies_of_a_file_are_of_the_attempt_that_counts() -> None:
    """The other attempt, at the slower site, writes its file before either end is reported."""
    task = Task("t0", "x", "x", outputs=(0,))
    workflow = Workflow("w", "w.dax", [task], [File("f", producer=0, collect=True)], [()])
    world = FakeWorld(
        [workflow],
        sites((1, 1.0), (1, 1.0)),
        ev.Settings("wqr", replicas=1),
        result=lambda key, workflow, task: Outcome("done", sizes=(int(key[-1]),)),
        runtime_s=lambda workflow, task, site: (12.0, 10.0)[site],
        behaviour=LateReports(),
    )
    assert world.run() == "done"
    assert world.core.state.workflows[0].variants == {0: 2}
    copied = [event.size_bytes for event in world.log if isinstance(event, ev.TransferEnded)]
    assert copied == [2]
