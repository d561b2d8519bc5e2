"""The n-body example grows and shrinks on real clusters, beside another user's jobs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jobs.coallocated import LocalJob
from tests.integration.jobs.growing import BODIES, SLOTS, MalleableJobs
from tests.places import ROOT
from tests.testbed import processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

LONG = 260
"""Steps of a simulation that outlasts three engines, of 0.7 s or more each."""


@pytest.fixture(params=["alpha", "gamma"])
def jobs(
    request: pytest.FixtureRequest, testbed: Testbed, tmp_path: Path
) -> Iterator[MalleableJobs]:
    found = MalleableJobs(testbed, tmp_path, request.param)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.slow
@pytest.mark.testbed
def test_nbody_grows_and_shrinks_beside_another_user(jobs: MalleableJobs) -> None:
    """The engine is killed three times meanwhile."""
    slots = SLOTS[jobs.site]
    jobs.write_nbody(
        f"{{job: nbody, size: {{min: 2, max: {slots}}}}}",
        command=f"python3 nbody.py {BODIES} {LONG} --pause 0.7",
    )
    engine = jobs.start("--malleable", "egs", "--retries", "0")

    def grown_to(extra: int) -> None:
        processes.wait_until(
            lambda: (jobs.sizes() or [0])[-1] >= extra, f"{extra} further processors"
        )

    def given_back() -> int:
        released = [e for e in jobs.events() if isinstance(e, ev.GrowthReleased)]
        return sum(e.cause == "given-back" for e in released)

    grown_to(slots - 2)
    for kill in range(3):
        LocalJob(jobs, jobs.site, slots // 2, 4)
        if kill == 0:  # Between the question and its answer, or soon after it.
            processes.wait_until(lambda: jobs.count(ev.ShrinkAsked) > kill, "a shrink")  # noqa: B023
        elif kill == 1:
            processes.wait_until(lambda: given_back() > kill, "an answer")  # noqa: B023
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        engine = jobs.start()
        processes.wait_until(lambda: given_back() > kill, "a shrink")  # noqa: B023
        grown_to(slots - 2)
    jobs.done(engine, 300.0)
    jobs.check_result(steps=LONG)
    assert jobs.count(ev.ClaimsAsked) == 1
    shrinks = [e for e in jobs.events() if isinstance(e, ev.ShrinkAsked)]
    assert {e.cause for e in shrinks} == {"local"}
    jobs.check_quiet()


@pytest.mark.testbed
def test_jobs_start_with_their_smallest_sizes_and_share_what_is_idle(
    testbed: Testbed, tmp_path: Path
) -> None:
    """The first waiting job gets room by shrinks."""
    jobs = MalleableJobs(testbed, tmp_path, "gamma")
    jobs.write_nbody(
        "{job: first, size: {min: 2, max: 8}}",
        "{job: second, size: {min: 2, max: 8}}",
        "{job: third, size: {min: 3, max: 4}}",
    )
    options = ("--malleable", "fpsma", "--precedence", "pwa", "--threshold", "1")
    try:
        jobs.done(jobs.start(*options, "--retries", "0"))
    finally:
        jobs.close()
    jobs.check_result("first", "second", "third")
    starts = [e for e in jobs.events() if isinstance(e, ev.AttemptStarted)]
    ends = [e for e in jobs.events() if isinstance(e, ev.AttemptEnded)]
    assert max(e.at_s for e in starts) < min(e.at_s for e in ends)
    jobs.check_quiet()


SCRIPT = """\
exec 2>&1
answer() { cp "$WFRUN_MALLEABLE_NODES" draft; mv draft "$WFRUN_MALLEABLE_NODES.taken"; }
trap answer USR1
answer
until [ "$(wc -l < "$WFRUN_MALLEABLE_NODES")" -ge 4 ]; do sleep 0.2; done
while [ -e "$WFRUN_MALLEABLE_NODES.taken" ]; do sleep 0.1; done
for node in $(cat "$WFRUN_MALLEABLE_NODES"); do $WFRUN_RSH "$node" 'echo "$0 is here"'; done
"""


@pytest.mark.testbed
def test_a_shell_script_grows_by_a_file_and_a_signal(testbed: Testbed, tmp_path: Path) -> None:
    jobs = MalleableJobs(testbed, tmp_path, "gamma")
    (tmp_path / "work.sh").write_text(SCRIPT)
    jobs.write_nbody(
        command="python3 malleable.py sh work.sh",
        inputs=[
            {"name": "work.sh", "from": "work.sh"},
            {"name": "malleable.py", "from": str(ROOT / "wfrun" / "malleable.py")},
        ],
    )
    try:
        jobs.done(jobs.start("--malleable", "egs", "--retries", "0"))
    finally:
        jobs.close()
    said = (jobs.run / "outputs" / "nbody" / "positions.txt").read_text()
    assert said.count(" is here") >= 4, said
    jobs.check_quiet()
