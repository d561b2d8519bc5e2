"""Why a task does not run, by the state of the run: each kind of reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.engine.core.test_invariants import make_world
from tests.engine.explain.test_idleness import ALPHA, BETA, Run, tasks
from tests.engine.strategies import catalogs, settings_of_runs, workflows
from wfrun.engine import events as ev
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.obstacles import Reason, site_obstacle
from wfrun.engine.explain.waiting import explain_task
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
from wfrun.testing.fake_world import FakeWorld

EXIT = Outcome("exit", exit_code=1)
DONE = Outcome("done", exit_code=0)


def reasons(run: Run, task: int) -> list[Reason]:
    return explain_task(run.core.run, run.core.state.workflows[0], task)


def kinds(run: Run, task: int) -> list[str]:
    return [reason.kind for reason in reasons(run, task)]


def obstacle(run: Run, task: int, site: int) -> Reason | None:
    return site_obstacle(run.core.run, run.core.state.workflows[0], task, site)


def wide_and_narrow() -> Workflow:
    """Two narrow tasks, a wide one, and two more narrow ones, as a bag has them: late binding."""
    widths = (1, 1, 2, 1, 1)
    some = [Task(f"t{n}", "x", "x", resources=Resources(w)) for n, w in enumerate(widths)]
    return Workflow("w", "w.dax", some, [], [()] * len(some))


def test_predecessors_are_named_with_what_they_do() -> None:
    run = Run(tasks(4, parents=[(), (), (0, 1), (2,)]), ALPHA)
    run.step(ev.AttemptStarted(2.0, run.submitted[0][1]))
    assert reasons(run, 2) == [
        Reason("predecessors", "task t0 runs at alpha", since_s=2.0),
        Reason("predecessors", "task t1 waits in the queue of alpha", since_s=1.0),
    ]
    first, second = reasons(run, 3)
    assert first == Reason("predecessors", "task t2 waits for predecessors")
    assert second.text == "3 tasks before it are not done; ready or under way: task t0, task t1"


def test_many_predecessors_are_counted() -> None:
    run = Run(tasks(10, parents=[*[()] * 9, tuple(range(9))]), ALPHA)
    run.step(ev.AttemptEnded(2.0, run.submitted[0][1], DONE))
    found = reasons(run, 9)
    assert len(found) == 6
    assert found[-1].text == "3 more of 8 that are not done"


def test_the_failed_task_before_a_blocked_one_is_named() -> None:
    run = Run(tasks(3, parents=[(), (0,), (1,)]), ALPHA)
    for number in range(4):
        run.step(ev.AttemptEnded(2.0 + number, run.submitted[-1][1], EXIT))
        for timer, at_s in list(run.core.state.timers.items()):
            run.step(ev.TimerFired(at_s, timer))
    assert run.core.state.failed == 1
    assert reasons(run, 2) == [Reason("blocked", "task t0 before it has failed")]


def test_a_retry_has_its_time() -> None:
    run = Run(tasks(1), ALPHA)
    run.step(ev.AttemptEnded(2.0, run.submitted[0][1], EXIT))
    ((timer, at_s),) = run.core.state.timers.items()
    assert timer.startswith("retry:")
    assert reasons(run, 0) == [Reason("retry", "it failed 1 time and is tried again", until_s=at_s)]


def test_a_throttle_and_the_tasks_that_go_first() -> None:
    run = Run(tasks(5), ALPHA, throttle=2)
    assert reasons(run, 4) == [
        Reason("throttle", "throttle (2) reached: 2 tasks of w dispatched"),
        Reason("order", "2 tasks of w go first"),
    ]


def test_the_room_that_each_site_lacks() -> None:
    run = Run(tasks(3, cores=3), ALPHA, SiteSpec("small", 2), policy="fpf")
    assert reasons(run, 2)[-2:] == [
        Reason("room", "needs 3 cores, 1 of 4 free", 0),
        Reason("misfit", "it asks for 3 cores; the site offers 2 cores", 1),
    ]


def test_a_site_that_is_paused_or_where_the_task_has_failed() -> None:
    run = Run(tasks(1), ALPHA, BETA)
    run.step(ev.AttemptEnded(2.0, run.submitted[0][1], EXIT))
    assert obstacle(run, 0, 0) == Reason("failed-there", "the task has failed there", 0)
    run.step(ev.SitePaused(3.0, 1, "it needs a login"))
    assert obstacle(run, 0, 1) == Reason("paused", "paused: it needs a login", 1)


def test_cores_that_are_kept_for_a_wider_task() -> None:
    run = Run(wide_and_narrow(), SiteSpec("alpha", 2), SiteSpec("b", 1), policy="fpf")
    run.start(0)
    run.step(ev.AttemptEnded(3.0, run.submitted[0][1], DONE))
    w = run.core.state.workflows[0]
    waiting = [t for t, status in enumerate(w.status) if status == TaskStatus.ELIGIBLE]
    assert 2 in waiting
    kept = [obstacle(run, task, 0) for task in waiting if task != 2]
    text = "its cores are kept for task t2, which is wider"
    assert kept
    assert set(kept) == {Reason("reservation", text, 0)}


@pytest.mark.parametrize("policy", ["ect", "heft"])
def test_what_holds_a_task_back_is_named(policy: str) -> None:
    """ECT does so whatever the throttle is."""
    run = Run(tasks(3), SiteSpec("alpha", 1), policy=policy)
    held = {"ect": "policy ect", "heft": "throttle auto"}[policy]
    text = f"{held} holds it back until a site could start it soon"
    assert Reason("throttle", text) in reasons(run, 2)


def test_a_policy_that_waits_for_a_faster_site() -> None:
    run = Run(tasks(4), ALPHA, SiteSpec("fast", 1, speed_ratio=8.0), policy="heft")
    found = reasons(run, 3)
    assert Reason("policy", "policy heft prefers to wait for fast") in found


def test_a_policy_that_waits_for_its_cluster() -> None:
    """Beside launchers alpha takes twice as many tasks as it has cores; beta could take more."""
    access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(cores=4, max=2))
    launchers = SiteSpec("c", 8, kind="slurm", access=access)
    run = Run(tasks(12), ALPHA, BETA, launchers, policy="single-cluster")
    assert {site for site, _ in run.submitted} == {0}
    found = [reason for reason in reasons(run, 11) if reason.kind == "policy"]
    text = "the workflow waits for room at the cluster that it was mapped to"
    assert found == [Reason("policy", f"policy single-cluster leaves it unplaced: {text}")]


def test_a_run_that_is_being_stopped() -> None:
    run = Run(tasks(5), ALPHA, throttle=2)
    run.step(ev.CancelAsked(3.0, "drain"))
    assert reasons(run, 4) == [Reason("stopping", "the run starts no further task")]


def test_inputs_on_their_way() -> None:
    files = [File("in", size_bytes=5_000_000), File("small", size_bytes=100)]
    task = Task("t", "x", "x", inputs=(0, 1), runtime_s=1.0)
    run = Run(Workflow("w", "w.dax", [task], files, [()]), ALPHA)
    assert reasons(run, 0) == [
        Reason("inputs", "in (5 MB) from here: under way", 0, 1.0),
        Reason("inputs", "small (100 B) from here: under way", 0, 1.0),
    ]
    run.step(ev.TransferEnded(2.0, 0, 1, -1, 0, 100, 1.0))
    run.step(ev.TransferFailed(3.0, 0, 0, -1, 0, "broken", True))
    (found,) = reasons(run, 0)
    assert found.text == "in (5 MB) from here: copied again after 1 failure"
    assert found.until_s == run.core.state.timers["copy:0:0:0"]


def test_a_large_copy_that_waits_for_another() -> None:
    files = [File("one", size_bytes=5_000_000), File("two", size_bytes=10_000_000)]
    task = Task("t", "x", "x", inputs=(0, 1), runtime_s=1.0)
    site = SiteSpec("alpha", 4, max_transfers=1)
    run = Run(Workflow("w", "w.dax", [task], files, [()]), site)
    assert [reason.text for reason in reasons(run, 0)] == [
        "one (5 MB) from here: under way",
        "two (10 MB) from here: waits for other large copies",
    ]


def test_the_place_in_a_queue() -> None:
    run = Run(tasks(4), ALPHA)
    keys = [key for _, key in run.submitted]
    run.step(ev.AttemptsSubmitted(2.0, 0, tuple(keys[:3])))
    run.step(ev.AttemptStarted(3.0, keys[0]))
    assert reasons(run, 0) == [Reason("running", "runs", 0, 3.0)]
    text = "1 task running; number 2 of 3 of this run in its queue"
    assert reasons(run, 2) == [Reason("queue", text, 0)]
    assert kinds(run, 3) == ["submission", "queue"]


def test_the_place_in_a_queue_follows_the_arrival_of_inputs() -> None:
    files = [File("in", size_bytes=5_000_000)]
    late = Task("late", "x", "x", inputs=(0,), runtime_s=1.0)
    early = Task("early", "x", "x", runtime_s=1.0)
    run = Run(Workflow("w", "w.dax", [late, early], files, [(), ()]), ALPHA)
    run.step(ev.TransferEnded(2.0, 0, 0, -1, 0, 5_000_000, 1.0))
    run.step(ev.AttemptsSubmitted(3.0, 0, tuple(key for _, key in run.submitted)))
    assert "number 2 of 2" in reasons(run, 0)[-1].text
    assert "number 1 of 2" in reasons(run, 1)[-1].text


def test_launchers_that_start() -> None:
    access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(cores=4, max=2))
    run = Run(tasks(9), SiteSpec("c", 8, kind="slurm", access=access))
    assert reasons(run, 8)[-1] == Reason("launchers", "2 launchers starting", 0, 1.0)


def test_a_task_that_is_done_has_no_reason() -> None:
    run = Run(tasks(1), ALPHA)
    run.step(ev.AttemptEnded(2.0, run.submitted[0][1], DONE))
    assert reasons(run, 0) == []


def test_a_task_whose_policy_is_asked_again_after_the_next_event() -> None:
    """The policy waits for an idle site of its workflow; then all sites are busy, and prefetch."""
    several = [
        Workflow("w", "w.dax", [Task(f"t{n}", "x", "x", runtime_s=9.0) for n in range(tasks)], [],
                 [()] * tasks)
        for tasks in (1, 3, 1)
    ]  # fmt: skip
    specs = tuple(SiteSpec(name, 2, backfills=False) for name in ("alpha", "beta"))
    settings = ev.Settings("single-cluster", replication="stragglers")
    world = FakeWorld(several, Catalog(specs), settings)
    steps = world.steps()
    for _ in range(4):
        next(steps)
    w = world.core.state.workflows[1]
    assert TaskStatus(w.status[2]) is TaskStatus.ELIGIBLE
    reasons = [reason.text for reason in explain_task(world.core.run, w, 2)]
    expected = "policy single-cluster left it unplaced, and is asked again after the next event"
    assert expected in reasons


def test_a_task_that_its_policy_left_unplaced_beside_selection() -> None:
    several = [tasks(count) for count in (1, 7, 1)]
    settings = ev.Settings("single-cluster", selection="s-t")
    catalog = Catalog((SiteSpec("alpha", 2, 0.5), SiteSpec("beta", 2, 0.5)))
    world = make_world(several, catalog, settings, 0, 0.0)
    said = set()
    for _ in world.steps():
        run, state = world.core.run, world.core.state
        for w in state.workflows:
            for task, status in enumerate(w.status):
                if status == TaskStatus.ELIGIBLE:
                    found = explain_task(run, w, task)
                    assert found
                    said |= {reason.text for reason in found}
    assert "policy single-cluster left it unplaced, and is asked again after the next event" in said


@pytest.mark.slow
@hypothesis_settings(max_examples=40, deadline=None)
@given(
    several=st.lists(workflows(max_tasks=12), min_size=1, max_size=3),
    catalog=catalogs(),
    settings=settings_of_runs(),
    seed=st.integers(0, 2**32),
)
def test_every_task_that_waits_has_a_reason_in_every_state(
    several: list[Workflow], catalog: Catalog, settings: ev.Settings, seed: int
) -> None:
    """After each event: a task that is neither done nor failed has one, and each site without it is
    either a candidate or has an obstacle."""
    world = make_world(several, catalog, settings, seed, 0.1)
    for _ in world.steps():
        run, state = world.core.run, world.core.state
        for w in state.workflows:
            for task, status in enumerate(w.status):
                found = explain_task(run, w, task)
                cores = w.workflow.tasks[task].resources.cores
                open_sites = {
                    n for n in range(len(state.sites)) if site_obstacle(run, w, task, n) is None
                }
                if status == TaskStatus.ELIGIBLE:
                    candidates = run.candidates(w, task, cores)
                    assert sum(1 << n for n in open_sites) == candidates
                if status in (TaskStatus.DONE, TaskStatus.FAILED):
                    assert not found
                elif status != TaskStatus.DISPATCHED:  # its attempts may all be superseded
                    assert found, (TaskStatus(status), state.now_s)


def test_what_the_batch_system_says_of_a_job_that_waits() -> None:
    run = Run(tasks(2), ALPHA)
    run.step(ev.AttemptsSubmitted(2.0, 0, tuple(key for _, key in run.submitted)))
    run.step(ev.JobsWait(3.0, 0, "JobHeldUser", 2))
    (reason,) = reasons(run, 1)
    assert reason.text.endswith("number 2 of 2 of this run in its queue, held: JobHeldUser")
