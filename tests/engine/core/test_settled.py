"""A workflow and a run end with the event after which nothing of them can run."""

from __future__ import annotations

from tests.engine.capabilities.test_defects_sites import Run, cluster
from tests.engine.policies.test_policies import bag, chain, sites
from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec

FAILED = Outcome("exit", exit_code=1)


def test_a_task_that_is_blocked_by_the_timer_of_its_retry_ends_its_workflow() -> None:
    """The file of t0 is lost while t1 runs; t0 then fails for good, and t1 too: t1 cannot be tried
    again. A launcher that is kept while no work waits must not keep the run open."""
    workflow = chain((0, 1, 1), runtimes_s=[10.0, 10.0])
    run = Run([workflow], ev.Settings("round-robin", retries=1), (cluster("a", 8, min=1),))
    run.add(0)
    run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    run.step(ev.AttemptStarted(1.0, "r.0.0.1", "r.L0.1"))
    run.end("r.0.0.1", 2.0, Outcome("done", sizes=(1,)))
    run.step(ev.AttemptStarted(2.0, "r.0.1.1", "r.L0.1"))
    run.step(ev.RunResumed(10.0, ((0, 0, 0),)))
    run.step(ev.LauncherStarted(10.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    run.step(ev.AttemptStarted(11.0, "r.0.0.2", "r.L0.1"))
    run.end("r.0.0.2", 12.0, FAILED)
    run.step(ev.TimerFired(20.0, "retry:0:0"))
    run.end("r.0.0.3", 21.0, FAILED)
    run.end("r.0.1.1", 22.0, FAILED)
    run.step(ev.TimerFired(40.0, "retry:0:1"))
    w = run.core.state.workflows[0]
    assert (w.failed, w.blocked) == (1, 1)
    assert w.ended_s == 40.0
    run.step(ev.TimerFired(130.0, "away:0"))
    assert run.core.state.ended == "failed"


def given_up(site: SiteSpec, retry_delay_s: float) -> Run:
    """A run whose only site is given up, after three tasks of three failed in its environment."""
    settings = ev.Settings("round-robin", retries=1, retry_delay_s=retry_delay_s)
    run = Run([bag(3)], settings, (site,))
    run.add(0)
    if site.access is not None:
        run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    for number in range(3):
        run.end(f"r.0.{number}.1", 2.0, Outcome("environment", host=f"n{number}"))
    return run


def test_a_run_whose_only_site_is_given_up_waits_for_no_idle_launcher() -> None:
    """Its launchers would be stopped after their idle timeout, and only then would the run end."""
    run = given_up(cluster("a", 4), retry_delay_s=0.0)
    for number in range(3):
        run.step(ev.TimerFired(2.0, f"retry:0:{number}"))
    assert run.core.state.ended == "failed"
    assert "given up" in (run.core.state.end_reason or "")


def test_a_run_whose_only_site_is_given_up_waits_for_no_retry() -> None:
    run = given_up(SiteSpec("a", 4), retry_delay_s=100.0)
    assert run.core.state.ended == "failed"
    assert run.core.state.now_s == 2.0


def test_a_run_waits_for_a_retry_while_a_site_may_recover() -> None:
    settings = ev.Settings("round-robin", retries=1, retry_delay_s=100.0)
    run = Run([bag(1)], settings, sites((4, 1.0), (4, 1.0)).sites)
    run.add(0)
    run.end("r.0.0.1", 2.0, Outcome("environment"))
    run.step(ev.SitePaused(3.0, 0, "out of reach"))
    run.step(ev.SitePaused(3.0, 1, "out of reach"))
    assert run.core.state.ended is None
