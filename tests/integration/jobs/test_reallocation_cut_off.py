"""Waiting jobs are being moved while their cluster is out of reach, or while somebody else removes
them from its queue: each runs exactly once."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.jobs.test_reallocated_jobs import FLOOD, JOBS, log_of, prepare, start
from tests.testbed import faults, processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

ALPHA = 0
EVERY_S = 4


def cut_off(testbed: Testbed, stalled: list[int], seen: Callable[..., bool]) -> None:
    """Cut the connection, and let some rounds pass before the cluster can be reached again."""
    faults.stop(testbed, "alpha.sshd")
    processes.signal_and_await(stalled, signal.SIGKILL)
    processes.wait_until(lambda: seen(ev.SitePaused), "a pause of the cluster")
    time.sleep(3 * EVERY_S)
    faults.start(testbed, "alpha.sshd")


def remove(testbed: Testbed, stalled: list[int], seen: Callable[..., bool]) -> None:
    """Remove all waiting jobs of the user, as an administrator does."""
    site = testbed.layout.site("alpha")
    argv = ["scancel", "--user", site.user, "--state", "PENDING"]
    processes.run(argv, testbed.layout.environment(site))
    for pid in stalled:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
@pytest.mark.testbed
@pytest.mark.parametrize("fault", [cut_off, remove])
def test_jobs_that_are_being_moved_run_exactly_once(
    fault: Callable[[Testbed, list[int], Callable[..., bool]], None],
    testbed: Testbed,
    tmp_path: Path,
) -> None:
    """The connection stalls before the decision, so that no cancellation reaches the cluster."""
    prepare(testbed, tmp_path)
    (testbed.layout.directory / "ran").write_text("")
    moves = ["--size", "binary", "--reallocate", "mct-reg", "--every", f"{EVERY_S}s"]
    engine = start(
        tmp_path, "jobs", "jobs.yaml", "--sites", "sites.yaml", "--run-dir", "run", "-q",
        "--min-gain", "5", *moves,
    )  # fmt: skip
    run = tmp_path / "run"

    def events() -> list[ev.Event]:
        assert engine.poll() is None
        return log_of(run) if (run / "events.sqlite").exists() else []

    def seen(kind: type[ev.Event]) -> bool:
        return any(isinstance(event, kind) for event in events())

    def sees_flood() -> bool:
        return any(
            isinstance(event, ev.SiteObserved) and event.site == ALPHA and len(event.background) > 1
            for event in events()
        )

    def is_moving() -> bool:
        log = events()
        ended = {event.key for event in log if isinstance(event, ev.AttemptEnded)}
        at_alpha = {e.key for e in log if isinstance(e, ev.AttemptPlaced) and e.site == ALPHA}
        moved = {k for e in log if isinstance(e, ev.JobsReallocated) for k, _ in e.moves}
        return bool(moved & at_alpha - ended)

    processes.wait_until(lambda: seen(ev.AttemptStarted), "the first job")
    site = testbed.layout.site("alpha")
    for _ in range(2):
        argv = ["sbatch", *FLOOD, "-t", "2", "--wrap", "sleep 30"]
        processes.run(argv, testbed.layout.environment(site))
    processes.wait_until(sees_flood, "the flood in the log")
    stalled = processes.sessions(site.user)
    for pid in stalled:
        os.kill(pid, signal.SIGSTOP)
    processes.wait_until(is_moving, "a move that cannot be carried out")
    fault(testbed, stalled, seen)
    assert engine.wait(150) == 0
    processes.run(["scancel", "-u", "root"], testbed.layout.environment(site), check=False)
    time.sleep(5)  # jobs that could not be cancelled start, and find their attempts claimed
    ran = (testbed.layout.directory / "ran").read_text().splitlines()
    assert Counter(line.split()[0] for line in ran) == {f"j{n}": 1 for n in range(JOBS)}
    assert all((run / f"outputs/j{n}/out").read_text() == "data\n" for n in range(JOBS))
    done = [e for e in log_of(run) if isinstance(e, ev.AttemptEnded) and e.outcome.cause == "done"]
    assert len(done) == JOBS
