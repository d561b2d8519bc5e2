"""The runs of ``wfrun bench dispatch``: one run for each site, by the ordinary engine."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import click

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import WfrunError
from wfrun.engine.model import Catalog, Resources, SiteSpec, Task, Workflow
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.admin.bench_figures import TASK_S, BenchCounts, Figures, figures_of
from wfrun.runners.display.durations import duration
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.session import Session
from wfrun.runners.run.store.event_store import Store
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.remote.files.directory import find_directory

WALLTIME_S = 60.0
"""Requested walltime of each task in seconds, if the site allows it."""
GRACE_S = 60.0
"""Maximum time for the tasks of a cancelled run to end, in seconds."""
_LOGGER = logging.getLogger(__name__)


class BenchResult(NamedTuple):
    """The measurement of one site."""

    spec: SiteSpec
    figures: Figures
    problem: str | None = None
    """Why the measurement is incomplete; None: it is complete."""
    interrupted: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether tasks ran at the site."""
        return self.figures.rate is not None


def sizes_of(spec: SiteSpec, tasks: int | None) -> BenchCounts:
    """Return the numbers of tasks for this site. ``tasks`` is the number of tasks without work;
    None: a default that takes some seconds, but is small if every task is a batch job, to spare the
    batch system."""
    if is_batch(spec):
        return BenchCounts(tasks or min(100, 2 * spec.slots), 3, min(100, 2 * spec.slots))
    return BenchCounts(tasks or 5000, 50, min(5000, 50 * spec.slots))


def is_batch(spec: SiteSpec) -> bool:
    """Whether the site runs each task as a batch job of its own."""
    return spec.has_batch_system and spec.access is not None and spec.access.dispatch == "jobs"


def bench_workflow(spec: SiteSpec, sizes: BenchCounts) -> Workflow:
    """A workflow of one task, then the tasks without work, then the chain, then the short tasks."""
    granted_s = WALLTIME_S if spec.walltime_s is None else min(WALLTIME_S, spec.walltime_s)
    resources = Resources(walltime_s=granted_s)
    tasks: list[Task] = []
    parents: list[tuple[int, ...]] = []

    def add(name: str, executable: str, arguments: tuple[str, ...], after: tuple[int, ...]) -> None:
        number = len(tasks)
        tasks.append(Task(f"{name}-{number}", name, executable, arguments, resources=resources))
        parents.append(after)

    add("first", "/bin/true", (), ())
    for _ in range(sizes.empty):
        add("empty", "/bin/true", (), (0,))
    add("chain", "/bin/true", (), tuple(range(1, 1 + sizes.empty)))
    for _ in range(sizes.chain):
        add("chain", "/bin/true", (), (len(tasks) - 1,))
    last = len(tasks) - 1
    for _ in range(sizes.short):
        add("short", "/bin/sleep", (str(TASK_S),), (last,))
    return Workflow("bench-dispatch", "wfrun bench dispatch", tasks, [], parents)


async def measure(spec: SiteSpec, sizes: BenchCounts, limit_s: float) -> BenchResult:
    """Run the workflow at this site, and compute its figures. The run is cancelled after
    ``limit_s`` seconds. Its directories here and at the site are removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "run"
        settings = ev.Settings(policy="round-robin", on_failure="stop")
        plan = prepare([bench_workflow(spec, sizes)], Catalog((spec,)), settings)
        session = Session()
        session.start(plan, path, "bench")
        run = _Run(session, limit_s)
        try:
            await run.drive()
        finally:
            await _forget(spec, session)
        figures = figures_of(_logged(session), spec, sizes)
    return BenchResult(spec, figures, run.problem(), run.interrupted)


def _logged(session: Session) -> list[ev.AnyEvent]:
    """The events of the run's log; empty if the site could not be opened."""
    if not session.state.run_id:
        return []
    store = Store(session.run.path)
    try:
        return list(store.load())
    finally:
        store.close()


class _Run:
    """Drives a session with a time limit, and records why a run is incomplete."""

    def __init__(self, session: Session, limit_s: float) -> None:
        self._session = session
        self._limit_s = limit_s
        self._error: str | None = None
        self._is_late = False
        self.interrupted = False

    async def drive(self) -> None:
        """Drive the session to its end. Cancel the run at the time limit, and stop driving it
        ``GRACE_S`` seconds later."""
        self._session.listen_to_signals(self._interrupt)
        alarm = asyncio.get_running_loop().call_later(self._limit_s, self._give_up)
        try:
            await asyncio.wait_for(self._session.drive(), self._limit_s + GRACE_S)
        except asyncio.TimeoutError:
            self._error = f"tasks are still running {GRACE_S:.0f} s after they were cancelled"
        except WfrunError as error:
            self._error = str(error)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            alarm.cancel()

    def problem(self) -> str | None:
        """Why the run is incomplete; None if it is complete."""
        state = self._session.state
        if self._error or state.ended == "done":
            return self._error
        if self.interrupted:
            return "interrupted"
        reason = state.sites[0].pause_reason if state.sites else None
        if self._is_late:
            begun = any(site.done or site.failed for site in state.sites)
            late = f"stopped after {duration(self._limit_s)}, the --limit"
            return f"{late}: {reason or ('tasks were left' if begun else 'no task has ended')}"
        return reason or state.end_reason or _last_failure(state)

    def _give_up(self) -> None:
        self._is_late = True
        self._session.cancel("kill")

    def _interrupt(self, times: int) -> None:
        self.interrupted = True
        if times == 1:
            self._session.cancel("kill")
            click.echo("cancelling; press Ctrl-C again to leave at once", err=True)


def _last_failure(state: RunState) -> str:
    if not state.recent_failures:
        return "the run failed"
    failure = state.recent_failures[-1]
    return f"a task failed: {failure.cause}: {failure.message}"


async def _forget(spec: SiteSpec, session: Session) -> None:
    """Remove the run's logs and exit records at its site."""
    name = session.state.site_directory
    if not name:
        return  # the run never started
    if spec.access is None:
        directory = session.run.site_directory(spec, name)
        if spec.directory is not None:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        return
    connection = connection_of(spec.access, None)
    written = spec.directory or DEFAULT_DIRECTORY
    try:
        await asyncio.wait_for(connection.open(lambda reason: None), GRACE_S)
        host = await connection.host()
        path = await find_directory(host, spec.name, written, name)
        await asyncio.wait_for(host.remove([path]), GRACE_S)
    except (WfrunError, asyncio.TimeoutError) as error:
        _LOGGER.warning("site %s: %s/%s is not removed: %s", spec.name, written, name, error)
    finally:
        await connection.close()
