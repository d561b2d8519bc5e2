"""``wfrun bench dispatch``: how fast tasks get to the slots of sites, and how fast we know of it.

Each site gets one run of its own, through the ordinary engine: a task that waits for the queue,
then tasks without work, all at once; then a chain of such, one after the other; then tasks of
100 ms that fill all slots several times. All figures are taken from the run's log.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from rich.table import Table
from rich.text import Text

from wfrun.engine import events as ev
from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, Resources, SiteSpec, Task, Workflow
from wfrun.engine.state import RunState
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.cli.exit_statuses import DONE, INTERRUPTED, SITE
from wfrun.runners.cli.sites_command import choose
from wfrun.runners.display.report import duration, make_console
from wfrun.runners.run.prepare import prepare, this_machine
from wfrun.runners.run.session import Session
from wfrun.runners.run.store import Store
from wfrun.sites.catalog import read_catalog
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.remote.directory import find_directory

TASK_S = 0.1
"""Of the tasks whose makespan is compared with the ideal."""
WALLTIME_S = 60.0
"""That a task asks for, where the site grants so much."""
GRACE_S = 60.0
"""For what was started to end, once a site is given up."""
_LOGGER = logging.getLogger(__name__)


class Sizes(NamedTuple):
    """How many tasks of each kind."""

    empty: int
    """At once, without work."""
    chain: int
    """Without work, each after the one before."""
    short: int
    """At once, of TASK_S."""


class Figures(NamedTuple):
    """What the log of one run says of its site; None: the run did not come so far."""

    first_s: float | None
    """From the start of the run until its first task started."""
    rate: float | None
    """Tasks without work per second, from the first start until the last end was known."""
    latency_s: float | None
    """From a task's exit until its successor has started, without the time that it ran; the median
    of the chain. By one clock, the engine's."""
    slots: float
    """That the short tasks had, on average: of live launchers, else of the catalog."""
    ideal_s: float | None
    """For the short tasks on these slots."""
    took_s: float | None
    """From when they could start until the last end was known."""


class Result(NamedTuple):
    """What came of one site."""

    spec: SiteSpec
    figures: Figures
    problem: str | None = None
    """Why not all was measured."""
    interrupted: bool = False

    @property
    def is_usable(self) -> bool:
        return self.figures.rate is not None


def dispatch(catalog: Path | None, names: Sequence[str], tasks: int | None, limit_s: float) -> int:
    """Measure sites one after the other, and print a table. Returns the exit status: 0, 3 where a
    site can't be used, 130 after Ctrl-C."""
    found = read_catalog(catalog) if catalog else this_machine()
    sites = choose(found.sites, names, str(catalog or "this machine"))
    results = []
    for spec in sites:
        click.echo(f"{spec.name}: {_plan_in_words(spec, sizes_of(spec, tasks))}", err=True)
        results.append(asyncio.run(measure(spec, sizes_of(spec, tasks), limit_s)))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if results[-1].interrupted:
            break
    console = make_console()
    console.print(result_table(results))
    for result in results:
        if result.problem:
            console.print(Text(f"site {result.spec.name}: {result.problem}", style="yellow"))
    if results[-1].interrupted:
        return INTERRUPTED
    return DONE if all(result.is_usable for result in results) else SITE


# What is run


def sizes_of(spec: SiteSpec, tasks: int | None) -> Sizes:
    """``tasks`` without work, or as many as take some seconds; the rest follows from the slots.
    Where every task is a job of its own, few, since each costs the batch system something."""
    if is_batch(spec):
        return Sizes(tasks or min(100, 2 * spec.slots), 3, min(100, 2 * spec.slots))
    return Sizes(tasks or 5000, 50, min(5000, 50 * spec.slots))


def is_batch(spec: SiteSpec) -> bool:
    """Whether each task there is a job of its own."""
    return spec.has_batch_system and spec.access is not None and spec.access.dispatch == "jobs"


def bench_workflow(spec: SiteSpec, sizes: Sizes) -> Workflow:
    """One task, then those without work, then the chain, then the short ones."""
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


async def measure(spec: SiteSpec, sizes: Sizes, limit_s: float) -> Result:
    """One run at this site, in a directory that is removed afterwards, here and at the site. What
    is not done after ``limit_s`` is cancelled."""
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
    return Result(spec, figures, run.problem(), run.interrupted)


