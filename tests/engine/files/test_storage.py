"""Storage limits of sites: where tasks are placed, what waits, and what messages say."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.core.actions import EndRun, SetTimer, SubmitAttempts
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.errors import InvalidError
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.idleness import explain_idleness
from wfrun.engine.model import (
    Axis,
    Bag,
    BagFile,
    Catalog,
    File,
    Progression,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.tasks.bag import expand
from wfrun.testing.fake_world import FakeWorld

MB = 10**6
ALPHA = SiteSpec("alpha", 8, storage_bytes=10 * MB)
BETA = SiteSpec("beta", 8, storage_bytes=10 * MB)


def workflow(*tasks: tuple[int, int], shared: int = 0) -> Workflow:
    """Independent tasks, each with an input and an output of these sizes in MB. ``shared``: size of
    an input of all of them."""
    files = [File("shared", shared * MB)]
    made = []
    for number, (reads, writes) in enumerate(tasks):
        files += [File(f"in{number}", reads * MB), File(f"out{number}", writes * MB, number)]
        inputs = (0, len(files) - 2) if shared else (len(files) - 2,)
        made.append(Task(f"t{number}", "x", "x", inputs=inputs, outputs=(len(files) - 1,)))
    return Workflow("w", "w.dax", made, files, [()] * len(made))


class Run:
    """A core whose copies all arrive; the test ends the attempts."""

    def __init__(
        self, w: Workflow, *sites: SiteSpec, keep: Literal["all", "outputs"] = "all"
    ) -> None:
        self.core = Core({"w": w})
        self.open: list[tuple[int, int]] = []
        """(task, site) of attempts that were submitted and have not ended."""
        self.decided: list[ev.Event] = []
        self.ended = ""
        settings = ev.Settings("round-robin", retries=0, keep=keep)
        self.step(ev.RunStarted(1.0, "r", settings, sites, (), 1, own_outputs=True))
        self.step(ev.WorkflowAdded(1.0, 0, "w", "w"))

    def step(self, event: ev.Event) -> None:
        events = [event]
        for one in events:
            decided, actions = self.core.step(one)
            self.decided += decided
            for action in actions:
                if isinstance(action, SubmitAttempts):
                    self.open += [(task, action.site) for _, _, task in action.attempts]
                elif isinstance(action, SetTimer):
                    events.append(ev.TimerFired(action.at_s, action.timer))
                elif isinstance(action, EndRun):
                    self.ended = action.outcome
                elif type(action).__name__ == "CopyFile":
                    size = self.core.state.workflows[0].sizes[action.file]  # type: ignore[attr-defined]
                    ends = (action.source, action.destination)  # type: ignore[attr-defined]
                    events.append(ev.TransferEnded(2.0, 0, action.file, *ends, size, 1.0))  # type: ignore[attr-defined]

    def end(self, task: int, *sizes: int, cause: str = "done") -> None:
        self.open = [one for one in self.open if one[0] != task]
        written = tuple(size * MB for size in sizes)
        self.step(ev.AttemptEnded(3.0, f"r.0.{task}.1", Outcome(cause, sizes=written)))  # type: ignore[arg-type]

    def remove(self, file: int, site: int) -> None:
        """A file leaves a site, as a cleanup does it."""
        w = self.core.state.workflows[0]
        w.present[file] &= ~(1 << site)
        for call in self.core.run.hooks.file_removed:
            call(w, file, site)

    @property
    def tasks(self) -> list[int]:
        return [task for task, _ in self.open]


def test_a_site_gets_no_task_whose_files_exceed_its_storage() -> None:
    run = Run(workflow((4, 1), (4, 1), (4, 1)), ALPHA)
    assert run.tasks == [0, 1]
    assert run.core.state.workflows[0].status[2] == TaskStatus.ELIGIBLE


def test_other_sites_with_room_are_used() -> None:
    run = Run(workflow((9, 0), (9, 0), (9, 0)), ALPHA, SiteSpec("beta", 8))
    assert sorted(run.open) == [(0, 0), (1, 1), (2, 1)]


def test_a_shared_input_is_counted_once() -> None:
    run = Run(workflow((1, 1), (1, 1), (1, 1), shared=4), ALPHA)
    assert run.tasks == [0, 1, 2]


def test_a_task_that_needs_less_goes_before_one_that_has_no_room() -> None:
    run = Run(workflow((6, 0), (6, 0), (3, 1)), ALPHA)
    assert run.tasks == [0, 2]


def test_a_task_is_placed_when_files_have_left() -> None:
    run = Run(workflow((6, 1), (2, 1), (5, 1)), ALPHA)
    run.end(0, 1)
    assert run.tasks == [1]  # the input of the first is still there
    run.remove(1, 0)
    run.end(1, 1)
    assert run.tasks == [2]


def test_the_run_itself_makes_room() -> None:
    """The input of the first task leaves when it is done."""
    run = Run(workflow((6, 1), (6, 1)), ALPHA, keep="outputs")
    assert run.tasks == [0]
    run.end(0, 1)
    assert run.tasks == [1]


def test_a_failed_attempt_gives_its_declared_output_back() -> None:
    run = Run(workflow((1, 8), (1, 5)), ALPHA)
    assert run.tasks == [0]
    run.end(0, cause="exit")
    assert run.tasks == [1]


def test_an_output_that_is_smaller_than_declared_makes_room() -> None:
    run = Run(workflow((1, 8), (1, 5)), ALPHA)
    run.end(0, 2)
    assert run.tasks == [1]


def test_a_task_that_adds_nothing_is_placed_at_a_site_that_is_too_full() -> None:
    """Its end may be what frees the others' room."""
    files = [File("in", 9 * MB), File("mid", 1 * MB, 0), File("end", 0, 1)]
    chain = [
        Task("t0", "x", "x", inputs=(0,), outputs=(1,)),
        Task("t1", "x", "x", inputs=(1,), outputs=(2,)),
    ]
    run = Run(Workflow("w", "w.dax", chain, files, [(), (0,)]), ALPHA)
    run.end(0, 20)
    assert run.tasks == [1]


