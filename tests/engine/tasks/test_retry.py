"""What follows a failed attempt, by its cause: one test for each rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import pytest

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.model import (
    Access,
    Catalog,
    File,
    LauncherSpec,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.tasks.retry import MAX_SETBACKS, RULES
from wfrun.testing.fake_world import FakeWorld

GIB = 2**30
PLAIN = Resources()


def one_task(resources: Resources) -> Workflow:
    task = Task("t0", "x", "x", resources=resources, runtime_s=1.0)
    return Workflow("w", "w.dax", [task], [], [()])


def world_of(
    outcomes: Sequence[Outcome],
    sites: Sequence[SiteSpec],
    resources: Resources = PLAIN,
    retries: int = 2,
) -> FakeWorld:
    """One task whose first attempts end in this way, one after another; later ones succeed."""

    def result(key: str, workflow: int, task: int) -> Outcome:
        number = int(key.rsplit(".", 1)[1])
        return outcomes[number - 1] if number <= len(outcomes) else Outcome("done", exit_code=0)

    settings = ev.Settings("round-robin", retries=retries)
    return FakeWorld([one_task(resources)], Catalog(tuple(sites)), settings, result=result)


def placed(world: FakeWorld) -> list[int]:
    return [e.site for e in world.log if isinstance(e, ev.AttemptPlaced)]


def last_message(world: FakeWorld) -> str:
    failure = world.core.state.recent_failures[-1]
    assert failure.final == (world.core.state.failed > 0)
    return failure.message


TWO = (SiteSpec("alpha", 1), SiteSpec("beta", 1))


def test_every_cause_of_failure_has_its_rule() -> None:
    causes = set(Cause.__args__)  # type: ignore[attr-defined]
    assert set(RULES) == causes - {"done"}


@pytest.mark.parametrize("cause", ["exit", "signal", "output", "cancelled"])
def test_a_task_s_own_failure_costs_a_retry_and_is_tried_elsewhere(cause: Cause) -> None:
    world = world_of([Outcome(cause)] * 9, TWO)
    assert world.run() == "failed"
    assert len(placed(world)) == 3
    assert sorted(placed(world)[:2]) == [0, 1]


@pytest.mark.parametrize("cause", ["preempted", "node", "lost", "staging"])
def test_what_is_not_its_own_failure_costs_no_retry(cause: Cause) -> None:
    world = world_of([Outcome(cause)] * 2 + [Outcome("exit", exit_code=1)], TWO, retries=1)
    assert world.run() == "done"
    assert sorted(placed(world)[:2]) == [0, 1]
    assert len(placed(world)) == 4


def test_setbacks_have_a_limit_of_their_own() -> None:
    world = world_of([Outcome("preempted", message="by a queue")] * 99, TWO, retries=0)
    assert world.run() == "failed"
    assert len(placed(world)) == MAX_SETBACKS + 1
    message = last_message(world)
    assert (
        message == f"by a queue\ngiven up after {MAX_SETBACKS + 1} failures that were not its own"
    )


def test_more_retries_are_more_setbacks_too() -> None:
    world = world_of([Outcome("preempted")] * 15, TWO, retries=20)
    assert world.run() == "done"


def test_memory_is_doubled_and_the_message_says_so() -> None:
    failures = [Outcome("memory", message="killed"), Outcome("memory", message="killed")]
    world = world_of(failures, TWO, Resources(memory_bytes=2 * GIB))
    shown = []
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded):
            asked = world.core.state.workflows[0].asked(0)
            shown.append((asked.memory_bytes, last_message(world)))
    assert shown == [
        (4 * GIB, "killed\nagain with 4 GiB of memory"),
        (8 * GIB, "killed\nagain with 8 GiB of memory"),
        (8 * GIB, "killed\nagain with 8 GiB of memory"),
    ]
    assert world.core.state.ended == "done"


def test_what_does_not_fit_any_more_goes_elsewhere() -> None:
    small = SiteSpec("small", 9, memory_bytes=3 * GIB, speed_ratio=9.0)
    large = SiteSpec("large", 1, memory_bytes=64 * GIB)
    world = world_of([Outcome("memory")], (small, large), Resources(memory_bytes=2 * GIB))
    assert world.run() == "done"
    assert placed(world) == [0, 1]


def test_growth_goes_up_to_what_sites_grant_and_then_it_is_final() -> None:
    site = SiteSpec("alpha", 1, memory_bytes=5 * GIB)
    world = world_of([Outcome("memory")] * 9, (site,), Resources(memory_bytes=3 * GIB), retries=9)
    assert world.run() == "failed"
    assert len(placed(world)) == 2
    assert world.core.state.workflows[0].asked(0).memory_bytes == 5 * GIB
    assert last_message(world) == "no site grants more than 5 GiB of memory"


def test_memory_that_was_not_stated_starts_from_what_was_used() -> None:
    failures = [Outcome("memory", peak_memory_bytes=300 * 2**20)]
    world = world_of(failures, TWO)
    assert world.run() == "done"
    assert world.core.state.workflows[0].asked(0).memory_bytes == 600 * 2**20


def test_memory_of_which_nothing_is_known_is_left_as_it_is_elsewhere() -> None:
    world = world_of([Outcome("memory")], TWO)
    assert world.run() == "done"
    assert world.core.state.workflows[0].asked(0).memory_bytes == 0
    assert sorted(placed(world)) == [0, 1]


def test_walltime_is_doubled_within_what_sites_grant() -> None:
    sites = (SiteSpec("alpha", 1, walltime_s=100.0), SiteSpec("beta", 1, walltime_s=250.0))
    world = world_of([Outcome("walltime")] * 9, sites, Resources(walltime_s=90.0), retries=9)
    assert world.run() == "failed"
    assert len(placed(world)) == 3
    assert placed(world)[1:] == [1, 1]
    assert world.core.state.workflows[0].asked(0).walltime_s == 250.0
    assert last_message(world) == "no site grants a walltime of more than 250 s"


def test_a_walltime_that_the_site_chose_is_doubled_too() -> None:
    failures = [Outcome("walltime", started_s=10.0, ended_s=70.0)]
    world = world_of(failures, (SiteSpec("alpha", 1),))
    assert world.run() == "done"
    assert world.core.state.workflows[0].asked(0).walltime_s == 120.0


def test_growth_is_bounded_by_retries() -> None:
    world = world_of([Outcome("memory")] * 9, TWO, Resources(memory_bytes=GIB), retries=2)
    assert world.run() == "failed"
    assert world.core.state.workflows[0].asked(0).memory_bytes == 4 * GIB


def test_a_program_that_is_nowhere_is_tried_at_each_site_once() -> None:
    world = world_of([Outcome("launch-failed")] * 9, TWO, retries=9)
    assert world.run() == "failed"
    assert sorted(placed(world)) == [0, 1]


def test_a_refusing_site_is_never_asked_again() -> None:
    failures = [Outcome("refused", message="invalid account"), *[Outcome("exit")] * 2]
    world = world_of(failures, TWO)
    assert world.run() == "done"
    first, *rest = placed(world)
    assert set(rest) == {1 - first}
    assert len(rest) == 3


def test_refused_everywhere_is_final_until_a_resume() -> None:
    world = world_of([Outcome("refused", message="no such queue")] * 2, TWO, retries=9)
    assert world.run() == "failed"
    assert last_message(world) == "no such queue\nno site is left that takes it"
    assert sorted(placed(world)) == [0, 1]
    world.crash()
    assert world.run() == "done"
    assert len(placed(world)) == 3


def test_a_full_site_gets_no_more_and_the_task_goes_elsewhere() -> None:
    world = world_of([Outcome("disk-full", message="disk full")], TWO, retries=0)
    assert world.run() == "done"
    first, second = placed(world)
    assert second == 1 - first
    assert "disk-full: disk full" in (world.core.state.sites[first].pause_reason or "")


def test_what_a_task_has_come_to_ask_for_is_in_the_log() -> None:
    """The requests follow from the log without an event of their own, and a resume keeps them."""
    failures = [Outcome("memory"), Outcome("walltime"), Outcome("refused"), Outcome("exit")]
    sites = (*TWO, SiteSpec("tiny", 1, memory_bytes=GIB))
    world = world_of(failures, sites, Resources(memory_bytes=GIB, walltime_s=5.0), retries=9)
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded) and event.key.endswith(".4"):
            break
    live = world.core.state.workflows[0]
    assert live.asked(0) == Resources(memory_bytes=2 * GIB, walltime_s=10.0)
    core = Core({"0": live.workflow})
    core.replay(world.log)
    again = core.state.workflows[0]
    for field in ("asks", "masks", "avoid", "refused", "failures", "setbacks"):
        assert getattr(again, field) == getattr(live, field)
    world.crash()
    assert world.run() == "done"
    resumed = world.core.state.workflows[0]
    assert resumed.asked(0) == live.asked(0)
    assert resumed.feasible_sites(0) == 0b011


@pytest.mark.parametrize(("how", "attempts"), [("infeasible", 1), ("transient", MAX_SETBACKS + 1)])
def test_a_transfer_that_keeps_failing_costs_no_retry_but_a_missing_file_does(
    how: Literal["transient", "infeasible"], attempts: int
) -> None:
    task = Task("t0", "x", "x", inputs=(0,), runtime_s=1.0)
    workflow = Workflow("w", "w.dax", [task], [File("in", size_bytes=1)], [()])
    settings = ev.Settings("round-robin", retries=0)
    world = FakeWorld([workflow], Catalog(TWO), settings, fails=lambda copy: how)
    assert world.run() == "failed"
    assert len(placed(world)) == attempts
    assert world.core.state.failed == 1


def test_logs_whose_rules_were_others_are_read() -> None:
    """A task that an older version retried has failed for good by the present rules."""
    tasks = [Task(f"t{i}", "x", "x", resources=Resources(walltime_s=60.0)) for i in range(2)]
    workflow = Workflow("w", "w.dax", tasks, [], [(), (0,)])
    site = SiteSpec("alpha", 1, walltime_s=60.0)
    log: list[ev.Event] = [
        ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site,), (), 1),
        ev.WorkflowAdded(0.0, 0, "w", "0"),
        ev.AttemptPlaced(0.0, "r.0.0.1", 0, 0, 0),
        ev.AttemptEnded(60.0, "r.0.0.1", Outcome("walltime")),
        ev.TimerFired(61.0, "retry:0:0"),
        ev.AttemptPlaced(61.0, "r.0.0.2", 0, 0, 0),
        ev.AttemptEnded(90.0, "r.0.0.2", Outcome("done")),
        ev.AttemptPlaced(90.0, "r.0.1.1", 0, 1, 0),
        ev.AttemptEnded(95.0, "r.0.1.1", Outcome("lost")),
        ev.AttemptPlaced(95.5, "r.0.1.2", 0, 1, 0),
        ev.AttemptEnded(99.0, "r.0.1.2", Outcome("done")),
        ev.RunEnded(99.0, "done"),
    ]
    core = Core({"0": workflow})
    core.replay(msgspec.json.decode(msgspec.json.encode(log), type=list[ev.AnyEvent]))
    w = core.state.workflows[0]
    assert (w.done, w.failed, w.blocked, w.delayed, w.eligible.count) == (2, 0, 0, 0, 0)
    assert not w.open
    assert not core.state.timers


def test_a_site_that_fails_everything_costs_a_task_half_of_its_retries_at_most() -> None:
    """A task that has failed at each site goes to them in turn: the failing one is always free."""
    alpha, beta = TWO

    def result(key: str, workflow: int, task: int) -> Outcome:
        place = next(e.site for e in world.log if isinstance(e, ev.AttemptPlaced) and e.key == key)
        failures = [e for e in world.log if isinstance(e, ev.AttemptEnded)]
        good = place == 1 and len(failures) > 4
        return Outcome("done", exit_code=0) if good else Outcome("exit", exit_code=1)

    settings = ev.Settings("cluster-min", retries=6)
    world = FakeWorld([one_task(PLAIN)], Catalog((msgspec.structs.replace(alpha, speed_ratio=9.0),
                      beta)), settings, result=result)  # fmt: skip
    assert world.run() == "done"
    assert placed(world) == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("launchers", [None, LauncherSpec(cores=1, idle_timeout_s=5.0)])
def test_a_task_returns_to_a_site_where_it_failed_when_no_other_will_run_it(
    launchers: LauncherSpec | None,
) -> None:
    """The run waited for beta, and would end without the task. Launchers start at alpha anew."""
    alpha, beta = TWO
    if launchers is not None:
        access = Access(dispatch="launchers", launchers=launchers)
        alpha = msgspec.structs.replace(alpha, kind="slurm", access=access)
    world = FakeWorld(
        [one_task(PLAIN)],
        Catalog((alpha, beta)),
        ev.Settings("round-robin"),
        result=lambda key, *_: Outcome("exit" if key.endswith(".1") else "done"),
        arrive_s=(1.0,),
    )
    world.post(0.0, ev.SitePaused(0.0, 1, "its disk is full"))
    assert world.run() == "done"
    assert placed(world) == [0, 0]


def test_a_site_that_ran_a_task_does_not_refuse_it_any_more() -> None:
    """It refused a replica. The task runs again there when what it wrote is lost."""
    tasks = [Task("t0", "x", "x", outputs=(0,)), Task("t1", "x", "x", inputs=(0,))]
    core = Core({"": Workflow("w", "w.dax", tasks, [File("a", 1, producer=0)], [(), (0,)])})
    settings = ev.Settings("round-robin", replicas=1)
    specs = (SiteSpec("alpha", 4),)
    core.step(ev.RunStarted(0.0, "r", settings, specs, (), 1, own_outputs=True))
    core.step(ev.WorkflowAdded(0.0, 0, "w", ""))
    core.step(ev.AttemptEnded(1.0, "r.0.0.2", Outcome("refused")))
    core.step(ev.AttemptEnded(2.0, "r.0.0.1", Outcome("done", sizes=(1,))))
    decided, _ = core.step(ev.FilesLost(3.0, 0, ((0, 0),)))
    assert "r.0.0.3" in [e.key for e in decided if isinstance(e, ev.AttemptPlaced)]