def _logged(session: Session) -> list[ev.AnyEvent]:
    """The run's log; where the site could not even be opened there is none."""
    if not session.state.run_id:
        return []
    store = Store(session.run.path)
    try:
        return list(store.load())
    finally:
        store.close()


class _Run:
    """A session that comes to an end, one way or another."""

    def __init__(self, session: Session, limit_s: float) -> None:
        self._session = session
        self._limit_s = limit_s
        self._error: str | None = None
        self._is_late = False
        self.interrupted = False

    async def drive(self) -> None:
        """To the end, or until the limit and what it takes to end all then."""
        self._session.listen_to_signals(self._interrupt)
        alarm = asyncio.get_running_loop().call_later(self._limit_s, self._give_up)
        try:
            await asyncio.wait_for(self._session.drive(), self._limit_s + GRACE_S)
        except asyncio.TimeoutError:
            self._error = f"not all that was started has ended in {GRACE_S:.0f} s"
        except WfrunError as error:
            self._error = str(error)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            alarm.cancel()

    def problem(self) -> str | None:
        """Why it is not done."""
        state = self._session.state
        if self._error or state.ended == "done":
            return self._error
        if self.interrupted:
            return "interrupted"
        reason = state.sites[0].pause_reason if state.sites else None
        if self._is_late:
            begun = any(site.done or site.failed for site in state.sites)
            late = f"stopped after {duration(self._limit_s)}, the --limit"
            return f"{late}: {reason or ('not all was done' if begun else 'no task has ended')}"
        return reason or state.end_reason or _last_failure(state)

    def _give_up(self) -> None:
        self._is_late = True
        self._session.cancel("kill")

    def _interrupt(self, times: int) -> None:
        self.interrupted = True
        if times == 1:
            self._session.cancel("kill")
            click.echo("what was started is being ended. Ctrl-C twice leaves at once.", err=True)


def _last_failure(state: RunState) -> str:
    if not state.recent_failures:
        return "the run failed"
    failure = state.recent_failures[-1]
    return f"a task failed: {failure.cause}: {failure.message}"


async def _forget(spec: SiteSpec, session: Session) -> None:
    """Remove what is left of the run at its site: logs and exit records."""
    run_id = session.state.run_id
    if not run_id:
        return  # it never began
    if spec.access is None:
        directory = session.run.site_directory(spec, run_id)
        if spec.directory is not None:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        return
    connection = connection_of(spec.access, None)
    written = spec.directory or DEFAULT_DIRECTORY
    try:
        await asyncio.wait_for(connection.open(lambda reason: None), GRACE_S)
        host = await connection.host()
        path = await find_directory(host, spec.name, written, run_id)
        await asyncio.wait_for(host.remove([path]), GRACE_S)
    except (WfrunError, asyncio.TimeoutError) as error:
        _LOGGER.warning(
            "site %s: %s/wfrun-%s is not removed: %s", spec.name, written, run_id, error
        )
    finally:
        await connection.close()


# What came of it


def figures_of(events: Iterable[ev.Event], spec: SiteSpec, sizes: Sizes) -> Figures:
    """Read the log of a run of ``bench_workflow``, as far as it goes."""
    log = _Log(spec)
    for event in events:
        log.take(event)
    empty = range(1, 1 + sizes.empty)
    chain = range(empty.stop, empty.stop + 1 + sizes.chain)
    short = range(chain.stop, chain.stop + sizes.short)
    first_s = log.started_s.get(0)
    begun_s = [log.started_s[n] for n in empty if n in log.started_s]
    ended_s = [log.known_s[n] for n in empty if n in log.known_s]
    rate = None
    if ended_s and begun_s and max(ended_s) > min(begun_s):
        rate = len(ended_s) / (max(ended_s) - min(begun_s))
    steps = [
        log.known_s[n + 1] - log.known_s[n] - log.took_s[n + 1]
        for n in chain[:-1]
        if n + 1 in log.known_s
    ]
    slots, ideal_s, took_s = float(spec.slots), None, None
    if all(n in log.known_s for n in short):
        from_s = log.known_s[chain[-1]]
        took_s = max(log.known_s[n] for n in short) - from_s
        ideal_s = log.ideal_s(from_s, sizes.short * TASK_S)
        slots = sizes.short * TASK_S / ideal_s
    return Figures(
        first_s=None if first_s is None else first_s - log.begun_s,
        rate=rate,
        latency_s=max(0.0, statistics.median(steps)) if steps else None,
        slots=slots,
        ideal_s=ideal_s,
        took_s=took_s,
    )


