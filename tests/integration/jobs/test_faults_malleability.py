"""Faults while malleable jobs grow and shrink on a real cluster: each is done once, and nothing is
left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.integration.jobs.coallocated import LocalJob, kill
from tests.integration.jobs.growing import MalleableJobs
from tests.testbed import faults, processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

MOMENTS = os.environ.get("WFRUN_FAULT_MOMENTS", "1")
"""Number of random moments for each fault."""
NONSENSE = """\
import sys, time
from malleable import Malleable
job = Malleable()
message = job.poll(8.0)
if message is not None:
    job._send(sys.argv[1])
    time.sleep(60)
print(len(job.nodes))
"""


@pytest.fixture
def jobs(testbed: Testbed, tmp_path: Path) -> Iterator[MalleableJobs]:
    found = MalleableJobs(testbed, tmp_path, "alpha")
    try:
        yield found
    finally:
        found.close()


@pytest.mark.slow
@pytest.mark.testbed
@pytest.mark.parametrize("fault", ["placeholder", "site", "engine", "connection", "end"])
@pytest.mark.parametrize("seed", range(int(MOMENTS)))
def test_a_fault_at_a_random_moment(fault: str, seed: int, jobs: MalleableJobs) -> None:
    """Beside another user, so that the job is offered, and asked for, processors."""
    random = Random(f"{fault} {seed}")
    more = {}
    if fault == "end":  # It ends while it is offered processors.
        more = {"command": f"python3 nbody.py 24 {random.randint(1, 30)} --pause 0.1"}
    jobs.write_nbody("{job: nbody, size: {min: 2, max: 10}}", **more)
    engine = jobs.start("--malleable", random.choice(["egs", "fpsma"]), "--retries", "0")
    processes.wait_until(lambda: jobs.count(ev.AttemptStarted) > 0, "the start")
    LocalJob(jobs, jobs.site, 10, 3)
    if fault != "end":
        time.sleep(random.uniform(0.0, 8.0))  # A moment, not a condition: it is what is tested.
    if fault == "placeholder":
        found = jobs.processes_at("alpha", "batch_launcher.py")
        kill(random.sample(found, min(1, len(found))))
    elif fault == "site":
        kill(jobs.processes_at("alpha", ""))
    elif fault == "connection":
        faults.cut(jobs.testbed, "alpha")
    elif fault == "engine":
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        engine = jobs.start()
    jobs.done(engine, 300.0)
    if fault != "end":
        jobs.check_result()
    jobs.check_quiet()


@pytest.mark.testbed
@pytest.mark.parametrize("says", ["nonsense", "take 1000000000", "done 1 elsewhere"])
def test_a_program_that_speaks_nonsense_runs_again_with_its_smallest_size(
    says: str, jobs: MalleableJobs
) -> None:
    (jobs.folder / "nonsense.py").write_text(NONSENSE)
    inputs = [
        {"name": "nonsense.py"},
        {"name": "malleable.py", "from": str(Path(ev.__file__).parents[1] / "malleable.py")},
    ]
    jobs.write_nbody(command=["python3", "nonsense.py", says], inputs=inputs)
    jobs.done(jobs.start("--malleable", "egs", "--retries", "0"))
    ended = [e.outcome.cause for e in jobs.events() if isinstance(e, ev.AttemptEnded)]
    assert ended == ["reclaimed", "done"]
    (failure,) = {e.failure for e in jobs.events() if isinstance(e, ev.JobResized) and e.failure}
    assert failure.startswith("the program ")
    assert (jobs.run / "outputs" / "nbody" / "positions.txt").read_text() == "2\n"
    jobs.check_quiet()


@pytest.mark.slow
@pytest.mark.testbed
def test_a_program_that_never_answers_a_shrink_is_run_again(jobs: MalleableJobs) -> None:
    """Local users get its processors after 30 s."""
    jobs.write_nbody("{job: nbody, size: {min: 2, max: 16}}")
    engine = jobs.start("--malleable", "egs", "--retries", "0")
    processes.wait_until(lambda: max(jobs.sizes(), default=0) >= 14, "growth")
    (program,) = jobs.processes_at("alpha", f"nbody.py {24} ")[:1]
    os.kill(program, signal.SIGSTOP)
    LocalJob(jobs, jobs.site, 8, 2)
    jobs.done(engine, 300.0)
    ended = [e.outcome.cause for e in jobs.events() if isinstance(e, ev.AttemptEnded)]
    assert ended == ["reclaimed", "done"]
    (failure,) = {e.failure for e in jobs.events() if isinstance(e, ev.JobResized) and e.failure}
    assert failure == "the program has not answered within 30 s"
    jobs.check_result()
    jobs.check_quiet()
