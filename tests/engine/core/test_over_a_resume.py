"""What a run has learnt outlives its engine: the next one decides as the one before would have.

Each test brings a run to some point, lets a new engine take it over from the log, and steps both
engines, of which the first has not died, through the same events.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.capabilities.test_defects import placed
from tests.engine.capabilities.test_defects_sites import Run, cluster
from tests.engine.policies.test_policies import bag, sites
from tests.engine.policies.test_selection import bag as owned_bag
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec, Task, Workflow


def resumed(run: Run, at_s: float, *gone: str) -> Run:
    """Resume the run. All attempts are still at their sites, and all launchers except the ``gone``
    ones reconnect."""
    again = Run.__new__(Run)
    again.documents, again.core = run.documents, run.replayed()
    again.log, again.actions = list(run.log), []
    again.step(ev.RunResumed(at_s))
    for action in again.actions[:]:
        if isinstance(action, act.FindLaunchers):
            for key in action.keys:
                _connect(again, at_s, action.site, key, is_gone=key in gone)
    for action in again.actions[:]:
        if isinstance(action, act.FindAttempts):
            again.step(ev.AttemptsFound(at_s, action.site, (), action.keys))
            for event in run.log:
                if isinstance(event, ev.AttemptStarted) and event.key in action.keys:
                    again.step(msgspec.structs.replace(event, at_s=at_s))
    return again


def _connect(run: Run, at_s: float, site: int, key: str, *, is_gone: bool) -> None:
    if is_gone:
        run.step(ev.LauncherEnded(at_s, site, key, "node", "its node failed"))
        return
    for event in list(run.log):
        if isinstance(event, ev.LauncherStarted) and event.key == key:
            run.step(msgspec.structs.replace(event, at_s=at_s))


def places(events: list[ev.Event]) -> list[int]:
    return [event.site for event in events if isinstance(event, ev.AttemptPlaced)]


# Jobs of others


@pytest.mark.parametrize(("policy", "site"), [("heft", 1), ("heft-p", 0)])
def test_observations_of_the_jobs_of_others(policy: str, site: int) -> None:
    """A job of another user runs for 100 s more at the first site; the last two there took 1 s."""
    run = Run([bag(1, 5.0)], ev.Settings(policy), sites((1, 1.0), (1, 0.5)).sites)
    for at_s, job in ((0.0, "a"), (1.0, "b")):
        run.step(ev.SiteObserved(at_s, 0, (ev.BackgroundJob(job, 1, at_s),)))
        run.step(ev.SiteObserved(at_s + 1.0, 0, ()))
    run.step(ev.SiteObserved(2.0, 0, (ev.BackgroundJob("c", 1, 2.0, 100.0),)))
    again = resumed(run, 2.5)
    assert places(again.add(0, 3.0)) == places(run.add(0, 3.0)) == [site]


def test_a_site_s_load_of_others() -> None:
    run = Run([bag(1)], ev.Settings("all-clusters"), sites((4, 1.0), (4, 1.0)).sites)
    run.step(ev.SiteLoadObserved(0.0, 0, 1, 2))
    again = resumed(run, 2.5)
    assert places(again.add(0, 3.0)) == places(run.add(0, 3.0)) == [1]


@pytest.mark.parametrize("policy", ["heft", "ect", "ect-p"])
def test_queues_with_jobs_of_others_and_of_this_run(policy: str) -> None:
    """Other users hold the first site for 60 s; a task of ours holds the second one for 20 s."""
    workflows = [bag(1, 20.0), bag(8)]
    run = Run(workflows, ev.Settings(policy, throttle="none"), sites((1, 1.0), (1, 1.0)).sites)
    run.step(ev.SiteObserved(0.0, 0, (ev.BackgroundJob("a", 1, 0.0, 60.0),)))
    assert places(run.add(0)) == ([1] if policy == "heft" else [0])
    run.step(ev.AttemptStarted(0.0, "r.0.0.1"))
    again = resumed(run, 5.0)
    expected = run.add(1, 6.0)
    assert again.add(1, 6.0) == expected
    if policy == "heft":
        assert places(expected) == [1, 1, 1, 1, 0, 1, 0, 1]


# Tasks that are placed ahead of free slots


def short_tasks(specs: tuple[SiteSpec, ...]) -> Run:
    workflow = Workflow("b", "b", [Task(f"t{n}", "x", "x") for n in range(500)], [], [()] * 500)
    run = Run([workflow], ev.Settings("fpf", selection="s-t"), specs)
    run.add(0)
    return run


def test_prefetch_of_short_tasks() -> None:
    """What was under way when the new engine took over says nothing of the latency."""
    run = short_tasks((SiteSpec("one", slots=2),))
    for number in range(8):
        key, outcome = f"r.0.{number}.1", Outcome("done", started_s=1.0, ended_s=1.0078125)
        run.step(ev.AttemptStarted(1.0, key))
        assert len(placed(run.end(key, 1.25, outcome))) == 2
    again = resumed(run, 1.25)
    assert len(again.core.state.attempts) == len(run.core.state.attempts) == 10
    for number in (8, 9, 10):
        key, outcome = f"r.0.{number}.1", Outcome("done", started_s=2.0, ended_s=2.0078125)
        assert again.end(key, 2.5, outcome) == run.end(key, 2.5, outcome)


def test_prefetch_of_short_tasks_in_launchers() -> None:
    """The new engine does not know which of the attempts that wait are in launchers that are back:
    it holds more until they have started, then as many as the engine before."""
    run = short_tasks((cluster("a", 4),))
    run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    for number in range(4):
        run.step(ev.AttemptStarted(1.0, f"r.0.{number}.1", "r.L0.1"))
    first = run.end("r.0.0.1", 2.0, Outcome("done", started_s=1.0, ended_s=1.0625))
    assert len(placed(first)) == 17, "four for each slot, and the free slot's"
    run.step(ev.AttemptsSubmitted(2.0, 0, tuple(run.core.state.attempts)))
    run.step(ev.AttemptStarted(2.0, "r.0.4.1", "r.L0.1"))
    again = resumed(run, 3.0)
    for number in range(5, 41):
        for each in (run, again):
            each.end(f"r.0.{number - 4}.1", 3.0, Outcome("done", started_s=2.0, ended_s=2.0625))
            each.step(ev.AttemptStarted(3.0, f"r.0.{number}.1", "r.L0.1"))
    assert len(again.core.state.attempts) == len(run.core.state.attempts) == 20


# Launchers


def test_the_walltime_of_launchers() -> None:
    """Four tasks are known to take 1000 s. Four more run in a launcher that is lost."""
    run = Run([bag(8)], ev.Settings("round-robin"), (cluster("a", 4, walltime_s=1e5),))
    run.add(0)
    run.step(ev.LauncherStarted(0.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    for number in range(4):
        run.step(ev.AttemptStarted(0.0, f"r.0.{number}.1", "r.L0.1"))
        run.end(f"r.0.{number}.1", 1000.0, Outcome("done", started_s=0.0, ended_s=1000.0))
    for number in range(4, 8):
        run.step(ev.AttemptStarted(1000.0, f"r.0.{number}.1", "r.L0.1"))
    again = resumed(run, 1500.0, "r.L0.1")
    run.step(ev.LauncherEnded(1500.0, 0, "r.L0.1", "node", "its node failed"))
    asked = [
        [e.launchers for e in each.log if isinstance(e, ev.LaunchersAsked)] for each in (run, again)
    ]
    assert asked[0] == asked[1]
    assert [request.walltime_s for request in asked[0][-1]] == [4000.0]


# Owners


def owners(run: Run, ends: int, at_s: float) -> str:
    """End an attempt every 5 s; returns the owners of the tasks that are placed then."""
    found = ""
    for number in range(ends):
        now_s = at_s + 5.0 * number
        (key,) = run.core.state.attempts
        run.step(ev.AttemptStarted(now_s, key))
        for event in run.end(key, now_s + 5.0):
            if isinstance(event, ev.AttemptPlaced):
                found += run.core.state.workflows[event.workflow].workflow.owner
    return found


@pytest.mark.parametrize("crash_after", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("selection", ["s-u-prio", "s-u-t", "s-u-bot", "s-u-grr", "s-u-rr"])
def test_the_shares_of_owners(selection: str, crash_after: int) -> None:
    bags = [
        owned_bag(owner, *[5.0] * tasks, priority=priority)
        for owner, tasks, priority in (
            ("u", 3, 0), ("v", 2, 1), ("u", 2, 0), ("w", 1, 0), ("v", 1, 1), ("w", 2, 0),
        )
    ]  # fmt: skip
    settings = ev.Settings("fpf", selection=selection)
    run = Run(bags, settings, (SiteSpec("one", slots=1),))
    run.step(ev.HistoryRead(0.0, "h", (), {"v": 7.0, "w": 12.0}))
    for number in range(len(bags)):
        run.add(number)
    owners(run, crash_after, 0.0)
    now_s = 5.0 * crash_after
    (key,) = run.core.state.attempts
    run.step(ev.AttemptStarted(now_s, key))
    again = resumed(run, now_s + 1.0)
    rest = 11 - crash_after
    assert owners(again, rest, now_s + 1.0) == owners(run, rest, now_s + 1.0)
    assert again.core.state.ended == run.core.state.ended == "done"
