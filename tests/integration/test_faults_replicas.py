"""Copies of a task at several clusters: one of them counts, whatever happens to engines, agents and
connections.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from tests.integration.clusters import Grid
from tests.integration.launchers.test_launchers_faults import launchers
from tests.runners.harness import LONG_S, Engine, kill, wait_until
from tests.runners.replicated import check_committed_once, telling
from tests.testbed import faults
from tests.testbed.testbed import Testbed

SITES = ("alpha", "beta", "gamma", "delta")
REPLICATED = ("--policy", "wqr", "--replicas", "3", "--retries", "9", "--retry-delay", "0.05")


def catalog(grid: Grid, *sites: str) -> Path:
    """With launchers at beta, and jobs for each task elsewhere."""
    return grid.catalog(*sites, changes={"beta": launchers()})


def start(grid: Grid, sites: Path, *words: str) -> Engine:
    document = grid.user.write(grid.jobs)
    return grid.user.start(document, "--sites", sites, "--run-dir", grid.run, *words)


def check(grid: Grid) -> None:
    check_committed_once(grid.run, [job.id for job in grid.jobs])
    grid.check_quiet()


@pytest.mark.parametrize("seed", range(3))
def test_killed_while_replicas_are_superseded(testbed: Testbed, grid: Grid, seed: int) -> None:
    """Fewer tasks than slots, so that each has copies from the first, and tasks end all the
    time."""
    random = Random(seed)
    tells = f"echo begin:$WFRUN_ATTEMPT >> {grid.record}; sleep"
    grid.jobs = [telling(f"t{n}", f"{tells} {random.uniform(1, 9):.1f}") for n in range(20)]
    engine = start(grid, catalog(grid, *SITES), *REPLICATED)
    assert wait_until(lambda: len(grid.record.read_text().split()) >= 10, LONG_S), engine.told
    for how in random.sample(["engine", "agent", "cut", "engine"], 4):
        site = random.choice(SITES)
        if how == "engine" and not engine.ended:
            engine.kill()
            engine = grid.resume()
        elif how == "agent":
            kill(grid.agents(site))
        elif how == "cut":
            faults.cut(testbed, site)
        time.sleep(random.uniform(0.5, 2))
    done = engine.done()
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    assert " replica" in done.out
    check(grid)


@pytest.mark.parametrize("away", ["alpha", "beta", "delta"])
def test_a_site_away_holds_up_no_run_that_is_done(testbed: Testbed, grid: Grid, away: str) -> None:
    """What it has of the last tasks hangs, and it cannot be told. When it is back, what runs
    there is ended by whoever resumes the run."""
    go = grid.record.with_name(f"{grid.record.name}-go")
    waits = f"while ! [ -e {go} ]; do sleep 0.1; done"
    here = f"case $(id -un) in {away}*) sleep 3000;; *) {waits};; esac"
    tells = f"echo begin:$(id -un) >> {grid.record}"
    grid.jobs = [telling(f"t{n}", f"{tells}; {here}") for n in range(4)]
    others = ["gamma" if away == "delta" else "delta"]
    engine = start(grid, catalog(grid, away, *others), *REPLICATED[:3], "1", *REPLICATED[4:])
    try:
        for name in (away, others[0]):
            begun = f"begin:{name}"
            assert wait_until(lambda: begun in grid.record.read_text(), LONG_S), engine.told  # noqa: B023
        faults.kill(testbed, f"{away}.sshd")
        faults.cut(testbed, away)
        go.touch()
        done = engine.done(200.0)  # the site itself would be waited for much longer
    finally:
        go.unlink(missing_ok=True)
    assert done.status == 0, done.text
    assert "superseded attempts are not ended" in done.err
    check_committed_once(grid.run, [job.id for job in grid.jobs])
    faults.start(testbed, f"{away}.sshd")
    done = grid.resume().done()
    assert done.status == 0, done.text
    assert "not removed" not in done.err
    grid.check_quiet()