class _Log:
    """When each task started and its end was known, and how many slots there were when."""

    def __init__(self, spec: SiteSpec) -> None:
        self.begun_s = 0.0
        self.started_s: dict[int, float] = {}
        self.known_s: dict[int, float] = {}
        self.took_s: dict[int, float] = {}
        """As measured where it ran."""
        self._live: dict[str, int] = {}
        by_launchers = spec.access is not None and spec.access.dispatch == "launchers"
        self._slots: list[tuple[float, int]] = [(0.0, 0 if by_launchers else spec.slots)]
        """From when on there were so many."""

    def take(self, event: ev.Event) -> None:
        if isinstance(event, ev.RunStarted):
            self.begun_s = event.at_s
        elif isinstance(event, ev.AttemptStarted):
            self.started_s[_task(event.key)] = event.at_s
        elif isinstance(event, ev.AttemptEnded):
            self._end(_task(event.key), event.at_s, event.outcome)
        elif isinstance(event, ev.LauncherStarted):
            self._live[event.key] = event.slots
            self._slots.append((event.at_s, sum(self._live.values())))
        elif isinstance(event, (ev.LauncherDraining, ev.LauncherEnded)):
            self._live.pop(event.key, None)
            self._slots.append((event.at_s, sum(self._live.values())))

    def _end(self, task: int, at_s: float, outcome: Outcome) -> None:
        if outcome.cause != "done":
            return
        self.known_s[task] = at_s
        took_s = 0.0
        if outcome.started_s is not None and outcome.ended_s is not None:
            took_s = outcome.ended_s - outcome.started_s
        self.took_s[task] = took_s
        self.started_s.setdefault(task, at_s - took_s)  # its start was never told

    def ideal_s(self, from_s: float, work_s: float) -> float:
        """How long so many core seconds take from then on, on all slots there are."""
        left_s = work_s
        untils = [at_s for at_s, _ in self._slots[1:]] + [float("inf")]
        for (since_s, slots), until_s in zip(self._slots, untils, strict=True):
            if until_s <= from_s or slots == 0:
                continue
            begin_s = max(since_s, from_s)
            if left_s <= (until_s - begin_s) * slots:
                return begin_s + left_s / slots - from_s
            left_s -= (until_s - begin_s) * slots
        return left_s  # one slot was there, or the tasks could not have ended


def _task(key: str) -> int:
    return int(key.rsplit(".", 2)[1])


def result_table(results: Sequence[Result]) -> Table:
    """A row for each site."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("site", no_wrap=True)
    table.add_column("tasks are")
    for heading in ("slots", "first start", "tasks/s", "latency",
                    f"{TASK_S * 1e3:.0f} ms tasks", "ideal", "overhead"):  # fmt: skip
        table.add_column(heading, justify="right")
    for spec, figures, _, _ in results:
        overhead = None
        if figures.took_s is not None and figures.ideal_s:
            overhead = figures.took_s / figures.ideal_s - 1
        table.add_row(
            spec.name,
            _way(spec),
            f"{figures.slots:.0f}",
            _or_dash(figures.first_s, "{:.2f} s"),
            _or_dash(figures.rate, "{:,.1f}"),
            _or_dash(figures.latency_s and figures.latency_s * 1e3, "{:,.1f} ms"),
            _or_dash(figures.took_s, "{:.2f} s"),
            _or_dash(figures.ideal_s, "{:.2f} s"),
            _or_dash(overhead, "{:.1%}"),
        )
    return table


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _way(spec: SiteSpec) -> str:
    if is_batch(spec):
        return "jobs"
    return "in launchers" if spec.has_batch_system else "processes"


def _plan_in_words(spec: SiteSpec, sizes: Sizes) -> str:
    return (
        f"{sizes.empty} tasks without work, {sizes.chain} one after the other, {sizes.short} of "
        f"{TASK_S * 1e3:.0f} ms; {_way(spec)}"
    )
