"""Faults while a job runs over three real clusters: it is done once, and nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.integration.jobs.coallocated import SITES, Jobs, kill, serial_result
from tests.testbed import faults, processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

JOB = """\
  - {job: wave, components: [{site: alpha, size: 4}, {site: beta, size: 4}, {site: gamma, size: 4}]}
"""
SCRIPT = "mpirun ./wave 720 60 field.txt && mpirun sleep 2"
MOMENTS = os.environ.get("WFRUN_FAULT_MOMENTS", "2")
"""Number of random moments for each fault."""


@pytest.fixture
def jobs(testbed: Testbed, tmp_path: Path) -> Iterator[Jobs]:
    found = Jobs(testbed, tmp_path)
    found.build()
    found.write(JOB, command=["sh", "-c", SCRIPT])
    try:
        yield found
    finally:
        found.close()


def check(jobs: Jobs) -> None:
    """The job's effect is there once, and nothing else."""
    ended = [e for e in jobs.events() if isinstance(e, ev.AttemptEnded)]
    assert [e.outcome.cause for e in ended].count("done") == 1
    # Neither a killed node nor a lost engine is the fault of the job.
    assert not {e.outcome.cause for e in ended} & {"exit", "signal", "launch-failed"}, ended
    field = (jobs.run / "outputs" / "wave" / "field.txt").read_text().split()
    assert [float(line) for line in field] == serial_result()
    jobs.check_quiet()


def running(jobs: Jobs) -> Callable[[], bool]:
    """Whether the second program runs at all sites."""
    return lambda: all(jobs.processes_at(site, "sleep 2") for site in SITES)


@pytest.mark.testbed
@pytest.mark.parametrize("site", SITES)
def test_a_placeholder_is_killed_while_the_job_runs(site: str, jobs: Jobs) -> None:
    engine = jobs.start("--place", "wf", "--retries", "0")
    processes.wait_until(running(jobs), "the job")
    kill(jobs.processes_at(site, "batch_launcher.py"))
    jobs.done(engine)
    assert jobs.count(ev.ClaimsAsked) == 2
    check(jobs)


@pytest.mark.testbed
def test_a_placeholder_is_killed_before_the_last_one_is_ready(jobs: Jobs) -> None:
    faults.pause(jobs.testbed, "gamma.sge_execd")
    engine = jobs.start("--place", "wf", "--retries", "0", "--claim-wait", "100s")
    processes.wait_until(lambda: jobs.count(ev.LauncherStarted) >= 2, "two placeholders")
    kill(jobs.processes_at("beta", "batch_launcher.py"))
    processes.wait_until(lambda: jobs.causes()["broken"] == 1, "the end of the claim")
    faults.resume(jobs.testbed, "gamma.sge_execd")
    jobs.done(engine)
    check(jobs)


@pytest.mark.testbed
def test_a_claim_that_is_late_is_given_back_at_once(jobs: Jobs) -> None:
    """Its placeholder starts after that, and ends again."""
    faults.pause(jobs.testbed, "gamma.sge_execd")
    engine = jobs.start("--place", "wf", "--retries", "0", "--claim-wait", "2s")
    processes.wait_until(lambda: jobs.causes()["late"] >= 1, "the end of the claim")
    for site in ("alpha", "beta"):
        processes.wait_until(
            lambda: not jobs.processes_at(site, "batch_launcher.py"),  # noqa: B023
            f"idle processors at {site}",
        )
    faults.resume(jobs.testbed, "gamma.sge_execd")
    jobs.done(engine)
    check(jobs)


@pytest.mark.testbed
@pytest.mark.parametrize("fault", ["placeholder", "site", "engine", "connection"])
@pytest.mark.parametrize("seed", range(int(MOMENTS)))
def test_a_fault_at_a_random_moment(fault: str, seed: int, jobs: Jobs) -> None:
    random = Random(f"{fault} {seed}")
    engine = jobs.start("--place", "wf", "--retries", "0")
    processes.wait_until(lambda: jobs.count(ev.ClaimsAsked) > 0, "the claim")
    time.sleep(random.uniform(0.0, 4.0))  # A moment, not a condition: it is what is tested.
    site = random.choice(SITES)
    if fault == "placeholder":
        kill(jobs.processes_at(site, "batch_launcher.py")[:1])
    elif fault == "site":
        kill(jobs.processes_at(site, ""))
    elif fault == "connection":
        faults.cut(jobs.testbed, site)
    else:
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        engine = jobs.start()
    # A site where a placeholder dies in its first second gets none for a minute.
    jobs.done(engine, 200.0)
    check(jobs)
