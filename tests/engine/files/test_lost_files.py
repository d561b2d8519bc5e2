"""Lost files: tasks that wrote files that are still needed are repeated, and no others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.amounts import examples
from tests.engine.policies.test_policies import chain, sites
from tests.engine.strategies import catalogs, settings_of_runs, workflows
from wfrun.engine import events as ev
from wfrun.engine.core.actions import CopyFile, SubmitAttempts
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.files.file_events import MAX_REMAKES
from wfrun.engine.model import ORIGIN, Catalog, File, SiteSpec, Task, Workflow
from wfrun.engine.tasks.retry import MAX_SETBACKS
from wfrun.testing.fake_sites import Behaviour
from wfrun.testing.fake_world import FakeWorld


def starts(world: FakeWorld) -> list[str]:
    """Tasks in the order of their starts."""
    return [
        f"t{event.key.split('.')[2]}" for event in world.log if isinstance(event, ev.AttemptStarted)
    ]


def test_what_nothing_needs_any_more_is_not_done_again() -> None:
    """t0 → t1 → t2; the engine dies when t1 is done. The file of t0 is lost, and no task needs
    it."""
    workflow = chain((0, 1, 9), (1, 2, 9), runtimes_s=[1.0, 1.0, 1.0])
    world = FakeWorld([workflow], sites((1, 1.0)), ev.Settings(policy="round-robin"))
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded) and event.key.split(".")[2] == "1":
            break
    world.crash(lost=((0, 0, 0),))
    assert world.run() == "done"
    assert sorted(set(starts(world))) == ["t0", "t1", "t2"]
    assert starts(world).count("t0") == starts(world).count("t1") == 1


def test_a_lost_input_of_a_waiting_task_is_made_again_from_the_start() -> None:
    workflow = chain((0, 1, 9), (1, 2, 9), runtimes_s=[1.0, 1.0, 1.0])
    world = FakeWorld([workflow], sites((1, 1.0)), ev.Settings(policy="round-robin"))
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded) and event.key.split(".")[2] == "1":
            break
    world.crash(lost=((0, 0, 0), (0, 1, 0)))
    assert world.run() == "done"
    assert [t for t in starts(world) if t != "t2"] == ["t0", "t1", "t0", "t1"]


def test_a_file_that_is_elsewhere_too_is_not_made_again() -> None:
    workflow = chain((0, 1, 9), (0, 2, 9), runtimes_s=[1.0, 9.0, 9.0])
    world = FakeWorld([workflow], sites((1, 1.0), (1, 1.0)), ev.Settings(policy="round-robin"))
    for event in world.steps():
        if isinstance(event, ev.TransferEnded):
            break
    world.crash(lost=((0, 0, 0), (0, 1, 0)))
    assert world.run() == "done"
    assert world.core.state.workflows[0].done == 3


class Vanishing(Behaviour):
    """File 0 vanishes where it is read, some times."""

    def __init__(self, times: int) -> None:
        self._times = times

    def vanishes(self, key: str, workflow: int, file: int, site: int) -> bool:
        self._times -= file == 0
        return file == 0 and self._times >= 0


@pytest.mark.parametrize("times", [1, MAX_REMAKES])
def test_a_file_that_vanished_where_it_is_read_costs_no_retry(times: int) -> None:
    workflow = chain((0, 1, 9), (1, 2, 9), runtimes_s=[1.0, 1.0, 1.0])
    run = ev.Settings(policy="round-robin", retries=0)
    world = FakeWorld([workflow], sites((1, 1.0)), run, behaviour=Vanishing(times))
    assert world.run() == "done"
    assert starts(world) == ["t0", "t1"] * times + ["t0", "t1", "t2"]
    assert not world.core.state.sites[0].conditions


def test_a_copy_of_a_file_that_was_written_again_does_not_count() -> None:
    """The copy of an output stalls; its task runs again, since its reader missed the file. The end
    of the copy says nothing of what was written then, which is copied next."""
    workflow = chain((0, 1, 9), (1, 2, 9), runtimes_s=[1.0, 1.0, 1.0])
    final = replace(workflow.files[0], collect=True)
    workflow = replace(workflow, files=[final, *workflow.files[1:]])
    world = FakeWorld(
        [workflow],
        sites((1, 1.0)),
        ev.Settings(policy="round-robin"),
        behaviour=Vanishing(1),
        stalled_s=lambda _: 100.0 if len(starts(world)) == 1 else 0.0,
    )
    assert world.run() == "done"
    assert starts(world) == ["t0", "t1", "t0", "t1", "t2"]
    ended_s = [e.at_s for e in world.log if isinstance(e, ev.TransferEnded)]
    assert len(ended_s) == 2
    assert 100.0 < ended_s[0] <= ended_s[1]
    assert world.core.state.workflows[0].present[0] & world.core.state.network.bit(ORIGIN)


def test_a_file_that_vanishes_each_time_fails_its_reader() -> None:
    workflow = chain((0, 1, 9), (1, 2, 9), runtimes_s=[1.0, 1.0, 1.0])
    run = ev.Settings(policy="round-robin", retries=0)
    world = FakeWorld([workflow], sites((1, 1.0)), run, behaviour=Vanishing(99))
    assert world.run() == "failed"
    assert starts(world) == ["t0", "t1"] * (MAX_REMAKES + 1)
    failure = world.core.state.recent_failures[-1]
    assert failure.final
    assert "'0-1' vanished at alpha after it was made again 3 times" in failure.message


def test_an_input_that_vanishes_each_time_is_copied_a_limited_number_of_times() -> None:
    workflow = Workflow("w", "w", [Task("t", "x", "x", inputs=(0,))], [File("in", 9)], [()])
    run = ev.Settings(policy="round-robin", retries=0)
    world = FakeWorld([workflow], sites((1, 1.0)), run, behaviour=Vanishing(99))
    assert world.run() == "failed"
    assert len(starts(world)) == MAX_SETBACKS + 1


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(workflows(max_tasks=12), min_size=1, max_size=2),
    catalogs(),
    settings_of_runs(),
    st.integers(0, 1000),
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.sampled_from([0.2, 1.0]),
)
def test_any_loss_is_made_good(
    several: list[Workflow],
    catalog: Catalog,
    run: ev.Settings,
    seed: int,
    gaps: list[int],
    share: float,
) -> None:
    """Files vanish with every crash; each run ends done, and no attempt is submitted to a site
    that lacks an input."""
    world = FakeWorld(several, catalog, run)
    random = Random(seed)
    gaps[0] += 1 + len(several)
    for gap in gaps:
        for count, _ in enumerate(world.steps(), start=1):
            if count == gap:
                break
        if world.core.state.ended is not None:
            break
        world.crash(lost=_some_files(world, random, share))
    held = len(world.log)
    given = len(world.actions)
    for _ in world.steps():
        for action in world.actions[given:]:
            if isinstance(action, SubmitAttempts):
                _check_inputs(world, action)
        given = len(world.actions)
    state = world.core.state
    assert state.ended == "done", world.log[held:][-3:]
    assert state.done == sum(len(w.tasks) for w in several)
    for w in state.workflows:
        assert all(w.present[f] for t in w.workflow.tasks for f in t.outputs if _final(w, f))


def _final(w: object, file: int) -> bool:
    workflow: Workflow = w.workflow  # type: ignore[attr-defined]
    return workflow.files[file].collect


def _some_files(world: FakeWorld, random: Random, share: float) -> tuple[tuple[int, int, int], ...]:
    return tuple(
        (w.index, file, site)
        for w in world.core.state.workflows
        for file, record in enumerate(w.workflow.files)
        for site in range(len(world.catalog.sites))
        if record.producer is not None and w.present[file] >> site & 1 and random.random() < share
    )


def _check_inputs(world: FakeWorld, action: SubmitAttempts) -> None:
    state = world.core.state
    assert action.site != ORIGIN
    for key, number, task in action.attempts:
        if key not in state.attempts:
            continue
        w = state.workflows[number]
        for file in w.workflow.tasks[task].inputs:
            assert w.present[file] >> action.site & 1


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(workflows(max_tasks=12), min_size=1, max_size=2),
    catalogs(),
    settings_of_runs(),
    st.integers(0, 1000),
)
def test_files_that_vanish_before_they_are_copied(
    several: list[Workflow], catalog: Catalog, run: ev.Settings, seed: int
) -> None:
    """Each file vanishes at most twice: every run ends done, and no attempt is submitted to a site
    that lacks an input."""
    random = Random(seed)
    tries: dict[tuple[int, int], int] = {}

    def fails(action: CopyFile) -> Literal["absent"] | None:
        file = action.workflow, action.file
        if action.source == ORIGIN:
            return None
        tries.setdefault(file, -4 * random.choice((0, 0, 1, 2)))
        tries[file] += 1
        return "absent" if tries[file] <= 0 else None

    world = FakeWorld(several, catalog, run, fails=fails)
    given = 0
    for _ in world.steps():
        for action in world.actions[given:]:
            if isinstance(action, SubmitAttempts):
                _check_inputs(world, action)
        given = len(world.actions)
    assert world.core.state.ended == "done", world.log[-3:]
    assert not world.core.state.uncollected


Step = Callable[[ev.Event], list[object]]


def begun(workflow: Workflow, *specs: SiteSpec) -> tuple[Core, Step]:
    """A run with one workflow, and a function that returns the decisions and actions of a step."""
    core = Core({"": workflow})

    def step(event: ev.Event) -> list[object]:
        decided, actions = core.step(event)
        return [*decided, *actions]

    step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), specs, (), 1, own_outputs=True))
    step(ev.WorkflowAdded(1.0, 0, "w", ""))
    return core, step


def test_an_attempt_whose_input_is_written_again_is_taken_back() -> None:
    """t1 reads file 0 of t0, t2 file 1 and an initial input. File 0 vanishes while t2 waits for its
    initial input, and t0 writes both files again at the other site."""
    tasks = [
        Task("t0", "x", "x", outputs=(0, 1)),
        Task("t1", "x", "x", inputs=(0,)),
        Task("t2", "x", "x", inputs=(1, 2)),
    ]
    files = [File("a", 1, producer=0), File("b", 1, producer=0), File("c", 1)]
    workflow = Workflow("w", "w.dax", tasks, files, [(), (0,), (0,)])
    core, step = begun(workflow, SiteSpec("alpha", 4), SiteSpec("beta", 4))
    done = Outcome("done", sizes=(1, 1))
    step(ev.AttemptEnded(2.0, "r.0.0.1", done))
    assert core.state.attempts["r.0.2.1"].site == 0
    step(ev.FilesLost(3.0, 0, ((0, 0),)))
    assert {key: a.site for key, a in core.state.attempts.items()} == {"r.0.0.2": 1}
    assert not step(ev.TransferEnded(4.0, 0, 2, ORIGIN, 0, 1, 0.1))
    step(ev.AttemptEnded(5.0, "r.0.0.2", done))
    assert core.state.attempts["r.0.2.2"].site == 1
    (submitted,) = step(ev.TransferEnded(6.0, 0, 2, 0, 1, 1, 0.1))
    assert submitted == SubmitAttempts(1, (("r.0.2.2", 0, 2),))


def test_an_attempt_does_not_keep_cores_from_the_task_that_it_waits_for() -> None:
    """t1 waits for a copy that stalls and holds the only core, when a crash loses the output of t0
    that is to be collected."""
    tasks = [Task("t0", "x", "x", outputs=(0,)), Task("t1", "x", "x", inputs=(1,))]
    files = [File("a", 1, producer=0, collect=True), File("b", 1)]
    core = Core({"": Workflow("w", "w.dax", tasks, files, [(), (0,)])})
    settings = ev.Settings("fplt")
    core.step(ev.RunStarted(0.0, "r", settings, (SiteSpec("alpha", 1),), (), 1, own_outputs=True))
    core.step(ev.WorkflowAdded(1.0, 0, "w", ""))
    core.step(ev.AttemptEnded(2.0, "r.0.0.1", Outcome("done", sizes=(1,))))
    assert list(core.state.attempts) == ["r.0.1.1"]
    core.step(ev.RunResumed(3.0, ((0, 0, 0),)))
    assert list(core.state.attempts) == ["r.0.0.2"]


@pytest.mark.parametrize("storage_bytes", [None, 10])
def test_an_attempt_does_not_wait_for_a_copy_of_what_was_written_again_at_its_site(
    storage_bytes: int | None,
) -> None:
    """t1 waits for a copy of a lost file, and t0 writes the file again there, because another of
    its files is lost: the copy of what was there before is of no use."""
    tasks = [
        Task("t0", "x", "x", outputs=(0, 1)),
        Task("t1", "x", "x", inputs=(0,)),
        Task("t2", "x", "x", inputs=(1,)),
    ]
    files = [File("a", 1, producer=0, collect=True), File("b", 1, producer=0)]
    workflow = Workflow("w", "w.dax", tasks, files, [(), (0,), (0,)])
    _, step = begun(workflow, SiteSpec("alpha", 4, storage_bytes=storage_bytes))
    done, vanished = Outcome("done", sizes=(1, 1)), Outcome("staging", message="vanished")
    step(ev.AttemptEnded(2.0, "r.0.0.1", done))
    step(ev.TransferEnded(3.0, 0, 0, 0, ORIGIN, 1, 0.1))
    step(ev.FilesLost(4.0, 0, ((0, 0),)))
    step(ev.AttemptEnded(4.0, "r.0.1.1", vanished))
    assert CopyFile(0, 0, ORIGIN, 0) in step(ev.TimerFired(5.0, "retry:0:1"))
    step(ev.FilesLost(6.0, 0, ((0, 1),)))
    step(ev.AttemptEnded(6.0, "r.0.2.1", vanished))
    assert SubmitAttempts(0, (("r.0.1.3", 0, 1),)) in step(ev.AttemptEnded(7.0, "r.0.0.2", done))
    assert not step(ev.TransferEnded(8.0, 0, 0, ORIGIN, 0, 1, 4.0))