def unsized(tasks: int) -> Workflow:
    """A bag whose outputs have unknown sizes."""
    axis = Axis(("x",), (Progression(0, 1, tasks),))
    return expand(Bag("b", "b.yaml", "x", (), (axis,), outputs=(BagFile("out{x}"),)))


def test_a_site_that_is_too_full_gets_no_task_that_may_write_more() -> None:
    run = Run(unsized(4), replace(ALPHA, slots=1))
    assert run.tasks == [0]
    run.end(0, 20)
    assert run.tasks == []
    assert "20 MB of 10 MB used or promised" in (run.core.state.end_reason or "")


def test_few_tasks_of_unknown_outputs_run_until_one_has_ended() -> None:
    """Then each counts as much as that one wrote, those that run included."""
    run = Run(unsized(40), replace(ALPHA, slots=40))
    assert run.tasks == [0, 1, 2, 3]
    run.end(0, 2)
    assert run.tasks == [1, 2, 3, 4]
    run.end(1, 1)
    assert run.tasks == [2, 3, 4]
    run.end(2, 3)  # The estimate grows.
    run.end(3, 0)
    assert run.tasks == [4]


def test_what_one_site_has_learned_counts_at_all() -> None:
    run = Run(unsized(40), replace(ALPHA, slots=1), replace(BETA, slots=40))
    assert sorted(run.open) == [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1)]
    run.end(0, 1)
    assert sum(site == 1 for _, site in run.open) == 10


def test_a_failure_teaches_nothing() -> None:
    run = Run(unsized(40), replace(ALPHA, slots=20))
    assert run.tasks == [0, 1]
    run.end(0, cause="exit")
    assert run.tasks == [1, 2]


def test_an_estimate_does_not_end_a_run() -> None:
    """While nothing runs, a task may start whose outputs may find no room: they may be smaller."""
    run = Run(unsized(3), replace(ALPHA, slots=1))
    run.end(0, 6)
    assert run.tasks == [1]
    run.end(1, 1)
    assert run.tasks == [2]
    run.end(2, 1)
    assert run.ended == "done"


def test_the_reason_of_a_waiting_site_is_its_storage() -> None:
    run = Run(workflow((6, 1), (6, 1), (6, 1)), ALPHA)
    run.step(ev.AttemptStarted(2.0, "r.0.0.1"))
    found = explain_idleness(run.core.state)[0]
    assert found is not None
    assert found.kind == "storage"
    assert found.text == "storage full, 2 tasks wait for room: 7 MB of 10 MB used or promised"


def test_tasks_that_free_room_come_first_where_all_may_exceed_it() -> None:
    """Each m writes 3 MB for its u, which writes nothing; all are of one kind, so 3 MB are expected
    of each u, too."""
    files, tasks, parents = [], [], []
    for n in range(0, 16, 2):
        files += [File(f"m{n}", None, n), File(f"o{n}", None, n + 1)]
        tasks += [
            Task(f"m{n}", "x", "x", outputs=(n,), runtime_s=1.0),
            Task(f"u{n}", "x", "x", inputs=(n,), outputs=(n + 1,), runtime_s=1.0),
        ]
        parents += [(), (n,)]
    w = Workflow("w", "w.dax", tasks, files, parents)
    world = FakeWorld(
        [w],
        Catalog((ALPHA,)),
        ev.Settings("round-robin"),
        result=lambda key, workflow, task: Outcome("done", sizes=(0 if task % 2 else 3 * MB,)),
    )
    most = 0
    for _ in world.steps():
        for state in world.core.state.workflows:
            stored = [state.sizes[f] for f, places in enumerate(state.present) if places]
            most = max(most, sum(stored))
    assert world.core.state.ended == "done"
    assert most <= 10 * MB


