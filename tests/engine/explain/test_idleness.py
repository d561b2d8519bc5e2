"""Why a site has free cores, by the state of the run: each kind of reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from wfrun.engine import events as ev
from wfrun.engine.core.actions import CopyFile, SubmitAttempts
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.idleness import Idleness, explain_idleness
from wfrun.engine.explain.time_left import TimeLeftEstimator
from wfrun.engine.model import (
    Access,
    File,
    LauncherSpec,
    LinkSpec,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)

ALPHA, BETA = SiteSpec("alpha", 4), SiteSpec("beta", 4)


def tasks(count: int, *, cores: int = 1, parents: Sequence[tuple[int, ...]] = ()) -> Workflow:
    some = [
        Task(f"t{n}", "x", "x", resources=Resources(cores=cores), runtime_s=60.0)
        for n in range(count)
    ]
    return Workflow("w", "w.dax", some, [], parents or [()] * count)


class Run:
    """A core whose sites answer what the test says."""

    def __init__(
        self,
        workflow: Workflow,
        *sites: SiteSpec,
        policy: str = "round-robin",
        throttle: int | None = None,
        links: tuple[LinkSpec, ...] = (),
        sizing: Literal["binary"] | None = None,
    ) -> None:
        self.core = Core({"w": workflow})
        self.submitted: list[tuple[int, str]] = []
        self.copies: list[CopyFile] = []
        settings = ev.Settings(policy, throttle=throttle, retries=3, sizing=sizing)
        self.step(ev.RunStarted(1.0, "r", settings, sites, links, 1, own_outputs=True))
        self.step(ev.WorkflowAdded(1.0, 0, "w", "w"))

    def step(self, event: ev.Event) -> None:
        _, actions = self.core.step(event)
        for action in actions:
            if isinstance(action, SubmitAttempts):
                self.submitted += [(action.site, key) for key, _, _ in action.attempts]
            elif isinstance(action, CopyFile):
                self.copies.append(action)

    def start(self, site: int) -> None:
        """Start all attempts of a site that do not run."""
        for at, key in self.submitted:
            if at == site and key in self.core.state.attempts:
                self.step(ev.AttemptStarted(2.0, key))

    @property
    def reasons(self) -> list[Idleness | None]:
        return explain_idleness(self.core.state)

    def reason(self, site: int) -> Idleness:
        found = self.reasons[site]
        assert found is not None
        return found


def test_a_site_without_free_cores_has_no_reason() -> None:
    run = Run(tasks(4), ALPHA)
    run.start(0)
    assert run.reasons == [None]


def test_a_paused_site_says_why_and_what_to_do() -> None:
    run = Run(tasks(4), ALPHA)
    run.step(ev.SitePaused(2.0, 0, "it needs a login\n  ssh alpha"))
    assert run.reason(0) == Idleness("paused", "paused: it needs a login\n  ssh alpha")


def test_a_job_limit_is_named_with_those_that_wait() -> None:
    run = Run(tasks(7), ALPHA)
    run.step(ev.AttemptsSubmitted(2.0, 0, tuple(key for _, key in run.submitted[:2])))
    run.step(ev.JobLimitReached(2.0, 0, 2))
    assert run.reason(0) == Idleness("limit", "job limit reached (2), 5 waiting for room")
    run.step(ev.JobLimitLifted(3.0, 0))
    assert run.reason(0).kind == "submission"


def test_a_queue_in_which_tasks_wait() -> None:
    run = Run(tasks(3), ALPHA)
    run.step(ev.AttemptsSubmitted(2.0, 0, tuple(key for _, key in run.submitted)))
    assert run.reason(0) == Idleness("queue", "3 tasks in its queue")


def test_what_the_batch_system_says_of_jobs_that_wait() -> None:
    run = Run(tasks(3), ALPHA)
    run.step(ev.AttemptsSubmitted(2.0, 0, tuple(key for _, key in run.submitted)))
    run.step(ev.JobsWait(3.0, 0, "Priority; Resources"))
    text = "3 tasks in its queue, batch system: Priority; Resources"
    assert run.reason(0) == Idleness("queue", text)
    run.step(ev.JobsWait(4.0, 0, "JobHeldUser", 1))
    assert run.reason(0).text == "3 tasks in its queue, 1 of them held: JobHeldUser"
    run.step(ev.JobsWait(5.0, 0, "", 3))
    assert run.reason(0).text == "3 tasks in its queue, held"
    run.step(ev.JobLimitReached(6.0, 0, 3))
    assert run.reason(0).text == "job limit reached (3), held, 0 waiting for room"
    run.step(ev.RunResumed(7.0))
    assert run.reason(0) == Idleness("queue", "3 tasks in its queue")


def test_no_time_is_left_of_what_is_held() -> None:
    run = Run(tasks(3), ALPHA)
    estimator = TimeLeftEstimator(run.core.state)
    run.step(ev.AttemptsSubmitted(2.0, 0, tuple(key for _, key in run.submitted)))
    run.step(ev.JobsWait(3.0, 0, "Resources"))
    assert estimator.at(3.0) is not None
    run.step(ev.JobsWait(4.0, 0, "JobHeldUser", 1))
    assert estimator.at(4.0) is None
    run.start(0)
    assert estimator.at(5.0) is not None


def test_tasks_that_a_batch_system_has_not_accepted_yet() -> None:
    """sbatch waits for minutes at a limit on all jobs before it says so."""
    run = Run(tasks(3), ALPHA)
    assert run.reason(0) == Idleness("submission", "3 tasks being submitted", 1.0)
    run.step(ev.AttemptsSubmitted(2.0, 0, (run.submitted[0][1],)))
    text = "1 task in its queue, 2 tasks being submitted"
    assert run.reason(0) == Idleness("submission", text, 1.0)


def test_inputs_on_their_way() -> None:
    """The files, their size, and where they come from."""
    files = [File("in", size_bytes=5_000_000)]
    task = Task("t", "x", "x", inputs=(0,), runtime_s=1.0)
    run = Run(Workflow("w", "w.dax", [task], files, [()]), ALPHA)
    assert len(run.copies) == 1
    expected = "inputs of 1 task on their way: 1 file, 5.0 MB from here"
    assert run.reason(0) == Idleness("staging", expected)


def test_a_throttle_is_named() -> None:
    run = Run(tasks(9), ALPHA, throttle=2)
    run.start(0)
    assert run.reason(0) == Idleness("throttle", "throttle (2) reached, 7 tasks held back")


def test_a_throttle_keeps_launchers_from_being_requested() -> None:
    """It is the reason, not that there are none."""
    access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(cores=4))
    run = Run(tasks(9), ALPHA, SiteSpec("beta", 4, access=access), throttle=2)
    assert {site for site, _ in run.submitted} == {0}
    assert run.reason(1) == Idleness("throttle", "throttle (2) reached, 7 tasks held back")


def test_tasks_that_the_throttle_holds_back_for_a_faster_site() -> None:
    """They wait for the fast site with the engine; the slow one has no task at all."""
    fast = SiteSpec("fast", 1, speed_ratio=8.0)
    run = Run(tasks(4), ALPHA, fast, policy="heft")
    run.start(1)
    text = "policy heft gave it none: slower by 8.0; throttle auto holds 3 tasks back for other"
    assert run.reason(0) == Idleness("policy", f"{text} sites")
    run = Run(tasks(1), ALPHA, fast, policy="heft")
    run.start(1)
    assert run.reason(0).kind == "done"


def test_a_site_that_has_tasks_got_no_more() -> None:
    """It runs what would end at the fast site no sooner; the others wait for the fast one."""
    fast = SiteSpec("fast", 1, speed_ratio=8.0)
    run = Run(tasks(9), ALPHA, fast, policy="heft")
    run.start(0)
    run.start(1)
    text = "policy heft gave it no more: slower by 8.0; throttle auto holds 6 tasks back for other"
    assert run.reason(0) == Idleness("policy", f"{text} sites")


def test_tasks_that_the_throttle_holds_back_from_cores_of_others() -> None:
    """Two of the four cores run jobs of other users, and the run has no use for a queue there."""
    run = Run(tasks(9, parents=[(), *[(0,)] * 8]), ALPHA, policy="heft")
    run.step(ev.SiteObserved(1.5, 0, (ev.BackgroundJob("1", 2, 0.0, 99.0),)))
    run.step(ev.AttemptEnded(2.0, run.submitted[0][1], Outcome("done", exit_code=0)))
    run.start(0)
    text = "other users hold 2 cores, throttle auto holds 6 tasks back until it could start them"
    assert run.reason(0) == Idleness("throttle", f"{text} soon")


def test_a_task_that_is_too_wide_for_the_free_cores() -> None:
    run = Run(tasks(3, cores=3), ALPHA, policy="fpf")
    run.start(0)
    assert run.reason(0) == Idleness("room", "the next task needs 3 cores, 1 is free")


def test_a_policy_that_prefers_a_faster_site() -> None:
    """Of one that knows speeds the factor is the reason; of others the queue that it filled."""
    fast = SiteSpec("fast", 4, speed_ratio=1.4)
    run = Run(tasks(6), ALPHA, fast, policy="single-cluster")
    (chosen,) = {site for site, _ in run.submitted}
    found = run.reason(1 - chosen)
    name = ("alpha", "fast")[chosen]
    assert found.kind == "policy"
    assert found.text == f"policy single-cluster gave it none: 6 tasks in the queue of {name}"
    run = Run(tasks(3), ALPHA, fast, policy="heft")
    assert {site for site, _ in run.submitted} == {1}
    assert run.reason(0) == Idleness("policy", "policy heft gave it none: slower by 1.4")


def test_sizes_choose_the_sites_of_parallel_jobs() -> None:
    run = Run(tasks(1), ALPHA, BETA, sizing="binary")
    (idle,) = (each for each in run.reasons if each is not None and "gave it none" in each.text)
    assert idle.text.startswith("size binary gave it none")


def test_tasks_that_may_not_run_there() -> None:
    """The others are in the queue of the only site that takes them."""
    small = SiteSpec("small", 2)
    run = Run(tasks(9, cores=4), small, ALPHA, policy="fpf")
    assert run.reason(0) == Idleness("misfit", "none of the 8 tasks that wait may run there")


def test_tasks_that_wait_for_others() -> None:
    run = Run(tasks(3, parents=[(), (0,), (0,)]), ALPHA)
    run.start(0)
    assert run.reason(0) == Idleness("predecessors", "2 tasks waiting for predecessors")


def test_one_task_in_another_queue_is_no_reason_beside_many_that_wait() -> None:
    run = Run(tasks(9, parents=[(), *[(0,)] * 8]), ALPHA, BETA)
    ((site, _),) = run.submitted
    assert run.reason(1 - site).kind == "predecessors"


def test_a_task_that_waits_to_be_retried() -> None:
    run = Run(tasks(1), ALPHA)
    run.step(ev.AttemptEnded(2.0, run.submitted[0][1], Outcome("exit", exit_code=1)))
    assert run.reason(0) == Idleness("retry", "1 task waiting to retry")


def test_no_task_is_left() -> None:
    run = Run(tasks(1), ALPHA)
    run.start(0)
    assert run.reason(0).kind == "done"


def test_launchers_that_start() -> None:
    """Since the first of them was requested."""
    launchers = LauncherSpec(cores=4, max=2)
    access = Access(("head",), dispatch="launchers", launchers=launchers)
    run = Run(tasks(9), SiteSpec("c", 8, kind="slurm", access=access))
    found = run.reason(0)
    assert (found.kind, found.since_s) == ("launchers", 1.0)
    assert found.text == "2 launchers starting"
    run.step(ev.LaunchersSubmitted(2.0, 0, ("r.L0.1", "r.L0.2")))
    assert run.reason(0) == Idleness("launchers", "2 launchers in its queue", 1.0)
    run.step(ev.JobsWait(3.0, 0, "JobHeldUser", 2))
    assert run.reason(0).text == "2 launchers in its queue, held: JobHeldUser"


@pytest.mark.parametrize("mode", ["drain", "kill"])
def test_a_run_that_is_being_stopped(mode: str) -> None:
    run = Run(tasks(9), ALPHA, throttle=2)
    run.start(0)
    run.step(ev.CancelAsked(3.0, mode))  # type: ignore[arg-type]
    assert run.reason(0).kind == "stopping"


def test_after_the_end_only_a_pause_is_a_reason() -> None:
    run = Run(tasks(1), ALPHA, BETA)
    run.step(ev.SitePaused(2.0, 1, "away"))
    run.step(ev.AttemptEnded(3.0, run.submitted[0][1], Outcome("done", exit_code=0)))
    assert run.core.state.ended == "done"
    assert run.reasons == [None, Idleness("paused", "paused: away")]
