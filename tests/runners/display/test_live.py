"""The live display fits the terminal, whatever there is to be shown."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec, Task, Workflow
from wfrun.runners.display.console import EscapingConsole
from wfrun.runners.display.counts import progress_line
from wfrun.runners.inspect.failures.failures import nothing_succeeds
from wfrun.runners.inspect.live.layout import share
from wfrun.runners.inspect.live.live import LiveProgress
from wfrun.runners.inspect.live.progress import LineProgress
from wfrun.runners.inspect.tables.report import workflow_table


def console(columns: int, lines: int) -> Console:
    return EscapingConsole(
        file=io.StringIO(), width=columns, height=lines, force_terminal=True, color_system=None
    )


def drawn(state: RunState, columns: int = 80, lines: int = 24) -> list[str]:
    screen = console(columns, lines)
    screen.print(LiveProgress(screen, state, "run-1").render())
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue().splitlines()
    assert len(shown) < lines
    assert all(len(line) <= columns for line in shown)
    return shown


def busy(
    sites: int, workflows: int = 1, tasks: int = 40, failures: int = 3, name: str = "w{}"
) -> RunState:
    """A run whose tasks run at all sites, some of which have failed."""
    some = [Task(f"t{n}", "x", "x", runtime_s=60.0) for n in range(tasks)]
    documents = {
        str(n): Workflow(name.format(n), f"of/w{n}.dax", some, [], [()] * tasks)
        for n in range(workflows)
    }
    core = Core(documents)
    specs = tuple(SiteSpec(f"site-{n:02}", 4) for n in range(sites))
    now_s = time.time() - 30
    settings = ev.Settings("round-robin", retries=0)
    core.step(ev.RunStarted(now_s, "r", settings, specs, (), workflows, own_outputs=True))
    for n in range(workflows):
        core.step(ev.WorkflowAdded(now_s, n, name.format(n), str(n)))
    for key in list(core.state.attempts):
        core.step(ev.AttemptStarted(now_s, key))
    for number, key in enumerate(list(core.state.attempts)[:failures]):
        message = f"Error: no such survey 's{number}'"
        core.step(ev.AttemptEnded(now_s, key, Outcome("exit", exit_code=1, message=message)))
    return core.state


def test_thirty_sites_and_all_failures_are_seen_on_a_small_terminal() -> None:
    text = "\n".join(drawn(busy(30)))
    for n in range(30):
        assert f"site-{n:02}" in text
    assert "3 tasks × exit 1" in text
    assert "running, oldest first" in text


def test_the_number_of_what_is_cut_is_said() -> None:
    shown = drawn(busy(4, tasks=40))
    rows = [line for line in shown if " site-0" in line and " s" in line and line.startswith("t")]
    assert 0 < len(rows) < 37
    assert f"and {37 - len(rows)} more running tasks" in shown


def test_many_documents_are_counted() -> None:
    shown = drawn(busy(1, workflows=100, tasks=1, failures=0))
    bars = [line for line in shown if line.startswith("w")]
    assert f"and {100 - len(bars)} more documents" in shown


def test_a_large_terminal_is_used() -> None:
    shown = drawn(busy(4, tasks=80), 200, 50)
    assert len(shown) == 49


@pytest.mark.parametrize("lines", [5, 8, 12])
def test_a_tiny_terminal_keeps_what_matters(lines: int) -> None:
    shown = drawn(busy(30), 40, lines)
    assert "3/40" in shown[0]


def test_each_document_has_a_bar() -> None:
    shown = drawn(busy(2, workflows=3, tasks=10, failures=2))
    assert [line.split()[0] for line in shown[2:5]] == ["w0", "w1", "w2"]
    assert "2/10" in shown[2]
    assert "0/10" in shown[3]


def test_failures_are_seen_on_a_tiny_terminal() -> None:
    shown = drawn(busy(30, workflows=3), 60, 12)
    assert any(line.startswith("3 tasks × exit 1: Error: no such survey") for line in shown)


def test_names_of_documents_are_whole_on_a_narrow_terminal() -> None:
    shown = drawn(busy(2, workflows=3, tasks=10), 50)
    assert [line.split()[0] for line in shown[2:5]] == ["w0", "w1", "w2"]


def test_rate_and_time_are_apart() -> None:
    assert "tasks/s  30." in drawn(busy(2))[0]


def test_a_line_of_a_pipe_carries_reasons_and_the_oldest_task() -> None:
    state = busy(2, tasks=8, failures=1)
    state.sites[1].reported = "it is full"
    state.sites[1].is_healthy = False
    line = LineProgress(state, "run-1").line()
    assert line.startswith("run-1: 0/8 tasks done, 7 running, 1 failed, 0.0 ")
    assert "; site-00: no task is left" not in line
    assert "; site-01: paused: it is full; oldest: t" in line
    assert line.endswith("expected")


def test_a_run_without_success_says_by_what() -> None:
    remark = nothing_succeeds(busy(4, tasks=40, failures=25), "run-1")
    assert remark is not None
    assert "25 attempts have failed, most by exit 1: Error: no such survey '…'; `wfrun" in remark


def test_replicas_are_not_counted_as_tasks() -> None:
    """One task that runs twice is one running task."""
    task = Task("t", "x", "x", runtime_s=60.0)
    core = Core({"w": Workflow("w", "w.dax", [task], [], [()])})
    specs = (SiteSpec("alpha", 1), SiteSpec("beta", 1))
    core.step(ev.RunStarted(1.0, "r", ev.Settings("wqr"), specs, (), 1, own_outputs=True))
    core.step(ev.WorkflowAdded(1.0, 0, "w", "w"))
    assert len(core.state.attempts) == 2
    for key in list(core.state.attempts):
        core.step(ev.AttemptStarted(2.0, key))
    assert progress_line(core.state) == "0/1 tasks done, 1 running"


def test_lines_are_shared_out() -> None:
    """Minima first, in order; then one each in turn, to those who want more."""
    assert share(10, [2, 3], [2, 3]) == [2, 3]
    assert share(10, [2, 3], [20, 30]) == [5, 5]
    assert share(3, [2, 3], [20, 30]) == [2, 1]
    assert share(10, [1, 1], [2, 30]) == [2, 8]


def test_documents_of_one_name_are_told_apart_by_their_files() -> None:
    state = busy(2, workflows=2, tasks=4, failures=0, name="test")
    bars = [line.split()[0] for line in drawn(state) if "0/4" in line]
    assert bars == ["w0", "w1"]
    screen = console(80, 24)
    screen.print(workflow_table(state))
    assert isinstance(screen.file, io.StringIO)
    assert [line.split()[0] for line in screen.file.getvalue().splitlines()[1:]] == ["w0", "w1"]
