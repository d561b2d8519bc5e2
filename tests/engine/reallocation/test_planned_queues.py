"""Estimates for parallel jobs from the starts that a site's own scheduler plans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.sites.batch.recordings import SLURM, recorded
from wfrun.engine import events as ev
from wfrun.engine.capabilities.reallocating.site_queues import SiteQueues
from wfrun.engine.capabilities.view import StateView
from wfrun.engine.core.core import Core
from wfrun.engine.jobs.moldable import SIZINGS, fixed
from wfrun.engine.model import Resources, SiteSpec, Task, Workflow
from wfrun.engine.queues.queue_model import MAX_AHEAD_S, MAX_PASSED_S
from wfrun.sites.batch.slurm.queue import read_queue
from wfrun.sites.cluster.queue_watch import as_background

NOW_S = 1795443144.0
"""When the queue was recorded."""
SUBMITTED_S = {
    (2, 1): 0, (2, 5): 0, (2, 12): 0, (4, 1): 0, (4, 5): 0, (4, 12): 0,
    (8, 1): 1795443735, (8, 5): 1795443735, (8, 12): 1795444320,
    (12, 1): 1795445520, (12, 5): 1795445520, (12, 12): 1795446420,
    (16, 1): 1795446420, (16, 5): 1795446420, (16, 12): 1795446420,
}  # fmt: skip
"""Starts that Slurm then planned for jobs of (processors, minutes) when they were really submitted,
one after another; 0: the job started immediately."""
ROUNDING_S = 60.0
"""The resolution of Slurm's plan, ``bf_resolution``."""


def engine(*sites: SiteSpec, tasks: int = 0, cores: int = 4) -> Core:
    """A run that reallocates jobs of ``cores`` processors and 100 s, with a run time of 60 s; all
    start at site 0."""
    asked = Resources(cores, walltime_s=100.0, parallel=True)
    jobs = [Task(f"j{n}", "x", "x", resources=asked, runtime_s=60.0) for n in range(tasks)]
    later = [Task("new", "x", "x", resources=Resources(2, walltime_s=1100.0), runtime_s=5.0)]
    documents = {
        "0": Workflow("jobs", "jobs.yaml", jobs, [], [()] * len(jobs)),
        "1": Workflow("later", "later.yaml", later, [], [()]),
    }
    core = Core(documents)
    settings = ev.Settings(policy="mst", reallocate="mct-reg", reallocate_every_s=100.0)
    core.step(ev.RunStarted(NOW_S, "r", settings, sites, (), 1))
    for site in range(1, len(sites)):
        core.step(ev.SitePaused(NOW_S, site, "by the test"))
    core.step(ev.WorkflowAdded(NOW_S, 0, "jobs", "0"))
    keys = tuple(core.state.attempts)
    assert len(keys) == tasks
    core.step(ev.AttemptsSubmitted(NOW_S, 0, keys))
    for site in range(1, len(sites)):
        core.step(ev.SiteReopened(NOW_S, site))
    return core


def queues(core: Core) -> SiteQueues:
    return SiteQueues(core.state, SIZINGS["exhaustive"], {}, {})


def start_s(core: Core, cores: int, length_s: float, site: int = 0) -> float:
    """Seconds from now to the estimated start of a job that is submitted now."""
    offer = queues(core).offer_of(fixed(cores, length_s), site)
    assert offer is not None
    return offer.start_s - core.state.now_s


def observed(jobs: Sequence[ev.BackgroundJob], *planned: tuple[str, float]) -> ev.SiteObserved:
    return ev.SiteObserved(NOW_S, 0, tuple(jobs), (), planned)


def test_estimates_are_the_starts_that_slurm_plans_for_submitted_jobs() -> None:
    """Other users' jobs have no history, so without Slurm's plan a waiting one counts as an
    hour."""
    core = engine(SiteSpec("alpha", 16, backfills=True))
    listed = [job for job in read_queue(recorded(SLURM, "queue-planned").output)
              if job.state != "held"]  # fmt: skip
    jobs = [as_background(job, job.started_s, job.planned_s) for job in listed]
    core.step(observed(sorted(jobs, key=lambda job: job.started_s is None)))
    for (cores, minutes), planned_s in SUBMITTED_S.items():
        expected_s = max(0.0, planned_s - NOW_S)
        found_s = start_s(core, cores, minutes * 60.0)
        assert found_s == pytest.approx(expected_s, abs=ROUNDING_S), (cores, minutes)


def waiting(number: int, cores: int, planned_s: float | None) -> ev.BackgroundJob:
    return ev.BackgroundJob(f"w{number}", cores, None, None, "", "", 1000.0, planned_s)


RUNNING = ev.BackgroundJob("r", 4, NOW_S - 10, None, "", "", 2010.0)


def test_our_jobs_start_when_the_queue_plans_them() -> None:
    core = engine(SiteSpec("alpha", 4, backfills=True), tasks=2)
    first, second = core.state.attempts
    core.step(observed([RUNNING], (second, NOW_S + 2000), (first, NOW_S + 2500)))
    there = queues(core)
    completions = {job.id: there.completion_s(job) - NOW_S for job in there.waiting()}
    assert completions == {second: 2100.0, first: 2600.0}
    assert start_s(core, 4, 50.0) == 2100.0  # between the two
    assert start_s(core, 4, 500.0) == 2600.0


