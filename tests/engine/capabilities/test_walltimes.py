"""Walltimes that follow from the run times of earlier tasks."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.walltimes import Walltimes
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Access, LauncherSpec, Resources, SiteSpec, Task, Workflow

MAX_S = 3600.0
JOBS = SiteSpec("cluster", 4, walltime_s=MAX_S, kind="slurm", access=Access(("head",)))
POOL = SiteSpec(
    "cluster", 4, kind="slurm",
    access=Access(
        ("head",), dispatch="launchers", launchers=LauncherSpec(cores=2, walltime_s=MAX_S)
    ),
)  # fmt: skip


def workflow(names: Iterable[str] = ("fit",), walltime_s: float | None = None) -> Workflow:
    resources = Resources(walltime_s=walltime_s)
    tasks = [Task(f"t{n}", name, "x", resources=resources) for n, name in enumerate(names)]
    return Workflow("w", "w.dax", tasks, [], [()] * len(tasks))


def history(*runtimes_s: float, application: str = "fit", site: str = "cluster") -> ev.HistoryRead:
    ended_s = tuple(float(n) for n in range(len(runtimes_s)))
    known = ev.ClassHistory("", application, 1, site, runtimes_s, ended_s)
    return ev.HistoryRead(0.0, "history", (known,), {})


class Run:
    """A run of one workflow at one site."""

    def __init__(self, site: SiteSpec, *read: ev.HistoryRead, of: Workflow | None = None) -> None:
        of = of or workflow()
        self.core = Core({"w": of})
        self.decided: list[ev.Event] = []
        self.now_s = 100.0
        self.step(ev.RunStarted(100.0, "r", ev.Settings("round-robin"), (site,), (), 1))
        for event in (*read, ev.WorkflowAdded(100.0, 0, "w", "w")):
            self.step(event)

    def step(self, event: ev.Event) -> None:
        decided, _ = self.core.step(event)
        self.decided += decided

    @property
    def placed(self) -> list[ev.AttemptPlaced]:
        return [event for event in self.decided if isinstance(event, ev.AttemptPlaced)]

    @property
    def asked(self) -> list[float]:
        """The walltimes of the launchers that were requested."""
        return [
            request.walltime_s
            for event in self.decided
            if isinstance(event, ev.LaunchersAsked)
            for request in event.launchers
        ]

    def end(self, cause: str, ran_s: float) -> None:
        """The attempt that was placed last ends."""
        key = self.placed[-1].key
        self.now_s += ran_s + 1
        outcome = Outcome(cause, started_s=self.now_s - ran_s, ended_s=self.now_s)  # type: ignore[arg-type]
        self.step(ev.AttemptEnded(self.now_s, key, outcome))
        for timer, at_s in list(self.core.state.timers.items()):
            self.now_s = max(self.now_s, at_s)
            self.step(ev.TimerFired(self.now_s, timer))


# Single jobs


def test_a_job_requests_what_earlier_tasks_show() -> None:
    """Twice 1.5 times the quantile, in multiples of ten minutes."""
    (placed,) = Run(JOBS, history(*[200.0] * 30)).placed
    assert placed.walltime_s == 600.0
    (placed,) = Run(JOBS, history(*[1.0] * 30)).placed
    assert placed.walltime_s == 300.0, "starting takes time, too"


@pytest.mark.parametrize(
    "run",
    [
        lambda: Run(JOBS),
        lambda: Run(JOBS, history(*[200.0] * 18)),
        lambda: Run(JOBS, history(*[200.0] * 30, application="other")),
        lambda: Run(JOBS, history(*[200.0] * 30, site="elsewhere")),
        lambda: Run(JOBS, history(*[2000.0] * 30)),
        lambda: Run(JOBS, history(*[200.0] * 30), of=workflow(walltime_s=100.0)),
        lambda: Run(msgspec.structs.replace(JOBS, walltime_s=None), history(*[200.0] * 30)),
        lambda: Run(SiteSpec("cluster", 4, walltime_s=MAX_S), history(*[200.0] * 30)),
    ],
    ids=["no history", "too few", "other tasks", "other site", "too long", "stated by document",
         "site without limit", "no batch system"],
)  # fmt: skip
def test_where_nothing_is_learned_nothing_changes(run) -> None:  # type: ignore[no-untyped-def]
    (placed,) = run().placed
    assert placed.walltime_s is None


def test_a_killed_task_gets_the_longest_walltime_and_keeps_its_retries() -> None:
    run = Run(JOBS, history(*[200.0] * 30))
    run.end("walltime", 600.0)
    first, second = run.placed
    assert (first.walltime_s, second.walltime_s) == (600.0, None)
    state = run.core.state
    assert state.workflows[0].failures == {}
    assert "longest walltime" in state.recent_failures[-1].message
    assert state.workflows[0].asked(0).walltime_s is None, "it is no limit of the task"
    run.end("done", 1000.0)
    assert state.is_complete


def test_a_killed_task_raises_the_bound_of_its_class() -> None:
    """In this run by the kill, in later ones by the run time that it had in the end."""
    run = Run(JOBS, history(*[100.0] * 30), of=workflow(["fit"] * 5))
    assert {p.walltime_s for p in run.placed} == {300.0}
    run.end("walltime", 300.0)
    walltimes = run.core.state.get(Walltimes)
    assert walltimes.limit_walltime(run.core.state.workflows[0], 0, 0) == 1200.0
    others = Run(JOBS, history(*[100.0] * 30, 700.0))
    assert 2 * 700 <= (others.placed[0].walltime_s or 0) < MAX_S


def test_the_decision_is_in_the_log() -> None:
    run = Run(JOBS, history(*[200.0] * 30))
    (placed,) = run.placed
    again = Core({"w": workflow()})
    again.replay(
        [
            ev.RunStarted(100.0, "r", ev.Settings("round-robin"), (JOBS,), (), 1),
            ev.WorkflowAdded(100.0, 0, "w", "w"),
            placed,
        ]
    )
    assert again.state.attempts[placed.key].walltime_s == 600.0


# Launchers


def test_launchers_request_what_the_work_needs() -> None:
    """Ten tasks of 100 s on 2 slots, and the longest of them."""
    tasks = workflow(["fit"] * 10)
    first, *_ = Run(POOL, history(*[100.0] * 30), of=tasks).asked
    assert first == 1320.0
    assert Run(POOL, of=tasks).asked[0] == MAX_S


def test_launchers_without_all_run_times_request_the_maximum() -> None:
    tasks = workflow(["fit", "plot"])
    assert Run(POOL, history(*[10.0] * 30), of=tasks).asked[0] == MAX_S
    assert Run(POOL, history(*[2000.0] * 30)).asked[0] == MAX_S


def test_a_task_starts_only_where_its_bound_fits() -> None:
    run = Run(POOL, history(*[100.0] * 29, 200.0))
    launchers = run.core.state.get(Launchers)
    w = run.core.state.workflows[0]
    expected_s = launchers.expected_s(w, 0, 0)
    assert expected_s is not None
    assert 1.5 * 200 <= expected_s <= run.asked[0] / 2
    assert Run(POOL).core.state.get(Launchers).expected_s(w, 0, 0) is None
    longer = Run(POOL, history(*[9000.0] * 30))
    assert longer.core.state.get(Launchers).expected_s(w, 0, 0) == 0.75 * MAX_S
