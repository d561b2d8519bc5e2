"""Copies that take much longer than their link suggests."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.capabilities.storing.late_copies import LATE_FACTOR, MIN_INTERVAL_S, MIN_LATE_S
from wfrun.engine.core.actions import CancelCopy, CopyFile, SubmitAttempts
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import ORIGIN, Catalog, File, LinkSpec, SiteSpec, Task, Workflow
from wfrun.testing.fake_world import FakeWorld

MB = 10**6
SITES = (SiteSpec("alpha", 1), SiteSpec("beta", 1))
LINKS = (
    LinkSpec("origin", "alpha", 10.0 * MB),
    LinkSpec("origin", "beta", 1.0 * MB),
    LinkSpec("alpha", "beta", 10.0 * MB),
)
STALL_S = 1000.0


def world(
    *,
    size: int = 100 * MB,
    links: tuple[LinkSpec, ...] = LINKS,
    inputs: tuple[int, ...] = (0, 0),
    has_methods: bool = False,
) -> FakeWorld:
    """Two tasks, of which the second starts at beta when the first is done at alpha. Each copy from
    alpha to beta stalls, unless it avoids the first of two methods. Task 0 reads ``inputs[0]``,
    task 1 ``inputs[1]``."""
    files = [File("shared", size), File("written", size, producer=0)]
    tasks = [
        Task("t0", "x", "x", inputs=(0,), outputs=(1,), runtime_s=1.0),
        Task("t1", "x", "x", inputs=(inputs[1],), runtime_s=1.0),
    ]
    return FakeWorld(
        [Workflow("w", "w.dax", tasks, files, [(), (0,)])],
        Catalog(SITES, links),
        ev.Settings("round-robin"),
        stalled_s=lambda copy: (
            STALL_S if (copy.source, copy.destination, copy.avoid) == (0, 1, ()) else 0.0
        ),
        has_methods=lambda copy: has_methods,
        result=lambda key, workflow, task: Outcome("done", sizes=(size,) if task == 0 else ()),
    )


def copies_to_beta(run: FakeWorld) -> list[CopyFile | CancelCopy]:
    return [
        action
        for action in run.actions
        if isinstance(action, (CopyFile, CancelCopy)) and action.destination == 1
    ]


def test_a_late_copy_comes_from_another_place() -> None:
    run = world()
    assert run.run() == "done"
    assert copies_to_beta(run) == [
        CopyFile(0, 0, 0, 1),
        CancelCopy(0, 0, 0, 1),
        CopyFile(0, 0, ORIGIN, 1),
    ]
    (late,) = [event for event in run.log if isinstance(event, ev.CopyLate)]
    assert (late.file, late.source, late.destination) == (0, 0, 1)
    assert LATE_FACTOR * 10.0 <= late.elapsed_s <= LATE_FACTOR * 10.0 + MIN_INTERVAL_S
    assert run.now_s < STALL_S


def test_a_short_copy_is_late_after_some_time_only() -> None:
    run = world(size=2 * MB)
    run.run()
    (late,) = [event for event in run.log if isinstance(event, ev.CopyLate)]
    assert MIN_LATE_S <= late.elapsed_s <= MIN_LATE_S + MIN_INTERVAL_S


def test_a_file_that_is_nowhere_else_is_awaited() -> None:
    run = world(inputs=(0, 1))
    assert run.run() == "done"
    assert copies_to_beta(run) == [CopyFile(0, 1, 0, 1)]
    assert run.now_s > STALL_S


def test_a_file_that_is_nowhere_else_goes_by_another_method() -> None:
    run = world(inputs=(0, 1), has_methods=True)
    assert run.run() == "done"
    avoiding = CopyFile(0, 1, 0, 1, avoid=("first",))
    assert copies_to_beta(run) == [CopyFile(0, 1, 0, 1), CancelCopy(0, 1, 0, 1), avoiding]
    (late,) = [event for event in run.log if isinstance(event, ev.CopyLate)]
    assert (late.source, late.method, late.other) == (0, "first", "second")
    assert run.now_s < STALL_S
    (line,) = run.core.state.fallbacks
    assert line.startswith("alpha to beta: a large file goes by second, because first was")
    ended = [event for event in run.log if isinstance(event, ev.TransferEnded)]
    assert [(e.file, e.avoided) for e in ended if e.destination == 1] == [(1, ("first",))]


def test_another_place_is_preferred_to_another_method() -> None:
    run = world(has_methods=True)
    run.run()
    (late,) = [event for event in run.log if isinstance(event, ev.CopyLate)]
    assert (late.source, late.method) == (0, "")


def test_a_copy_avoids_the_late_method_after_a_crash_and_a_failure() -> None:
    run = world(inputs=(0, 1), has_methods=True)
    steps = run.steps()
    while not any(isinstance(event, ev.CopyLate) for event in run.log):
        next(steps)
    # What the cancelled copy reports changes nothing: the same source sends another one.
    failed = ev.TransferFailed(run.now_s, 0, 1, 0, 1, "failed while it was cancelled", False)
    _, actions = run.core.step(failed)
    assert not actions
    assert (0, 1, 1) in run.core.state.copies
    run.crash()
    assert run.run() == "done"
    last = copies_to_beta(run)[-1]
    assert isinstance(last, CopyFile)
    assert last.avoid == ("first",)
    assert sum(isinstance(event, ev.CopyLate) for event in run.log) == 1


def test_nothing_is_expected_of_an_unknown_link() -> None:
    run = world(links=(LinkSpec("origin", "beta", 1.0 * MB),))
    assert run.run() == "done"
    assert not any(isinstance(event, ev.CopyLate) for event in run.log)


def test_a_small_file_is_awaited() -> None:
    run = world(size=1000)
    assert run.run() == "done"
    assert not any(isinstance(event, ev.CopyLate) for event in run.log)


def test_what_the_cancelled_copy_reports_late_changes_nothing() -> None:
    """It may have ended or failed before it was cancelled."""
    run = world()
    steps = run.steps()
    while not any(isinstance(event, ev.CopyLate) for event in run.log):
        next(steps)
    now_s = run.now_s
    failed = ev.TransferFailed(now_s, 0, 0, 0, 1, "failed while it was cancelled", False)
    _, actions = run.core.step(failed)
    assert not actions
    assert (0, 0, 1) in run.core.state.copies
    run.core.step(ev.TransferEnded(now_s, 0, 0, 0, 1, 100 * MB, 40.0))
    assert not run.core.state.copies
    run.core.step(ev.TransferEnded(now_s, 0, 0, ORIGIN, 1, 100 * MB, 40.0))
    assert not run.core.state.copy_queue.running


def test_copies_that_share_a_link_are_not_late() -> None:
    """Each gets its part of the bandwidth."""
    files = [File(f"f{number}", 100 * MB) for number in range(8)]
    reads = tuple(range(8))
    tasks = [Task(f"t{n}", "x", "x", inputs=reads, runtime_s=1.0) for n in range(2)]
    run = FakeWorld(
        [Workflow("w", "w.dax", tasks, files, [(), (0,)])],
        Catalog(SITES, LINKS),
        ev.Settings("round-robin"),
        stalled_s=lambda copy: 7 * 10.0 if copy.destination == 1 else 0.0,
    )
    assert run.run() == "done"
    assert {copy.source for copy in copies_to_beta(run)} == {0}
    assert not any(isinstance(event, ev.CopyLate) for event in run.log)


BOUNDED = tuple(replace(link, max_transfers=1) for link in LINKS)


def abandoned(links: tuple[LinkSpec, ...], *, has_methods: bool = False) -> FakeWorld:
    """The user pauses both sites while task 1 waits for its input at beta, and frees alpha when
    the copy was late long since."""
    inputs = (0, 1) if has_methods else (0, 0)
    run = world(links=links, inputs=inputs, has_methods=has_methods)
    run.post(15.0, ev.SiteHeld(15.0, 1))
    run.post(15.0, ev.SiteHeld(15.0, 0))
    run.post(200.0, ev.SiteFreed(200.0, 0))
    return run


@pytest.mark.parametrize("links", [LINKS, BOUNDED])
def test_a_late_copy_that_nobody_waits_for_is_not_made_again(links: tuple[LinkSpec, ...]) -> None:
    run = abandoned(links)
    assert run.run() == "done"
    assert copies_to_beta(run) == [CopyFile(0, 0, 0, 1), CancelCopy(0, 0, 0, 1)]
    assert not run.core.state.copy_queue.running
    assert not run.core.state.copy_queue.under_way


def test_no_other_method_is_announced_for_a_copy_that_is_not_made() -> None:
    run = abandoned(LINKS, has_methods=True)
    assert run.run() == "done"
    assert copies_to_beta(run) == [CopyFile(0, 1, 0, 1), CancelCopy(0, 1, 0, 1)]
    assert not run.core.state.fallbacks


@pytest.mark.parametrize("links", [LINKS, BOUNDED])
def test_a_late_copy_that_nobody_waits_for_makes_room(links: tuple[LinkSpec, ...]) -> None:
    """Beta has room for one of the inputs of tasks 1 and 2, and alpha is paused."""
    files = [File("shared", 100 * MB), File("other", 100 * MB)]
    tasks = [
        Task("t0", "x", "x", inputs=(0,), runtime_s=1.0),
        Task("t1", "x", "x", inputs=(0,), runtime_s=1.0),
        Task("t2", "x", "x", inputs=(1,), runtime_s=1.0),
    ]
    run = FakeWorld(
        [Workflow("w", "w.dax", tasks, files, [(), (0,), (0,)])],
        Catalog((SITES[0], replace(SITES[1], storage_bytes=150 * MB)), links),
        ev.Settings("round-robin"),
        stalled_s=lambda copy: STALL_S if (copy.source, copy.destination) == (0, 1) else 0.0,
    )
    run.post(10.5, ev.SiteHeld(10.5, 0))
    run.post(20.0, ev.TaskCancelled(20.0, 0, 1))
    run.run()
    submitted = [a for a in run.actions if isinstance(a, SubmitAttempts) and a.site == 1]
    assert [task for a in submitted for _, _, task in a.attempts] == [2]
    assert copies_to_beta(run)[:2] == [CopyFile(0, 0, 0, 1), CancelCopy(0, 0, 0, 1)]
