"""Launchers are advised where jobs cost much beside their tasks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.console import Console

from wfrun.engine import events as ev
from wfrun.engine.capabilities.binding import Binding
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Access, Catalog, LauncherSpec, SiteSpec, Task, Workflow
from wfrun.runners.inspect.tables.report import launcher_advice, summary
from wfrun.runners.run.changes import changed_run

SLURM = SiteSpec("alpha", 32, kind="slurm", access=Access(("head",)))


def ran(site: SiteSpec, runtime_s: float, cost_s: float, tasks: int = 32) -> RunState:
    """The state after these tasks, all at once, with such a cost beside each run time."""
    documents = [Task(f"t{n}", "x", "x") for n in range(tasks)]
    core = Core({"w": Workflow("w", "w.dax", documents, [], [()] * tasks)})
    settings = ev.Settings("round-robin")
    core.step(ev.RunStarted(0.0, "r", settings, (site,), (), 1, own_outputs=True))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "w"))
    done = Outcome("done", started_s=0.5, ended_s=0.5 + runtime_s)
    for key in list(core.state.attempts):
        core.step(ev.AttemptStarted(0.5, key))
        core.step(ev.AttemptEnded(runtime_s + cost_s, key, done))
    assert core.state.done == tasks
    return core.state


def test_the_advice_has_the_times_that_it_follows_from() -> None:
    state = ran(SLURM, 1.0, 1.1)
    advice = launcher_advice(state)
    assert advice is not None
    assert advice.startswith("alpha: tasks take 1.0 s, a job costs 1.1 s more. With 'dispatch: ")
    assert "of a new run" in advice
    assert "resume" not in advice  # all is done
    console = Console(width=200)
    with console.capture() as shown:
        console.print(summary(state))
    assert "a job costs 1.1 s more" in shown.get()


def test_what_is_advised_for_a_run_that_goes_on_is_accepted_by_resume() -> None:
    state = ran(SLURM, 1.0, 1.1)
    state.ended = None
    advice = launcher_advice(state)
    assert advice is not None
    assert "`wfrun resume --sites` takes a new entry of another name" in advice
    launchers = LauncherSpec(cores=32, max=1)
    new = replace(SLURM, access=Access(("head",), dispatch="launchers", launchers=launchers))
    with pytest.raises(InvalidError, match="the dispatch of site 'alpha' was 'jobs'"):
        changed_run(state, {}, Catalog((new,)))
    change = changed_run(state, {}, Catalog((replace(new, name="beta"),)))
    assert change is not None
    assert [site.name for site in change.sites] == ["alpha", "beta"]
    assert change.left == (0,)


def test_nothing_is_advised_where_launchers_would_not_pay() -> None:
    assert launcher_advice(ran(SLURM, 60.0, 1.1)) is None
    assert launcher_advice(ran(SLURM, 1.0, 1.1, tasks=10)) is None
    assert launcher_advice(ran(SiteSpec("here", 32), 1.0, 1.1)) is None
    host = SiteSpec("delta", 32, kind="ssh", access=Access(("head",)))
    assert launcher_advice(ran(host, 1.0, 1.1)) is None


def test_nothing_is_advised_where_tasks_run_in_launchers() -> None:
    access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(cores=32, max=1))
    core = Core({})
    site = SiteSpec("alpha", 32, kind="slurm", access=access)
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site,), (), -1))
    core.state.sites[0].done = 100
    core.state.get(Binding).paces[0].on_success(1.0, 1.1, found_idle=True)
    assert launcher_advice(core.state) is None
