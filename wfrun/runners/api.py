"""The Python API: run, resume and inspect runs from a program.

    import wfrun

    result = wfrun.run("montage.dax", policy="cluster-min", throttle=100)
    print(result.outcome, result.makespan_s, result.outputs)

``run_async`` and ``resume_async`` are coroutines for programs with an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from wfrun.engine.core.state import RunState
from wfrun.engine.events import Event
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.settings import all_settings, make_settings
from wfrun.engine.tasks.failures import Failure
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.record_types import check_document
from wfrun.runners.run.changes import changed_run
from wfrun.runners.run.directory import run_directory as rundir
from wfrun.runners.run.directory.trust import find_own
from wfrun.runners.run.history.history_file import history_file
from wfrun.runners.run.prepare.plugins import load_policies
from wfrun.runners.run.prepare.prepare import prepare, this_machine
from wfrun.runners.run.session import Session
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.simulate.simulated_run import refuse_simulated
from wfrun.sites.catalog import read_catalog

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from wfrun.runners.run.prepare.arguments import ResumeArguments, RunArguments

Document = str | Path | Workflow
Observer = Callable[[Sequence[Event]], None]


class RunResult(msgspec.Struct, frozen=True):
    """The state of a run, which may still be going on."""

    outcome: str | None
    """``done``, ``failed`` or ``cancelled``; None if the run has not ended."""
    directory: Path
    outputs: Path
    """Folder of the final outputs."""
    tasks: int
    """Number of tasks, of which ``done`` succeeded and ``failed`` have no retries left."""
    done: int
    failed: int
    blocked: int
    """Number of tasks that depend on a failed task."""
    reused: int
    """Number of done tasks that an earlier run did."""
    makespan_s: float | None
    """Seconds from the start of the run to its last event; None: the run did not finish."""
    failures: tuple[Failure, ...]
    """The latest attempts that failed."""
    unneeded: int = 0
    """Number of optional tasks that were not needed."""


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _blocking(function: Callable[_P, Coroutine[Any, Any, _T]], name: str) -> Callable[_P, _T]:
    """Return a blocking function called ``name`` that runs the coroutine function to its end."""

    @wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _T:
        return asyncio.run(function(*args, **options))

    call.__name__ = call.__qualname__ = name
    return call


def _with_settings(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Add the options of a run to the signature of the function, for ``help``. The signature of
    ``resume`` gets only those options that a resume can change."""
    own = signature(function)
    *params, _ = own.parameters.values()
    keyword = Parameter.KEYWORD_ONLY
    for setting in all_settings().values():
        if setting.option.only_jobs:
            continue
        if function.__name__ == "run_async":
            params.append(Parameter(setting.name, keyword, default=setting.default))
        elif setting.option.resume:
            params.append(Parameter(setting.name, keyword, default=None))
    function.__signature__ = own.replace(parameters=params)  # type: ignore[attr-defined]
    return function


@_with_settings
async def run_async(
    *documents: Document,
    sites: str | Path | Catalog | None = None,
    inputs: str | Path | None = None,
    command: str | None = None,
    delimiter: str | None = None,
    run_dir: str | Path | None = None,
    reuse: str | Path = "none",
    history: str | Path | None = None,
    no_history: bool = False,
    past_usage: bool = False,
    observer: Observer | None = None,
    **options: Unpack[RunArguments],
) -> RunResult:
    """Run workflows and bags of tasks, and wait for the end.

    The arguments are options of ``wfrun run``. ``options`` are the fields of
    ``wfrun.engine.settings.Settings``, with times in seconds. ``sites`` is a catalog or the path of
    a catalog; None: only this machine. ``reuse`` is an earlier run whose tasks need not run again,
    ``auto`` for the user's latest runs, or ``none``. ``observer`` is called with every group of
    events once it is in the log. Cancelling the coroutine leaves running tasks running; ``resume``
    continues the run.

    Returns when the run has ended. Failed tasks raise no error; see ``RunResult.outcome``. Raises
    InvalidError for wrong input and InfeasibleError for a site that cannot be used, both before any
    task starts.
    """
    load_policies()
    settings = make_settings(options)
    if sites is None:
        catalog = this_machine()
    else:
        catalog = sites if isinstance(sites, Catalog) else read_catalog(sites)
    read = [check_document(document) for document in documents]
    plan = prepare(
        read,
        catalog,
        settings,
        inputs=Path(inputs) if inputs is not None else None,
        template=None if command is None else LineTemplate(command, delimiter),
    )
    session = Session(
        history=history_file(history, without=no_history, own_only=settings.emulate),
        past_usage=past_usage,
    )
    first = read[0]
    name = first.name if isinstance(first, Workflow) else first.stem
    given = Path(run_dir) if run_dir is not None else None
    session.start(plan, given, name, str(reuse))
    return await _drive(session, observer)


@_with_settings
async def resume_async(
    run: str | Path | None = None,
    *,
    observer: Observer | None = None,
    dead_hosts: Collection[str] = (),
    trust: bool = False,
    sites: str | Path | Catalog | None = None,
    **options: Unpack[ResumeArguments],
) -> RunResult:
    """Resume a run, and wait for its end.

    ``run`` is the path of a run directory, the name of a run, or None for the last run.
    ``observer`` is called with every group of events once it is in the log. Done tasks are not run
    again, running tasks are adopted, failed tasks get all their retries again. ``dead_hosts`` are
    names of hosts that the user states to be down. ``sites`` (a catalog or its path) and
    ``options`` replace those of the run.

    Raises InvalidError if there is no such run, if another process drives it, if it was simulated,
    if it cannot continue with these sites or options, or if other users own or may write its
    directory and ``trust`` is not set. Raises InfeasibleError for a site that cannot be used.
    """
    load_policies()
    session = Session()
    found = find_own(None if run is None else str(run), "resume", trust=trust)
    refuse_simulated(found, "there is nothing to continue")
    catalog = read_catalog(sites) if isinstance(sites, (str, Path)) else sites
    session.resume(
        found, dead_hosts=dead_hosts, change=lambda state: changed_run(state, options, catalog)
    )
    return await _drive(session, observer)


run = _blocking(run_async, "run")
resume = _blocking(resume_async, "resume")


def status(run: str | Path | None = None) -> RunResult:
    """The state of a run, also while another process drives it.

    ``run`` is the path of a run directory, the name of a run, or None for the last run. A
    starting run has no tasks yet. Raises InvalidError if there is no such run, or if it was never
    started.
    """
    load_policies()
    found = rundir.find(None if run is None else str(run))
    try:
        return _result(read_state(found), found)
    except rundir.StartingError:
        return RunResult(None, found.path, found.outputs, 0, 0, 0, 0, 0, None, ())


async def _drive(session: Session, observer: Observer | None) -> RunResult:
    if observer is not None:
        session.observers.append(observer)
    return _result(await session.drive(), session.run)


def _result(state: RunState, run: rundir.RunDir) -> RunResult:
    return RunResult(
        outcome=state.ended,
        directory=run.path,
        outputs=run.outputs,
        tasks=state.tasks,
        done=state.done,
        failed=state.failed,
        blocked=state.blocked,
        unneeded=state.unneeded,
        reused=state.reused,
        makespan_s=state.end_s - state.started_s if state.ended == "done" else None,
        failures=tuple(state.recent_failures),
    )
