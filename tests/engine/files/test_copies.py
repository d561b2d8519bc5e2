"""Which copies of files start, and in which order."""

from __future__ import annotations

from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.core.actions import CopyFile, SubmitAttempts
from wfrun.engine.core.core import Core
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.engine.model import ORIGIN, Access, File, LinkSpec, SiteSpec, Task, Workflow

SITE = SiteSpec("alpha", 10, kind="ssh", access=Access(hosts=("one",)), max_transfers=1)
LARGE = 10 * SHARED_BYTES


def workflow(*sizes: tuple[int, ...]) -> Workflow:
    """One task for each tuple, whose inputs have these sizes."""
    files: list[File] = []
    tasks = []
    for number, inputs in enumerate(sizes):
        first = len(files)
        files += [File(f"{number}-{size}", size_bytes=size) for size in inputs]
        numbers = tuple(range(first, len(files)))
        tasks.append(Task(f"t{number}", "x", "x", inputs=numbers, runtime_s=1.0))
    return Workflow("w", "w.dax", tasks, files, [()] * len(tasks))


class Run:
    """A core whose actions are not carried out."""

    def __init__(self, w: Workflow, *sites: SiteSpec, links: tuple[LinkSpec, ...] = ()) -> None:
        self.core = Core({"w": w})
        self.now_s = 1.0
        self.copies: list[CopyFile] = []
        """Those that have started and not ended."""
        self.submitted: list[int] = []
        """The tasks whose attempts were submitted."""
        settings = ev.Settings("round-robin", retries=3)
        self.step(ev.RunStarted(1.0, "r", settings, sites, links, 1, own_outputs=True))
        self.step(ev.WorkflowAdded(1.0, 0, "w", "w"))

    def step(self, event: ev.Event) -> None:
        _, actions = self.core.step(event)
        for action in actions:
            if isinstance(action, CopyFile):
                self.copies.append(action)
            elif isinstance(action, SubmitAttempts):
                self.submitted += [task for _, _, task in action.attempts]

    @property
    def files(self) -> list[int]:
        return [copy.file for copy in self.copies]

    def end(self, failure: bool | None = None) -> None:
        """The first copy ends, or fails: for good, or (``True``) for now."""
        copy = self.copies.pop(0)
        self.now_s += 1.0
        ends = (copy.workflow, copy.file, copy.source, copy.destination)
        if failure is None:
            self.step(ev.TransferEnded(self.now_s, *ends, LARGE, 1.0))
        else:
            self.step(ev.TransferFailed(self.now_s, *ends, "failed by the test", failure))


def test_a_site_has_no_more_large_copies_than_it_has_room_for() -> None:
    run = Run(workflow(*[(LARGE,)] * 3), replace(SITE, max_transfers=2))
    assert run.files == [0, 1]
    run.end()
    assert run.files == [1, 2]


def test_a_task_that_misses_nothing_is_submitted_while_copies_wait_for_room() -> None:
    """At the step that places it, although one copy runs and two wait at its site."""
    run = Run(workflow(*[(LARGE,)] * 3, (), ()), SITE)
    assert run.files == [0]
    assert run.submitted == [3, 4]
    run.end()
    assert run.submitted == [3, 4, 0]


def test_small_files_need_no_room() -> None:
    run = Run(workflow(*[(SHARED_BYTES,)] * 3), SITE)
    assert run.files == [0, 1, 2]


def test_a_site_without_a_bound_takes_all() -> None:
    run = Run(workflow(*[(LARGE,)] * 3), SITE, replace(SITE, name="beta", max_transfers=None))
    destinations = sorted(copy.destination for copy in run.copies)
    assert destinations == [0, 1]  # the third task waits at alpha


def test_sites_with_one_login_host_share_its_room() -> None:
    other = replace(SITE, name="beta")
    assert Run(workflow((LARGE,), (LARGE,)), SITE, other).files == [0]
    elsewhere = replace(other, access=Access(hosts=("two",)))
    assert Run(workflow((LARGE,), (LARGE,)), SITE, elsewhere).files == [0, 1]