def test_tasks_that_wait_for_the_size_of_outputs_say_so() -> None:
    run = Run(unsized(40), replace(ALPHA, slots=10))
    found = explain_idleness(run.core.state)[0]
    assert found is not None
    assert found.kind == "storage"
    assert found.text.startswith("39 tasks wait for the sizes of outputs, which the first task")


def test_a_site_says_that_it_is_full_before_its_tasks_start() -> None:
    run = Run(workflow((6, 1), (6, 1)), ALPHA)
    found = explain_idleness(run.core.state)[0]
    assert found is not None
    assert found.text == "storage full, 1 task waits for room: 7 MB of 10 MB used or promised"


def test_a_run_that_nothing_frees_ends_with_the_reason() -> None:
    run = Run(workflow((6, 1), (6, 1)), ALPHA)
    run.end(0, 1)
    assert run.ended == "failed"
    reason = run.core.state.end_reason
    assert reason is not None
    assert "the storage of site alpha is full" in reason
    assert "alpha: 7 MB of 10 MB used or promised; task 't1' needs 7 MB more" in reason


@pytest.mark.parametrize("beta", [SiteSpec("beta", 8), replace(BETA, storage_bytes=100 * MB)])
def test_a_policy_that_uses_one_site_ends_with_the_reason(beta: SiteSpec) -> None:
    run = ev.Settings("single-cluster", keep="all")
    world = FakeWorld([workflow((6, 1), (6, 1))], Catalog((ALPHA, beta)), run)
    assert world.run() == "failed"
    reason = world.core.state.end_reason or ""
    assert "the storage of site alpha is full" in reason
    assert "policy single-cluster uses no other site: choose another" in reason


def test_all_sites_that_are_full_are_named() -> None:
    w = workflow(*[(6, 2)] * 5)
    world = FakeWorld([w], Catalog((ALPHA, BETA)), ev.Settings("round-robin", keep="all"))
    assert world.run() == "failed"
    reason = world.core.state.end_reason or ""
    assert "the storage of sites alpha, beta is full" in reason
    assert "add a site" in reason


def test_a_resumed_run_counts_what_is_there_and_tries_again() -> None:
    run = Run(workflow((6, 1), (6, 1)), ALPHA)
    run.end(0, 1)
    run.remove(1, 0)
    run.step(ev.RunResumed(9.0))
    assert run.tasks == [1]


@pytest.mark.parametrize("sites", [(ALPHA,), (ALPHA, BETA)])
def test_a_task_that_fits_no_site_is_refused(sites: tuple[SiteSpec, ...]) -> None:
    with pytest.raises(InvalidError, match=r"'t1' fits no site.* 11 MB.* 10 MB"):
        Run(workflow((1, 1), (6, 5)), *sites)
    Run(workflow((1, 1), (6, 5)), *sites, SiteSpec("gamma", 1))


def bag(tasks: int) -> Workflow:
    axis = Axis(("x",), (Progression(0, 1, tasks),))
    outputs = (BagFile("out{x}"),)
    return expand(Bag("b", "b.yaml", "x", (), (axis,), outputs=outputs, output_bytes=MB))


def test_the_tasks_of_a_large_bag_wait_in_their_order() -> None:
    run = Run(bag(500), replace(ALPHA, slots=100))
    assert run.tasks == list(range(10))
    for task in range(490):
        run.end(task, 0)
        assert run.tasks[-1] == task + 10
    awaited = [e for e in run.decided if isinstance(e, ev.StorageAwaited)]
    assert len(awaited) == 490  # each task that waits says so once


