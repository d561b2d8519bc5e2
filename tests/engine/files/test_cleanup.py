"""Files leave the sites when nothing needs them there any more, and not before."""

from __future__ import annotations

import pytest

from tests.engine.files.test_lost_files import Vanishing, starts
from tests.engine.policies.test_policies import chain, sites
from wfrun.engine import events as ev
from wfrun.engine.capabilities.storing.cleanup import BATCH_BYTES, BATCH_FILES
from wfrun.engine.core.actions import RemoveFiles
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import ORIGIN, Catalog, File, Task, Workflow
from wfrun.testing.fake_world import FakeWorld

LARGE = BATCH_BYTES


def settings(keep: str = "outputs", **options: object) -> ev.Settings:
    return ev.Settings(policy="round-robin", keep=keep, **options)  # type: ignore[arg-type]


def removals(world: FakeWorld) -> list[tuple[str, int, tuple[tuple[int, int], ...]]]:
    """The attempt whose end came before each decision to remove files, the site and the files."""
    found, last = [], ""
    for event in world.log:
        if isinstance(event, ev.AttemptEnded):
            last = event.key
        elif isinstance(event, ev.FilesDiscarded):
            found.append((last, event.site, event.files))
    return found


def test_a_file_leaves_when_its_last_reader_is_done() -> None:
    """t0's file is read by t1 and, later, by t2."""
    workflow = chain((0, 1, LARGE), (1, 2, LARGE), runtimes_s=[1.0, 1.0, 1.0])
    world = FakeWorld([workflow], sites((1, 1.0)), settings())
    assert world.run() == "done"
    assert removals(world) == [("w.0.1.1", 0, ((0, 0),)), ("w.0.2.1", 0, ((0, 1),))]
    actions = [action for action in world.actions if isinstance(action, RemoveFiles)]
    assert actions == [RemoveFiles(0, ((0, 0, 0),)), RemoveFiles(0, ((0, 1, 0),))]


def test_nothing_leaves_with_keep_all() -> None:
    workflow = chain((0, 1, LARGE), (1, 2, LARGE), runtimes_s=[1.0, 1.0, 1.0])
    world = FakeWorld([workflow], sites((1, 1.0)), settings("all"))
    assert world.run() == "done"
    assert not removals(world)


def test_all_copies_leave() -> None:
    """The file of t0 at alpha is copied to beta, where t1 reads it."""
    workflow = chain((0, 1, LARGE), (0, 2, LARGE), runtimes_s=[1.0, 5.0, 5.0])
    world = FakeWorld([workflow], sites((1, 1.0), (1, 1.0)), settings())
    assert world.run() == "done"
    assert any(isinstance(e, ev.TransferEnded) and e.destination >= 0 for e in world.log)
    present = world.core.state.workflows[0].present
    assert present == [0, 0]


def test_small_files_leave_together() -> None:
    """A chain of tasks beside a long one: something is under way all the time."""
    count = 3 * BATCH_FILES
    edges = [(task, task + 1, 10) for task in range(count)]
    workflow = chain(*edges, runtimes_s=[1.0] * (count + 1) + [1000.0])
    world = FakeWorld([workflow], sites((2, 1.0)), settings())
    assert world.run() == "done"
    assert [len(files) for _, _, files in removals(world)] == [BATCH_FILES] * 3


@pytest.mark.parametrize("reads", [False, True])
def test_a_final_output_leaves_once_it_is_collected(reads: bool) -> None:
    files = [File("out", LARGE, producer=0, collect=True)]
    tasks = [
        Task("t0", "x", "x", outputs=(0,), runtime_s=1.0),
        Task("t1", "x", "x", inputs=(0,) if reads else (), runtime_s=1.0),
    ]
    workflow = Workflow("w", "w.dax", tasks, files, [(), (0,)])
    world = FakeWorld([workflow], sites((1, 1.0)), settings())
    assert world.run() == "done"
    kinds = [type(e) for e in world.log]
    assert kinds.index(ev.TransferEnded) < kinds.index(ev.FilesDiscarded)
    last = [key for key, _, _ in removals(world)]
    assert last == ["w.0.1.1"] if reads else ["w.0.0.1"]


def test_inputs_of_a_failed_attempt_stay_where_it_failed() -> None:
    """t1 fails at one site and succeeds at the other."""
    workflow = chain((0, 1, LARGE), (1, 2, LARGE), runtimes_s=[1.0, 1.0, 1.0])

    def result(key: str, workflow: int, task: int) -> Outcome:
        if key == "w.0.1.1":
            return Outcome("exit", exit_code=1)
        return Outcome("done", exit_code=0, sizes=(LARGE,) if task < 2 else ())

    worlds = {}
    for keep in ("outputs", "failed"):
        world = FakeWorld([workflow], sites((1, 1.0), (1, 1.0)), settings(keep), result=result)
        assert world.run() == "done"
        worlds[keep] = world.core.state.workflows[0].present
    failed_at = next(
        e.site for e in world.log if isinstance(e, ev.AttemptPlaced) and e.key == "w.0.1.1"
    )
    assert worlds == {"outputs": [0, 0], "failed": [1 << failed_at, 0]}


