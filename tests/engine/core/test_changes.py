"""A run whose options and sites change when it is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from tests.engine.model.explore import Explorer
from tests.engine.model.layouts import POLICIES
from tests.engine.model.world_of import Crash, WorldSpec, world_of
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState, TaskStatus
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import (
    ORIGIN,
    Access,
    File,
    LauncherSpec,
    Moldable,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)

TWO = (SiteSpec("a", 2), SiteSpec("b", 2))
BAG = Workflow("w", "w", [Task(f"t{n}", "x", "x") for n in range(6)], [], [()] * 6)


def begun(workflow: Workflow = BAG, **options: object) -> tuple[Core, list[ev.Event]]:
    """A core after the start of a run at two sites, and its log."""
    core = Core({"w": workflow})
    settings = ev.Settings("round-robin", **options)  # type: ignore[arg-type]
    log: list[ev.Event] = []
    for event in (ev.RunStarted(0.0, "r", settings, TWO, (), 1, own_outputs=True),
                  ev.WorkflowAdded(0.0, 0, "w", "w")):  # fmt: skip
        log += [event, *core.step(event)[0]]
    return core, log


def changed(
    core: Core, log: list[ev.Event], *events: ev.Event, lost: tuple[tuple[int, int, int], ...] = ()
) -> tuple[Core, list[ev.Event], list[act.Action]]:
    """A new engine that applies these events before it resumes the run: its core, decisions and
    actions."""
    again = Core(core.state.documents)
    again.replay(log)
    for event in events:
        again.apply_undecided(event)
    return again, *again.step(ev.RunResumed(9.0, lost))


def change(core: Core, sites: tuple[SiteSpec, ...] = TWO, left: tuple[int, ...] = (),
           **options: object) -> ev.RunChanged:  # fmt: skip
    settings = msgspec.structs.replace(core.state.settings, **options)
    return ev.RunChanged(8.0, settings, sites, (), left)


def places(events: list[ev.Event]) -> list[tuple[int, int]]:
    return [(e.task, e.site) for e in events if isinstance(e, ev.AttemptPlaced)]


def test_a_throttle_that_is_added_and_one_that_is_raised() -> None:
    core, log = begun(throttle=2)
    assert places(log) == [(0, 0), (1, 1)]
    again, decided, _ = changed(core, log, change(core, throttle=5))
    assert [task for task, _ in places(decided)] == [2, 3, 4]
    again, decided, _ = changed(core, log, change(core, throttle=1))
    assert places(decided) == []
    decided, _ = again.step(ev.AttemptEnded(10.0, "r.0.0.1", Outcome("done")))
    assert places(decided) == []
    decided, _ = again.step(ev.AttemptEnded(10.0, "r.0.1.1", Outcome("done")))
    assert len(places(decided)) == 1


def test_retries_that_are_raised() -> None:
    core, log = begun(retries=0)
    for number in range(6):
        event = ev.AttemptEnded(1.0, f"r.0.{number}.1", Outcome("exit", exit_code=1))
        log += [event, *core.step(event)[0]]
    assert core.state.ended == "failed"
    again, decided, _ = changed(core, log, change(core, retries=1))
    assert len(places(decided)) == 6
    again.step(ev.AttemptEnded(10.0, "r.0.0.2", Outcome("exit", exit_code=1)))
    assert again.state.counts[TaskStatus.DELAYED] == 1


def test_a_new_site_gets_tasks_and_reads_files_of_the_submit_host() -> None:
    workflow = Workflow("w", "w", [Task("t", "x", "x", inputs=(0,))] * 1, [File("in")], [()])
    core, log = begun(workflow)
    event = ev.TransferFailed(1.0, 0, 0, ORIGIN, 0, "no room", False)
    log += [event, *core.step(event)[0]]
    third = SiteSpec("c", 2)
    again, _, _ = changed(core, log, change(core, (*TWO, third), left=(0, 1)))
    again.step(ev.TimerFired(10.0, "retry:0:0"))
    assert again.state.attempts["r.0.0.2"].site == 2
    assert again.state.copies.keys() == {(0, 0, 2)}


def test_attempts_at_a_site_that_left() -> None:
    """One runs, one waits there, one was never submitted: the first is awaited, the others are
    withdrawn, and their tasks run elsewhere."""
    core, log = begun(throttle=6)
    keys = ["r.0.0.1", "r.0.2.1", "r.0.4.1"]
    for event in (
        ev.AttemptsSubmitted(1.0, 0, tuple(keys[:2])),
        ev.AttemptStarted(2.0, keys[0]),
    ):
        log += [event, *core.step(event)[0]]
    again, _, actions = changed(core, log, change(core, left=(0,)))
    (find,) = [a for a in actions if isinstance(a, act.FindAttempts) and a.site == 0]
    assert find.keys == tuple(keys)
    decided, actions = again.step(ev.AttemptsFound(9.0, 0, (keys[2],), tuple(keys[:2])))
    assert places(decided) == [(4, 1)]
    assert act.CancelAttempts(0, (keys[1],), queued_only=True) in actions
    decided, _ = again.step(ev.AttemptEnded(10.0, keys[1], Outcome("cancelled")))
    assert places(decided) == [(2, 1)]
    again.step(ev.AttemptEnded(11.0, keys[0], Outcome("done")))
    assert again.state.sites[0].done == 1
    assert not again.state.sites[0].is_healthy
    assert again.state.sites[0].committed_cores == 0


def test_a_site_that_is_back_in_the_catalog() -> None:
    core, log = begun(throttle=1)
    again, _, _ = changed(core, log, change(core, left=(0,)), change(core, throttle=6))
    assert again.state.sites[0].is_healthy
    assert {a.site for a in again.state.attempts.values()} == {0, 1}


def test_a_policy_that_keeps_to_a_site_goes_on_with_it() -> None:
    workflow = msgspec.structs.replace(BAG)
    core = Core({"w": workflow})
    log: list[ev.Event] = []
    settings = ev.Settings("single-cluster", throttle=1)
    for event in (
        ev.RunStarted(0.0, "r", settings, TWO, (), 1),
        ev.SiteLoadObserved(0.0, 0, 2, 2),
        ev.WorkflowAdded(0.0, 0, "w", "w"),
        ev.SiteLoadObserved(1.0, 0, 0, 0),
        ev.SiteLoadObserved(1.0, 1, 2, 2),
        ev.AttemptEnded(2.0, "r.0.0.1", Outcome("done")),
    ):
        log += [event, *core.step(event)[0]]
    assert places(log) == [(0, 1), (1, 1)]
    _, decided, _ = changed(core, log, change(core, throttle=4))
    assert [site for _, site in places(decided)] == [1, 1, 1]


# Random worlds


class Changing(Explorer):
    """An explorer that changes the run at each crash, and checks that nothing is placed at sites
    that left."""

    def __init__(self, spec: WorldSpec) -> None:
        super().__init__(spec, traces=False)
        self.changes = Random(f"change {spec.seed}")

    def _flush(self, actions: object) -> None:
        """The auditor knows no changes."""
        self._pending = []

    def _check_usage(self, owner: str, counted_s: float, least_s: float, most_s: float) -> None:
        """The auditor has counted nothing."""

    def _take(
        self, event: ev.Event, decided: Sequence[ev.Event], actions: Sequence[act.Action]
    ) -> None:
        super()._take(event, decided, actions)
        state = self.world.core.state
        for one in decided:
            if isinstance(one, ev.AttemptPlaced) and state.left >> one.site & 1:
                self._note("left", f"{one} is placed at a site that left")

    def _crash(self, crash: Crash) -> None:
        super()._crash(crash)
        state, draw = self.world.core.state, self.changes
        settings = msgspec.structs.replace(
            state.settings,
            policy=draw.choice(POLICIES),
            policy_options={},
            throttle=draw.choice([None, 1, 3, state.settings.throttle]),
            replicas=draw.choice([None, 0, 1]),
        )
        sites = tuple(site.spec for site in state.sites)
        left: tuple[int, ...] = ()
        if draw.random() < 0.5:
            wide = SiteSpec(f"new{len(sites)}", 64, gpus=8)
            left = tuple(n for n in range(len(sites)) if draw.random() < 0.5)
            sites = (*sites, wide)
        if state.is_complete and state.workflows:
            now_s = self.world.now_s
            self.world.change(ev.RunChanged(now_s, settings, sites, state.links, left))


def _shown(state: RunState) -> list[object]:
    return [
        [(bytes(w.status), list(w.present), sorted(w.lost)) for w in state.workflows],
        sorted((a.key, a.site, a.phase, a.withdrawn) for a in state.attempts.values()),
        [(s.committed_cores, s.phases, s.is_healthy, s.slots) for s in state.sites],
    ]


FOUND = (151, 247, 259, 263, 376)
"""Seeds of worlds in which a replay decided otherwise after a change, or replicas of a task
outlived its success because the run was resumed without replicas."""


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(30), range(30, 60), FOUND])
def test_random_worlds_that_change(seeds: Sequence[int]) -> None:
    """They end, and a replay of their logs leads to the same state and the same decisions."""
    explored = 0
    for seed in seeds:
        spec = world_of(seed)
        if len(spec.queues) > 1 or not spec.crashes:
            continue
        explored += 1
        explorer = Changing(spec)
        explorer.run()
        assert not explorer.violations, (seed, explorer.violations[0], spec.describe())
        core = Core({str(i): w for i, w in enumerate(spec.workflows)})
        core.replay(explorer.world.log)
        assert _shown(core.state) == _shown(explorer.world.core.state), seed
    assert explored >= len(FOUND)


@pytest.mark.parametrize("backfills", [False, True])
@pytest.mark.parametrize("policy", ["heft", "ect", "mst", "rr", "cluster-min"])
def test_a_site_with_fewer_cores_than_an_open_attempt_holds(policy: str, backfills: bool) -> None:
    """The attempt that runs there is awaited. One that the site does not have is not submitted
    there again."""
    tasks = [
        Task(f"t{n}", "x", "x", resources=Resources(cores), runtime_s=10.0)
        for n, cores in enumerate((8, 4, 1, 1))
    ]
    workflow = Workflow("w", "w", tasks, [], [()] * 4)
    for is_there in (True, False):
        core = Core({"w": workflow})
        settings = ev.Settings(policy)
        wide, narrow = (SiteSpec("a", slots, backfills=backfills) for slots in (16, 3))
        log: list[ev.Event] = []
        for event in (ev.RunStarted(0.0, "r", settings, (wide,), (), 1, own_outputs=True),
                      ev.WorkflowAdded(0.0, 0, "w", "w"),
                      ev.AttemptStarted(1.0, "r.0.0.1")):  # fmt: skip
            log += [event, *core.step(event)[0]]
        again, _, _ = changed(core, log, change(core, (narrow,)))
        keys = tuple(again.state.attempts)
        found = (("r.0.0.1",), keys[1:]) if not is_there else ((), keys)
        _, actions = again.step(ev.AttemptsFound(9.0, 0, *found))
        submitted = {
            key for a in actions if isinstance(a, act.SubmitAttempts) for key, _, _ in a.attempts
        }
        assert "r.0.0.1" not in submitted
        for key in keys:
            again.step(ev.AttemptEnded(30.0, key, Outcome("done")))
        for timer, at_s in list(again.state.timers.items()):
            again.step(ev.TimerFired(at_s, timer))
        if is_there:
            assert again.state.ended == "done"
        else:
            assert again.state.ended == "failed"
            reason = "task 't0', which needs 8 cores, fits no site of the catalog"
            assert again.state.end_reason is not None
            assert again.state.end_reason.startswith(reason)


def test_an_attempt_that_waits_for_inputs_where_it_does_not_fit_any_more() -> None:
    """It is given up, and not submitted when its inputs arrive."""
    wide = Task("t", "x", "x", inputs=(0,), resources=Resources(2))
    workflow = Workflow("w", "w", [wide], [File("in")], [()])
    core, log = begun(workflow)
    assert places(log) == [(0, 0)]
    narrow = (SiteSpec("a", 1), SiteSpec("b", 2))
    again, decided, _ = changed(core, log, change(core, narrow))
    assert places(decided) == [(0, 1)]
    assert list(again.state.attempts) == ["r.0.0.2"]


@pytest.mark.parametrize("how", ["left", "held"])
def test_no_launcher_is_requested_for_attempts_that_are_taken_back(how: str) -> None:
    launchers = LauncherSpec(cores=2, max=2, idle_timeout_s=1e6)
    access = Access(dispatch="launchers", launchers=launchers)
    sites = (SiteSpec("a", 4, kind="slurm", access=access), SiteSpec("b", 2))
    workflow = Workflow("w", "w", [Task("t", "x", "x")], [], [()])
    core = Core({"w": workflow})
    log: list[ev.Event] = []
    for event in (
        ev.RunStarted(0.0, "r", ev.Settings("round-robin"), sites, (), 1, own_outputs=True),
        ev.SiteHeld(0.0, 1),
        ev.WorkflowAdded(0.0, 0, "w", "w"),
        ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 2, 900.0, "tcp", 0.0),
        ev.SiteFreed(2.0, 1),
    ):
        log += [event, *core.step(event)[0]]
    assert places(log) == [(0, 0)]
    end = ev.LauncherEnded(3.0, 0, "r.L0.1", "lost")
    if how == "held":
        core.step(ev.SiteHeld(3.0, 0))
        decided, _ = core.step(end)
    else:
        _, decided, _ = changed(core, log, change(core, sites, left=(0,)), end)
    assert not [e for e in decided if isinstance(e, ev.LaunchersAsked)]


@pytest.mark.parametrize("reallocate", ["mct-reg", "minmin-can"])
def test_jobs_are_placed_beside_one_that_is_wider_than_its_site(reallocate: str) -> None:
    """The queue there has it, and starts it or not."""
    wide, small = (Resources(n, walltime_s=9.0, parallel=True) for n in (4, 1))
    tasks = [Task("t0", "x", "x", resources=wide), Task("t1", "x", "x", resources=small)]
    moldable = {1: Moldable((1, 2), (9.0, 5.0))}
    workflow = Workflow("w", "w", tasks, [], [(), ()], moldable=moldable)
    core = Core({"w": workflow})
    settings = ev.Settings("mst", sizing="binary", reallocate=reallocate)  # type: ignore[arg-type]
    log: list[ev.Event] = []
    for event in (
        ev.RunStarted(0.0, "r", settings, (SiteSpec("a", 4),), (), 1, own_outputs=True),
        ev.WorkflowAdded(0.0, 0, "w", "w"),
        ev.AttemptsSubmitted(0.0, 0, ("r.0.0.1", "r.0.1.1")),
    ):
        log += [event, *core.step(event)[0]]
    narrow = (SiteSpec("a", 2), SiteSpec("b", 4))
    again, _, _ = changed(core, log, change(core, narrow))
    again.step(ev.AttemptsFound(9.0, 0, (), ("r.0.0.1", "r.0.1.1")))
    again.step(ev.TimerFired(again.state.timers["reallocation"], "reallocation"))
    decided, _ = again.step(ev.AttemptEnded(4000.0, "r.0.1.1", Outcome("preempted")))
    decided, _ = again.step(ev.TimerFired(4001.0, "retry:0:1"))
    assert places(decided) == [(1, 1)]


def test_the_load_of_other_users_is_known_after_a_change() -> None:
    core, log = begun(throttle=1)
    event = ev.SiteLoadObserved(1.0, 1, 2, 0)
    log += [event, *core.step(event)[0]]
    again, _, _ = changed(core, log, change(core, (TWO[0], SiteSpec("b", 3))))
    assert (again.state.sites[1].slots, again.state.sites[1].slots_now) == (3, 1)
    assert not again.state.sites[1].others_wait


def test_an_absent_job_whose_size_a_site_has_no_more_is_sized_anew() -> None:
    job = Task("t", "x", "x", resources=Resources(1, walltime_s=90.0, parallel=True))
    moldable = {0: Moldable((1, 4), (90.0, 20.0))}
    workflow = Workflow("w", "w", [job], [], [()], moldable=moldable)
    core = Core({"w": workflow})
    log: list[ev.Event] = []
    settings = ev.Settings("mst", sizing="binary")
    for event in (ev.RunStarted(0.0, "r", settings, (SiteSpec("a", 4),), (), 1, own_outputs=True),
                  ev.WorkflowAdded(0.0, 0, "w", "w")):  # fmt: skip
        log += [event, *core.step(event)[0]]
    again, _, _ = changed(core, log, change(core, (SiteSpec("a", 2),)))
    assert again.state.attempts["r.0.0.1"].cores == 4
    decided, _ = again.step(ev.AttemptsFound(9.0, 0, ("r.0.0.1",), ()))
    assert [e.size for e in decided if isinstance(e, ev.AttemptPlaced)] == [1]


def test_a_new_site_belongs_to_all_resource_managers() -> None:
    core = Core({"w": BAG})
    log: list[ev.Event] = []
    settings = ev.Settings("round-robin", selection="s-bot")
    for event in (
        ev.RunStarted(0.0, "r", settings, TWO, (), 2, ((0,), (1,)), own_outputs=True),
        ev.WorkflowAdded(0.0, 0, "w", "w", 0),
        ev.WorkflowAdded(0.0, 1, "w", "w", 1),
    ):
        log += [event, *core.step(event)[0]]
    again, decided, _ = changed(core, log, change(core, (*TWO, SiteSpec("c", 2)), left=(1,)))
    assert again.state.queues == [0b101, 0b110]
    assert {e.site for e in decided if isinstance(e, ev.AttemptPlaced)} == {2}
