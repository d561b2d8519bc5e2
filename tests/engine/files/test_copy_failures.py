"""What follows for a failed copy, by cause."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.core.actions import CopyFile, SetTimer
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.exchange import CopyCause, Outcome
from wfrun.engine.files.copy_failures import TREATMENTS
from wfrun.engine.files.file_events import MAX_REMAKES
from wfrun.engine.model import ORIGIN, File, Resources, SiteSpec, Task, Workflow


class Run:
    """t0 writes a file at alpha, t1 reads it; the test answers for the sites."""

    def __init__(self, workflow: Workflow, *specs: SiteSpec, retry_delay_s: float = 1.0) -> None:
        self.core = Core({"w": workflow})
        self.now_s = 0.0
        self.copies: list[CopyFile] = []
        self.timers: list[SetTimer] = []
        settings = ev.Settings("round-robin", retries=2, retry_delay_s=retry_delay_s)
        self.step(ev.RunStarted(0.0, "r", settings, specs, (), 1, own_outputs=True))
        self.step(ev.WorkflowAdded(0.0, 0, "w", "w"))

    def step(self, event: ev.Event) -> None:
        _, actions = self.core.step(event)
        self.copies += [action for action in actions if isinstance(action, CopyFile)]
        self.timers += [action for action in actions if isinstance(action, SetTimer)]

    def fail(self, cause: CopyCause, end: str = "", *, transient: bool = True) -> None:
        """The first copy fails."""
        copy = self.copies.pop(0)
        ends = (copy.workflow, copy.file, copy.source, copy.destination)
        self.step(
            ev.TransferFailed(self.now_s, *ends, "for a test", transient, cause, end)  # type: ignore[arg-type]
        )

    def fail_for_good(self, cause: CopyCause) -> list[float]:
        """Each try of the first copy fails; returns the delays between them."""
        delays = []
        self.fail(cause)
        while (timer := self._copy_timer()) is not None:
            delays.append(timer.at_s - self.now_s)
            self.now_s = timer.at_s
            self.step(ev.TimerFired(self.now_s, timer.timer))
            self.fail(cause)
        return delays

    def _copy_timer(self) -> SetTimer | None:
        timers = [timer for timer in self.timers if timer.timer.startswith("copy:")]
        self.timers.clear()
        return timers[0] if timers else None

    def end(self, key: str, *sizes: int) -> None:
        self.now_s += 1.0
        self.step(ev.AttemptEnded(self.now_s, key, Outcome("done", sizes=sizes)))

    @property
    def attempts(self) -> list[tuple[str, int]]:
        return [(a.key, a.site) for a in self.core.state.attempts.values()]

    def status(self, task: int) -> int:
        return self.core.state.workflows[0].status[task]


ALPHA, BETA = SiteSpec("alpha", 1), SiteSpec("beta", 1)


def one_input() -> Workflow:
    return Workflow(
        "w", "w.dax", [Task("t", "x", "x", inputs=(0,), runtime_s=1.0)], [File("in")], [()]
    )


def made_input() -> Workflow:
    """t0 → t1; t1 runs at beta alone, since only it has the memory."""
    files = [File("middle", producer=0), File("out", producer=1, collect=True)]
    tasks = [
        Task("t0", "x", "x", outputs=(0,), runtime_s=1.0),
        Task("t1", "x", "x", inputs=(0,), outputs=(1,), runtime_s=1.0),
    ]
    return Workflow("w", "w.dax", tasks, files, [(), (0,)])


@pytest.mark.parametrize(
    ("cause", "delays_s"),
    [
        ("connection", [1.0, 2.0, 4.0, 8.0, 16.0]),
        ("checksum", [1.0, 2.0, 4.0]),
        ("stalled", [1.0, 2.0]),
        ("unknown", [1.0, 2.0, 4.0]),
        ("permission", []),
        ("disk-full", []),
        ("quota", []),
        ("absent", []),
    ],
)
def test_delays_of_retries(cause: CopyCause, delays_s: list[float]) -> None:
    run = Run(one_input(), ALPHA)
    assert run.fail_for_good(cause) == delays_s
    (failure,) = run.core.state.recent_failures
    assert "input 'in' did not arrive at alpha: for a test" in failure.message
    assert TREATMENTS[cause].advice in failure.message


def test_delays_have_an_upper_limit() -> None:
    run = Run(one_input(), ALPHA, retry_delay_s=30.0)
    assert run.fail_for_good("connection") == [30.0, 60.0, 60.0, 60.0, 60.0]


@pytest.mark.parametrize("cause", ["disk-full", "quota"])
def test_a_full_site_is_left_for_another(cause: CopyCause) -> None:
    run = Run(one_input(), ALPHA, BETA)
    assert run.attempts == [("r.0.0.1", 0)]
    run.fail(cause, "destination", transient=False)
    assert [c.closes for c in run.core.state.sites[0].conditions.values()] == [True]
    run.step(ev.TimerFired(1.0, "retry:0:0"))
    assert run.attempts == [("r.0.0.2", 1)]


def test_an_output_waits_for_room_at_the_submit_host() -> None:
    workflow = Workflow(
        "w", "w.dax", [Task("t", "x", "x", outputs=(0,), runtime_s=1.0)],
        [File("out", producer=0, collect=True)], [()],
    )  # fmt: skip
    run = Run(workflow, ALPHA)
    run.end("r.0.0.1", 5)
    assert run.fail_for_good("disk-full") == [10.0, 20.0, 40.0]
    assert run.core.state.uncollected == ["out: for a test\n  Make room there."]


def test_an_unreadable_input_is_no_fault_of_its_destination() -> None:
    run = Run(one_input(), ALPHA, BETA)
    for _ in range(3):
        run.fail("permission", "source", transient=False)
        run.now_s += 10.0
        run.step(ev.TimerFired(run.now_s, "retry:0:0"))
    assert run.status(0) == TaskStatus.FAILED
    assert not any(site.conditions for site in run.core.state.sites)


def lost_middle(run: Run, number: int) -> None:
    """t0 ends at alpha; the copy of its output to beta fails for good, since it is gone."""
    run.end(f"r.0.0.{number}", 5)
    assert run.attempts == [(f"r.0.1.{number}", 1)]
    assert run.fail_for_good("absent") == [1.0, 2.0, 4.0]


def test_a_file_that_vanishes_is_made_again_a_few_times() -> None:
    """Round-robin: t0 at alpha, t1 at beta, and so on."""
    run = Run(made_input(), ALPHA, BETA)
    for number in range(1, MAX_REMAKES + 1):
        lost_middle(run, number)
        assert run.attempts == [(f"r.0.0.{number + 1}", 0)]
        assert run.status(1) == TaskStatus.WAITING
    lost_middle(run, MAX_REMAKES + 1)
    assert run.status(1) == TaskStatus.FAILED
    (failure,) = run.core.state.recent_failures
    assert failure.final
    assert "input 'middle' did not arrive at beta" in failure.message
    assert "it vanished at alpha and was made again 3 times" in failure.message
    assert run.core.state.ended == "failed"


def test_a_resume_makes_it_again() -> None:
    run = Run(made_input(), ALPHA, BETA)
    for number in range(1, MAX_REMAKES + 2):
        lost_middle(run, number)
    run.step(ev.RunResumed(run.now_s))
    assert run.core.state.workflows[0].remakes == {}
    assert run.status(1) != TaskStatus.FAILED


def test_a_file_that_is_elsewhere_is_copied_from_there() -> None:
    run = Run(one_input(), ALPHA, BETA)
    run.core.state.workflows[0].present[0] |= 1 << 1  # at beta, too, which is nearer
    (copy,) = run.copies
    assert copy.source == ORIGIN
    run.copies[0] = CopyFile(0, 0, 1, 0)
    assert run.fail_for_good("changed") == [1.0, 2.0, 4.0]
    assert [copy.source for copy in run.copies] == [ORIGIN]
    assert not run.core.state.workflows[0].remakes


def in_an_outage(run: Run, *, reopens: bool) -> None:
    """The first copy fails while its source, alpha, is paused; it is retried 1 s later."""
    copy = run.copies.pop(0)
    ends = (copy.workflow, copy.file, copy.source, copy.destination)
    run.step(ev.SitePaused(run.now_s, 0, "the connection was lost"))
    run.step(ev.TransferFailed(run.now_s, *ends, "for a test", True, "connection", ""))
    timers = [t for t in run.timers if t.timer.startswith("copy:")]
    run.timers.clear()
    for timer in timers:
        run.now_s = timer.at_s
        run.step(ev.TimerFired(run.now_s, timer.timer))
    if reopens:
        run.step(ev.SiteReopened(run.now_s, 0))


def moving() -> Run:
    """The middle file is on its way from alpha to beta."""
    roomy = SiteSpec("beta", 1, memory_bytes=2000)
    workflow = made_input()
    wide = replace(workflow.tasks[1], resources=Resources(memory_bytes=1500))
    tasks = [workflow.tasks[0], wide]
    run = Run(
        Workflow("w", "w.dax", tasks, list(workflow.files), list(workflow.parents)),
        SiteSpec("alpha", 1, memory_bytes=1000),
        roomy,
    )
    run.end(run.attempts[0][0], 5)
    return run


def test_a_copy_waits_for_a_source_that_is_out_of_reach() -> None:
    run = moving()
    for _ in range(50):
        in_an_outage(run, reopens=False)
        assert len(run.copies) == 1
    assert not run.core.state.recent_failures


def test_a_copy_that_breaks_its_connection_each_time_is_given_up() -> None:
    """The site can be reached again after each failure."""
    run = moving()
    for _ in range(TREATMENTS["connection"].retries):
        in_an_outage(run, reopens=True)
        assert len(run.copies) == 1
    in_an_outage(run, reopens=True)
    assert not run.copies
    (failure,) = run.core.state.recent_failures
    assert "input 'middle' did not arrive at beta" in failure.message


def test_failures_in_older_logs_have_no_cause() -> None:
    text = b"""{"event":"transfer-failed","at_s":1.0,"workflow":0,"file":0,"source":-1,
        "destination":0,"message":"no room","transient":false}"""
    event = msgspec.json.decode(text, type=ev.TransferFailed)
    assert (event.cause, event.end) == ("unknown", "")


def test_a_copy_that_two_attempts_of_a_task_wait_for_fails_the_task_once() -> None:
    """The replica, whose failure is no fault of the task, would let it be tried again, and the task
    that depends on it would stay blocked for ever."""
    tasks = [
        Task("t0", "x", "x", inputs=(0,), outputs=(1,)),
        Task("t1", "x", "x", inputs=(1,)),
    ]
    files = [File("in", 1), File("out", 1, producer=0)]
    core = Core({"": Workflow("w", "w.dax", tasks, files, [(), (0,)])})
    settings = ev.Settings("round-robin", retries=0, replicas=1)
    specs = (SiteSpec("alpha", 4),)
    core.step(ev.RunStarted(0.0, "r", settings, specs, (), 1, own_outputs=True))
    core.step(ev.WorkflowAdded(0.0, 0, "w", ""))
    assert len(core.state.attempts) == 2
    core.step(ev.TransferFailed(1.0, 0, 0, ORIGIN, 0, "for a test", False, "unknown"))
    w = core.state.workflows[0]
    assert list(w.status) == [TaskStatus.FAILED, TaskStatus.BLOCKED]
    assert core.state.ended == "failed"
    assert not core.state.timers