@pytest.mark.parametrize("throttle", ["auto", None])
@pytest.mark.parametrize(("parts", "slots"), [(12, 4), (25, 8)])
def test_tasks_wait_once_and_start_in_their_order(
    parts: int, slots: int, throttle: Literal["auto"] | None
) -> None:
    """Room that some wait to take is not offered to others. Outputs that come out of order would
    fill the site before a task that reads five of them can start."""
    files = [File(f"part{n}", MB, n) for n in range(100)]
    tasks = [Task(f"t{n}", "a", "x", outputs=(n,), runtime_s=10.0 + n % 7) for n in range(100)]
    parents: list[tuple[int, ...]] = [()] * 100
    for first in range(0, 100, 5):
        files.append(File(f"sum{first}", 1, len(tasks)))
        parents.append(tuple(range(first, first + 5)))
        output = (len(files) - 1,)
        tasks.append(Task("s", "b", "x", inputs=parents[-1], outputs=output, runtime_s=20.0))
    site = replace(ALPHA, slots=slots, storage_bytes=parts * MB + 100)
    w = Workflow("w", "w.dax", tasks, files, parents)
    world = FakeWorld([w], Catalog((site,)), ev.Settings("cluster-min", throttle=throttle))
    assert world.run() == "done"
    waited = [event.task for event in world.log if isinstance(event, ev.StorageAwaited)]
    assert len(waited) == len(set(waited)) == 100 - parts


def test_room_that_was_offered_in_vain_goes_to_others() -> None:
    """A workflow that stays at one site leaves room unused that the other site has for it."""

    def independent(size_bytes: int) -> Workflow:
        files = [File(f"f{n}", size_bytes, n) for n in range(40)]
        tasks = [Task(f"t{n}", "x", "x", outputs=(n,), runtime_s=10.0) for n in range(40)]
        return Workflow("w", "w.dax", tasks, files, [()] * 40)

    world = FakeWorld(
        [independent(2 * MB), independent(MB)], Catalog((ALPHA, BETA)),
        ev.Settings("single-cluster", throttle="auto"),
        result=lambda *_: Outcome("done", sizes=(0,)),
    )  # fmt: skip
    assert world.run() == "done"
    assert world.core.state.end_s == 70.0


def test_a_replay_knows_what_waits() -> None:
    catalog = Catalog((ALPHA, replace(BETA, storage_bytes=5 * MB)))
    settings = ev.Settings("round-robin")
    world = FakeWorld([bag(40)], catalog, settings, result=lambda *_: Outcome("done", sizes=(0,)))
    steps = world.steps()
    for _ in range(30):
        next(steps)
    twin = Core({"0": bag(40)})
    twin.replay(world.log)
    mine, other = world.core.state, twin.state
    assert mine.workflows[0].barred == other.workflows[0].barred
    for site in (0, 1):
        own = mine.get(Storage).waiting_tasks(site)
        assert own == other.get(Storage).waiting_tasks(site)


def test_files_that_leave_at_the_last_moment_make_room() -> None:
    """Nothing else is under way when they are removed, so the run would end."""
    files = [File("big", 6 * MB, 0), File("small", MB, 1), File("other", 6 * MB, 2)]
    tasks = [
        Task("t0", "x", "x", outputs=(0,), runtime_s=1.0),
        Task("t1", "x", "x", inputs=(0,), outputs=(1,), runtime_s=1.0),
        Task("t2", "x", "x", outputs=(2,), runtime_s=1.0),
    ]
    w = Workflow("w", "w.dax", tasks, files, [(), (0,), ()])
    assert FakeWorld([w], Catalog((ALPHA,)), ev.Settings("round-robin")).run() == "done"


def test_a_copy_of_what_was_written_again_at_its_destination_has_no_size() -> None:
    """t1 waits at beta for a copy from alpha, where the file vanishes. t0 writes more at beta, and
    then the copy ends."""
    tasks = [
        Task("t0", "x", "x", outputs=(0,)),
        Task("t1", "x", "x", inputs=(0,)),
        Task("t2", "x", "x", inputs=(0,)),
    ]
    files = [File("a", MB, producer=0)]
    core = Core({"": Workflow("w", "w.dax", tasks, files, [(), (0,), (0,)])})
    settings = ev.Settings("round-robin", retries=9)
    core.step(ev.RunStarted(0.0, "r", settings, (ALPHA, BETA), (), 1, own_outputs=True))
    core.step(ev.WorkflowAdded(1.0, 0, "w", ""))
    core.step(ev.AttemptEnded(2.0, "r.0.0.1", Outcome("done", sizes=(MB,))))
    assert {a.site for a in core.state.attempts.values()} == {0, 1}
    core.step(ev.FilesLost(3.0, 0, ((0, 0),)))
    again = next(a for a in core.state.attempts.values() if a.task == 0)
    assert again.site == 1
    core.step(ev.AttemptEnded(4.0, again.key, Outcome("done", sizes=(5 * MB,))))
    storage = core.state.get(Storage)
    assert storage.describe(1) == "5 MB of 10 MB used or promised"
    core.step(ev.TransferEnded(5.0, 0, 0, 0, 1, MB, 3.0))
    assert storage.describe(1) == "5 MB of 10 MB used or promised"