def test_a_link_has_no_more_large_copies_than_it_has_room_for() -> None:
    wide = replace(SITE, max_transfers=None)
    other = replace(wide, name="beta", access=Access(hosts=("two",)))
    bound = (LinkSpec("origin", "alpha", max_transfers=1), LinkSpec("alpha", "beta", 1.0))
    run = Run(workflow(*[(LARGE,)] * 6), wide, other, links=bound)
    assert [copy.destination for copy in run.copies] == [0, 1, 1, 1]
    run.end()
    assert [copy.destination for copy in run.copies] == [1, 1, 1, 0]


def test_the_attempt_that_misses_little_comes_first() -> None:
    """Those that are placed later do not wait for all inputs of a task that needs many."""
    run = Run(workflow((LARGE,) * 4, (LARGE,)), SITE)
    order = []
    while run.copies:
        order.append(run.files[0])
        run.end()
    assert order == [0, 4, 1, 2, 3]


def test_all_inputs_of_an_attempt_come_before_those_of_a_later_equal_one() -> None:
    run = Run(workflow((LARGE, LARGE), (LARGE, LARGE)), SITE)
    order = []
    while run.copies:
        order.append(run.files[0])
        run.end()
    assert order == [0, 1, 2, 3]


def test_a_copy_that_failed_gives_its_room_to_the_next() -> None:
    run = Run(workflow((LARGE,), (LARGE,)), SITE)
    assert run.files == [0]
    run.end(failure=True)
    assert run.files == [1]
    run.step(ev.TimerFired(30.0, f"copy:0:0:{0}"))
    assert run.files == [1]  # it waits for room again
    run.end()
    assert run.files == [0]


def test_a_copy_that_nobody_waits_for_any_more_is_not_started() -> None:
    run = Run(workflow((LARGE,), (LARGE,)), SITE)
    run.step(ev.CancelAsked(2.0, "drain"))
    run.end()
    assert run.copies == []
    assert not run.core.state.copies


def test_the_next_engine_starts_as_many_again() -> None:
    run = Run(workflow(*[(LARGE,)] * 3), SITE)
    run.copies.clear()  # the engine dies
    run.step(ev.RunResumed(2.0))
    assert run.files == [0]
    run.end()
    assert run.files == [1]


def test_a_copy_that_no_longer_waits_for_room_after_a_resume_is_tried_again() -> None:
    """It waited while the size of the file was unknown. Its failure is not that of an earlier
    request, which would leave its attempt waiting for ever."""
    files = [File("large", size_bytes=LARGE), File("shared")]
    tasks = [Task(f"t{n}", "x", "x", inputs=(f,), runtime_s=1.0) for n, f in enumerate((0, 1, 1))]
    beta = replace(SITE, name="beta", access=Access(hosts=("two",)))
    run = Run(Workflow("w", "w.dax", tasks, files, [()] * 3), SITE, beta)
    assert [(c.file, c.destination) for c in run.copies] == [(0, 0), (1, 1)]
    run.step(ev.TransferEnded(2.0, 0, 1, ORIGIN, 1, SHARED_BYTES, 1.0))
    run.copies.clear()  # the engine dies
    run.step(ev.RunResumed(2.0))
    assert [(c.file, c.destination) for c in run.copies] == [(1, 0), (0, 0)]
    small = run.copies.pop(0)
    run.step(ev.TransferFailed(3.0, 0, 1, small.source, 0, "failed by the test", True))
    assert "copy:0:1:0" in run.core.state.timers
    run.step(ev.TimerFired(30.0, "copy:0:1:0"))
    assert run.files == [0, 1]


def test_a_queued_copy_comes_from_the_place_that_is_nearest_when_it_starts() -> None:
    """The shared input reaches alpha first, from where the link to beta is faster."""
    files = [File("shared", size_bytes=LARGE), File("own", size_bytes=LARGE)]
    tasks = [
        Task("t0", "x", "x", inputs=(0,), runtime_s=1.0),
        Task("t1", "x", "x", inputs=(1, 0), runtime_s=1.0),
    ]
    near = (LinkSpec("alpha", "beta", 1e12), LinkSpec("origin", "beta", 1e3))
    beta = replace(SITE, name="beta", access=Access(hosts=("two",)))
    run = Run(Workflow("w", "w.dax", tasks, files, [(), ()]), SITE, beta, links=near)
    assert [(c.file, c.source, c.destination) for c in run.copies] == [
        (0, ORIGIN, 0),
        (1, ORIGIN, 1),
    ]
    run.end()
    run.end()
    assert [(c.file, c.source, c.destination) for c in run.copies] == [(0, 0, 1)]