def test_a_removed_file_is_made_again_when_a_later_one_is_lost() -> None:
    """t0 → t1 → t2. The file of t1 is lost when that of t0 has been removed."""
    workflow = chain((0, 1, LARGE), (1, 2, LARGE), runtimes_s=[1.0, 1.0, 9.0])
    world = FakeWorld([workflow], sites((1, 1.0)), settings())
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded) and event.key.split(".")[2] == "1":
            break
    assert removals(world)
    world.crash(lost=((0, 1, 0),))
    assert world.run() == "done"
    assert [t for t in starts(world) if t != "t2"] == ["t0", "t1", "t0", "t1"]
    assert world.core.state.workflows[0].present == [0, 0]


def test_inputs_stay_until_a_superseded_attempt_has_left() -> None:
    """A replica of t1 runs at beta when t1 is done at alpha; its end comes later."""
    workflow = chain((0, 1, LARGE), (1, 2, LARGE), runtimes_s=[1.0, 9.0, 50.0])
    run = settings(replicas=1)
    world = FakeWorld([workflow], sites((1, 1.0), (1, 1.0)), run)
    world.behaviour.cancel_s = lambda key: 5.0  # type: ignore[method-assign]
    assert world.run() == "done"
    ended = [e.key for e in world.log if isinstance(e, ev.AttemptEnded)]
    tries = [key for key in ended if key.split(".")[2] == "1"]
    assert len(tries) == 2
    (after,) = [key for key, _, files in removals(world)[:1] if (0, 0) in files]
    assert after == tries[1]


def test_a_site_that_left_the_catalog_is_left_alone() -> None:
    workflow = chain((0, 1, LARGE), (1, 2, LARGE), runtimes_s=[1.0, 1.0, 1.0])
    both = sites((1, 1.0), (1, 1.0))
    world = FakeWorld([workflow], both, settings())
    for event in world.steps():
        if isinstance(event, ev.AttemptStarted):
            break
    world.crash()
    change = ev.RunChanged(world.now_s, settings(), both.sites, both.links, (0,))
    world.change(change)
    world.catalog = Catalog(both.sites)
    assert world.run() == "done"
    assert {site for _, site, _ in removals(world)} == {1}


@pytest.mark.parametrize("keep", ["failed", "outputs"])
def test_inputs_of_failed_attempts_leave_once_the_run_keeps_them_no_longer(keep: str) -> None:
    workflow = chain((0, 1, LARGE), runtimes_s=[1.0, 1.0])
    one = sites((1, 1.0))
    results = iter([Outcome("done", sizes=(LARGE,)), Outcome("exit"), Outcome("done")])
    world = FakeWorld([workflow], one, settings(keep="failed"), result=lambda *_: next(results))
    for event in world.steps():
        if isinstance(event, ev.AttemptEnded) and event.outcome.cause == "exit":
            break
    world.crash()
    world.change(ev.RunChanged(world.now_s, settings(keep=keep), one.sites, one.links))
    assert world.run() == "done"
    assert bool(removals(world)) is (keep == "outputs")


def test_a_file_leaves_although_the_run_ends_when_a_copy_of_it_is_dropped() -> None:
    """The copy for the replica of t1 fails; t1 is done before the copy is tried again."""
    workflow = chain((0, 1, 10), runtimes_s=[1.0, 2.5])
    both = sites((1, 1.0), (1, 1.0))
    world = FakeWorld([workflow], both, settings(replicas=1), fails=lambda copy: "transient")
    assert world.run() == "done"
    last = [e for e in world.log if not isinstance(e, (ev.FilesDiscarded, ev.RunEnded))][-1]
    assert last == ev.TimerFired(world.now_s, "copy:0:0:1")
    assert world.core.state.workflows[0].present == [0]


def test_a_file_leaves_although_the_run_ends_with_a_superseded_attempt() -> None:
    """The replica of t1 still runs at beta when t2 is done, and keeps only its own input."""
    workflow = chain((0, 1, 10), (1, 2, 10), runtimes_s=[1.0, 1.0, 1.0])

    def runtime_s(workflow: int, task: int, site: int) -> float:
        return 1e6 if (task, site) == (1, 1) else 50.0

    both = sites((1, 1.0), (1, 1.0))
    world = FakeWorld([workflow], both, settings(replicas=1), runtime_s=runtime_s)
    world.behaviour.cancel_s = lambda key: 1e6  # type: ignore[method-assign]
    assert world.run() == "done"
    assert world.core.state.superseded == 1
    assert world.core.state.workflows[0].present == [0b11, 0]


def test_an_optional_output_leaves_that_a_repeated_task_did_not_write_again() -> None:
    """t0 is repeated, since file 0 vanished, and writes its final output the first time alone."""
    tasks = [
        Task("t0", "x", "x", outputs=(0, 1), optional=(1,), runtime_s=5.0),
        Task("t1", "x", "x", inputs=(0,)),
        Task("t2", "x", "x", runtime_s=1000.0),  # Something is under way all the time.
    ]
    files = [File("a", 1, producer=0), File("log", 1, producer=0, collect=True)]
    workflow = Workflow("w", "w.dax", tasks, files, [(), (0,), ()])

    def result(key: str, workflow: int, task: int) -> Outcome:
        sizes = (1, 1 if key.endswith(".1") else None) if task == 0 else ()
        return Outcome("done", exit_code=0, sizes=sizes)

    world = FakeWorld(
        [workflow], sites((2, 1.0)), settings(), result=result, behaviour=Vanishing(1)
    )
    assert world.run() == "done"
    assert sorted(starts(world)) == ["t0", "t0", "t1", "t1", "t2"]
    origin = world.core.state.network.bit(ORIGIN)
    assert world.core.state.workflows[0].present == [0, origin]
