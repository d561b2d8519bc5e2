"""The tasks that run now, the oldest first."""

from __future__ import annotations

from heapq import nsmallest
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from wfrun.engine.capabilities.estimates.expected import ExpectedTimes
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.core.state import Attempt, Phase, RunState
from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.console import name_cell
from wfrun.runners.display.durations import duration
from wfrun.runners.inspect.failures.failures import task_title

MAX_HOST = 40
"""Maximum number of characters shown of the name of a host."""
LATE_FACTOR = 2.0
"""Ratio of elapsed to expected run time above which a running task is shown as late."""


class RunningTask(NamedTuple):
    """A running attempt."""

    title: str
    site: str
    host: str
    """Empty: unknown."""
    elapsed_s: float
    expected_s: float | None
    """Expected run time in seconds; None: unknown."""
    workflow: int
    task: int

    @property
    def is_late(self) -> bool:
        return self.expected_s is not None and self.elapsed_s > LATE_FACTOR * self.expected_s


def running_tasks(state: RunState, now_s: float, limit: int) -> list[RunningTask]:
    """Return at most ``limit`` running attempts, the oldest first. The cost is proportional to the
    number of open attempts."""
    running = (a for a in state.attempts.values() if a.phase is Phase.RUNNING)
    oldest = nsmallest(limit, running, key=lambda attempt: attempt.started_s or now_s)
    return [_running_task(state, attempt, now_s) for attempt in oldest]


def _running_task(state: RunState, attempt: Attempt, now_s: float) -> RunningTask:
    started_s = now_s if attempt.started_s is None else attempt.started_s
    return RunningTask(
        task_title(state.workflows[attempt.workflow].workflow, attempt.task),
        state.sites[attempt.site].spec.name,
        host_of(state, attempt),
        max(0.0, now_s - started_s),
        expected_s(state, attempt),
        attempt.workflow,
        attempt.task,
    )


def host_of(state: RunState, attempt: Attempt) -> str:
    """The host that runs an attempt; empty if the host is unknown until the attempt ends."""
    pool = pool_at(state, attempt.site)
    launcher = None if pool is None else pool.launchers.get(attempt.launcher)
    if launcher is not None:
        return launcher.host
    access = state.sites[attempt.site].spec.access
    if access is not None and not state.sites[attempt.site].spec.has_batch_system:
        return access.hosts[0] if access.hosts else ""
    return attempt.host


def expected_s(state: RunState, attempt: Attempt) -> float | None:
    """Expected run time of an attempt in seconds, from tasks that are done or from its document.
    None: unknown."""
    expected = state.find(ExpectedTimes)
    return None if expected is None else expected.expected_s(attempt)


def running_table(tasks: list[RunningTask], others: int = 0) -> Table:
    """A row for each of these tasks; the last row says how many others run."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("running, oldest first", no_wrap=True, overflow="ellipsis")
    table.add_column("site", no_wrap=True)
    hosts = any(task.host for task in tasks)
    if hosts:
        table.add_column("host", no_wrap=True)
    table.add_column("for", no_wrap=True, justify="right")
    table.add_column("expected", no_wrap=True, justify="right")
    for task in tasks:
        expected = "" if task.expected_s is None else duration(task.expected_s)
        elapsed = Text(duration(task.elapsed_s), style="yellow" if task.is_late else "")
        host = [name_line(task.host, MAX_HOST)] if hosts else []
        table.add_row(name_cell(task.title), task.site, *host, elapsed, expected)
    if others > 0:
        table.add_row(f"and {others} more")
    return table
