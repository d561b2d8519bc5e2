"""Real clusters whose queue is full or in which jobs are held, and the nodes on which tasks run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import Job
from tests.testbed import processes
from wfrun.engine import events as ev


def test_a_full_queue_says_so_and_tasks_name_their_nodes(grid: Grid) -> None:
    go = grid.record.with_suffix(".go")
    script = f"until test -e {go}; do sleep 0.2; done"
    grid.jobs = [Job(f"t{number}", script) for number in range(5)]
    engine = grid.start(grid.catalog("alpha", changes={"alpha": {"max_jobs": 2}}), held="none")
    reason = "alpha: job limit reached (2), 3 waiting for room"
    try:
        grid.wait(engine, lambda: reason in engine.told)
        wanted = (reason, " alpha  alpha1 ", "running, oldest first")
        grid.wait(
            engine,
            lambda: all(text in grid.user.wfrun("status", grid.run).out for text in wanted),
        )
    finally:
        go.touch()
    assert engine.done().status == 0, engine.told
    go.unlink()
    events = grid.events()
    limits = [e for e in events if isinstance(e, (ev.JobLimitReached, ev.JobLimitLifted))]
    assert isinstance(limits[0], ev.JobLimitReached)
    assert limits[0].jobs == 2
    assert isinstance(limits[-1], ev.JobLimitLifted)
    assert any(e.host == "alpha1" for e in events if isinstance(e, ev.AttemptStarted))


def act(grid: Grid, site: str, *command: str) -> None:
    """Run a command of an administrator."""
    layout = grid.testbed.layout
    processes.run(command, layout.environment(layout.site(site)))


@pytest.mark.parametrize(
    ("site", "stop", "go", "reason"),
    [
        (
            "alpha",
            ["scontrol", "update", "PartitionName=main", "State=DOWN"],
            ["scontrol", "update", "PartitionName=main", "State=UP"],
            "held: PartitionDown",
        ),
        (
            "gamma",
            ["qmod", "-d", "all.q"],
            ["qmod", "-e", "all.q"],
            "held: queue all.q is disabled",
        ),
    ],
)
def test_a_stopped_queue(
    grid: Grid, site: str, stop: Sequence[str], go: Sequence[str], reason: str
) -> None:
    grid.bag(3, 0.1)
    act(grid, site, *stop)
    try:
        engine = grid.start(grid.catalog(site), held="none")
        told = f"{site}: 3 tasks in its queue, {reason}"
        grid.wait(engine, lambda: told in engine.told)
        status = grid.user.wfrun("status", grid.run).out
        assert told in status
        assert "left" not in status
        assert reason in grid.user.wfrun("explain", grid.run, "t1").out
        assert reason in grid.user.wfrun("explain", grid.run, "--site", site).out
    finally:
        act(grid, site, *go)
    grid.check(engine.done())


@pytest.mark.parametrize(
    ("site", "release", "reason"),
    [
        ("alpha", ["scontrol", "release"], "JobHeldUser"),
        ("gamma", ["qrls"], ""),
    ],
)
@pytest.mark.parametrize("dispatch", ["jobs", "launchers"])
def test_held_jobs(
    grid: Grid, site: str, release: Sequence[str], reason: str, dispatch: str
) -> None:
    grid.bag(3, 0.1)
    options = {"alpha": ["--hold"], "gamma": ["-h"]}[site]
    changes: dict[str, object] = {"options": options}
    what = "3 tasks"
    if dispatch == "launchers":
        changes |= {
            "dispatch": "launchers",
            "launchers": {"cores": 4, "max": 1, "walltime": "10 min"},
        }
        what = "launcher"
    engine = grid.start(grid.catalog(site, changes={site: changes}), held="none")
    told = f"{site}: {what} in its queue, held" + (f": {reason}" if reason else "")
    grid.wait(engine, lambda: told in engine.told)
    assert told in grid.user.wfrun("status", grid.run).out
    act(grid, site, *release, *queued(grid, site))
    grid.check(engine.done())


def queued(grid: Grid, site: str) -> set[str]:
    """Numbers of the jobs in a queue."""
    words = [line.split()[0].partition("_")[0] for line in grid.queue(site)]
    return {word for word in words if word.isdigit()}