def test_jobs_that_the_queue_does_not_plan_follow_those_that_it_does() -> None:
    core = engine(SiteSpec("alpha", 4, backfills=True), tasks=1)
    core.step(observed([RUNNING, waiting(1, 4, None), waiting(2, 4, NOW_S + 2000)]))
    (job,) = queues(core).waiting()
    assert queues(core).completion_s(job) - NOW_S == 2000 + 1000 + 1000 + 100


@pytest.mark.parametrize(
    "planned_s", [None, NOW_S - MAX_PASSED_S - 1, NOW_S + MAX_AHEAD_S + 1, 0.0, -1e300, 1e300]
)
def test_without_a_plan_that_can_be_the_model_plans(planned_s: float | None) -> None:
    """The running job is taken as half done, the waiting one as an hour: no walltimes."""
    core = engine(SiteSpec("alpha", 4, backfills=True))
    core.step(observed([RUNNING, waiting(1, 4, planned_s)]))
    assert start_s(core, 4, 50.0) == 10 + 3600


def test_a_start_that_has_just_passed_is_now() -> None:
    core = engine(SiteSpec("alpha", 4, backfills=True))
    core.step(observed([waiting(1, 4, NOW_S - 30)]))
    assert start_s(core, 4, 50.0) == 1000.0


def test_a_queue_in_strict_order_has_no_holes() -> None:
    core = engine(SiteSpec("alpha", 4, backfills=False))
    core.step(observed([RUNNING, waiting(1, 4, NOW_S + 9000)]))
    assert start_s(core, 4, 50.0) == 10 + 3600


def test_equal_starts_of_an_array_are_one_after_another() -> None:
    """Slurm shows the start of the first waiting element for all of them."""
    core = engine(SiteSpec("alpha", 4, backfills=True))
    core.step(observed([waiting(n, 4, NOW_S + 100) for n in range(3)]))
    assert start_s(core, 4, 200.0) == 100 + 3 * 1000


def test_a_round_moves_a_job_that_slurm_plans_late() -> None:
    """Without Slurm's plan the jobs seem to start soon: the running one has just begun."""
    for is_shown in (False, True):
        core = engine(SiteSpec("alpha", 4, backfills=True), SiteSpec("beta", 4, 0.5), tasks=2)
        oldest, key = core.state.attempts
        starts = ((oldest, NOW_S + 2000), (key, NOW_S + 2100))
        core.step(observed([RUNNING], *(starts if is_shown else ())))
        core.step(ev.SiteObserved(NOW_S, 1, (ev.BackgroundJob("o", 4, NOW_S - 300),)))
        timer = core.state.timers["reallocation"]
        decided, _ = core.step(ev.TimerFired(timer, "reallocation"))
        moved = [event for event in decided if isinstance(event, ev.JobsReallocated)]
        assert [event.moves for event in moved] == ([((key, 1),)] if is_shown else [])


def test_moving_away_lets_the_jobs_behind_move_up() -> None:
    core = engine(SiteSpec("alpha", 4, backfills=True), tasks=3)
    keys = list(core.state.attempts)
    starts = [(key, NOW_S + 2000 + 100 * n) for n, key in enumerate(keys)]
    core.step(observed([RUNNING], *starts))
    there = queues(core)
    first, second, third = there.waiting()
    there.cancel(first)
    completions = [there.completion_s(job) - NOW_S for job in (second, third)]
    assert completions == [2100.0, 2200.0]
    assert all(before < after for before, after in pairwise(completions))


@pytest.mark.parametrize("backfills", [True, None])
def test_strategies_of_level_3_use_the_plan(backfills: bool | None) -> None:
    """Waits are those until the planned starts, a new job needs a hole for its walltime, and the
    last job ends after its run time."""
    core = engine(SiteSpec("alpha", 4, backfills=backfills), tasks=3)
    first, second, _ = core.state.attempts
    core.step(observed([RUNNING], (second, NOW_S + 2000), (first, NOW_S + 2180)))
    view = StateView(core.run, core.state.workflows[0])
    assert view.mean_wait(0) == (2000 + 2180 + 2280) / 3  # the third one is not planned
    assert view.mean_wait(0, "work") == (2000 + 2180 + 2280) * 4 * 60 / 3
    assert view.last_end_s(0) == 2280 + 60
    assert view.estimate_start_s(0, 0) == 2380  # 80 s are free between the first two
    core.step(observed([RUNNING]))
    # By the model a running job without a prediction is half done.
    assert view.mean_wait(0) == 10 + 60
    assert view.last_end_s(0) == 10 + 3 * 60


def test_placements_after_the_plan_was_seen_follow_it() -> None:
    core = engine(SiteSpec("alpha", 4), SiteSpec("beta", 2), tasks=1)
    (key,) = core.state.attempts
    core.step(observed([RUNNING, waiting(1, 2, NOW_S + 2000)], (key, NOW_S + 3000)))
    core.step(ev.WorkflowAdded(NOW_S, 1, "more", "1"))
    view = StateView(core.run, core.state.workflows[1])
    assert view.estimate_start_s(0, 0) == 3100  # 1000 s are free beside the waiting job


def test_a_queue_in_strict_order_has_no_plan_for_strategies() -> None:
    core = engine(SiteSpec("alpha", 4, backfills=False), tasks=1)
    (key,) = core.state.attempts
    core.step(observed([RUNNING], (key, NOW_S + 2000)))
    assert StateView(core.run, core.state.workflows[0]).mean_wait(0) == 10
