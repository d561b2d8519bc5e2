"""What befalls launchers costs nothing: every task succeeds once, its output is right, and nothing
is left behind."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import kill
from tests.testbed import faults, processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev


def launchers(**keys: Any) -> dict[str, Any]:
    """What makes a site of the testbed one with launchers of two slots."""
    return {"dispatch": "launchers", "launchers": {"cores": 2, "max": 3, "walltime": 1800, **keys}}


def pids(grid: Grid, word: str) -> list[int]:
    """Processes of the user of alpha with this word in their command lines."""
    return [pid for pid, line in grid.processes_at("alpha") if word in line]


def lives(grid: Grid) -> Counter[str]:
    """How launchers have ended."""
    return Counter(e.cause for e in grid.events() if isinstance(e, ev.LauncherEnded))


def started(grid: Grid) -> set[str]:
    """Launchers that have started. The event comes again when the latency has changed."""
    return {e.key for e in grid.events() if isinstance(e, ev.LauncherStarted)}


def live(grid: Grid) -> int:
    """Number of launchers that have started."""
    return len(started(grid))


@pytest.mark.parametrize("channel", ["tcp", "ssh", "spool"])
def test_the_engine_is_killed(testbed: Testbed, grid: Grid, channel: str) -> None:
    """Its launchers go on, and the next engine finds them and what they have done meanwhile."""
    grid.layers(3, 16, 0.4)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers(channels=channel)}))
    for count in (8, 26):
        grid.wait_done(engine, count)
        engine.kill()
        time.sleep(0.5)
        engine = grid.resume()
    grid.check(grid.finish(engine))
    assert not grid.failures()
    asked = [e for e in grid.events() if isinstance(e, ev.LaunchersAsked)]
    assert sum(len(e.launchers) for e in asked) == 3


def test_agents_and_connections_end(testbed: Testbed, grid: Grid) -> None:
    grid.bag(60, 0.5)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers()}))
    grid.wait_begun(engine, 8)
    kill(grid.agents("alpha"))
    grid.wait_begun(engine, 26)
    faults.cut(testbed, "alpha")
    grid.check(grid.finish(engine))
    assert not grid.failures()


def test_launchers_and_their_jobs_are_killed(testbed: Testbed, grid: Grid) -> None:
    """What ran in them is done again, what waited there goes to others."""
    grid.bag(60, 0.2)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers()}), held="all")
    grid.wait_begun(engine, 6)
    kill(pids(grid, "batch_launcher.py")[:1])
    grid.wait(engine, lambda: bool(lives(grid)))
    jobs = [line.split()[0] for line in grid.queue("alpha") if line.split()[2] == "R"]
    site = testbed.layout.site("alpha")
    processes.run(["scancel", jobs[0]], testbed.layout.environment(site))
    grid.check(grid.finish(engine), once=False)
    assert set(grid.failures()) == {"lost"}
    assert 1 <= grid.failures()["lost"] <= 6, [
        e for e in grid.events() if isinstance(e, ev.AttemptEnded) and e.outcome.cause == "lost"
    ]
    assert 2 <= sum(lives(grid).values()) <= 3


def test_their_time_is_over(testbed: Testbed, grid: Grid) -> None:
    """Tasks of unknown length that are cut off are done again, and that is no failure of theirs."""
    grid.bag(16, 3.0)
    changes = {"alpha": launchers(walltime=12, max=2)}
    engine = grid.start(grid.catalog("alpha", changes=changes), "--retries", "0")
    grid.check(grid.finish(engine), once=False)
    assert set(grid.failures()) <= {"expired"}
    assert live(grid) > 2


def test_an_engine_that_can_t_be_reached_for_long(testbed: Testbed, grid: Grid) -> None:
    """Launchers go on with what they have; what waits in them too long is given to others."""
    grid.bag(40, 0.5)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers(channels="tcp")}))
    grid.wait_begun(engine, 8)
    faults.kill(testbed, "alpha.sshd")
    faults.cut(testbed, "alpha")
    time.sleep(4)
    faults.start(testbed, "alpha.sshd")
    grid.check(grid.finish(engine))
    assert not grid.failures()
