"""Whole workflows over four sites, three of them with launchers, each by a channel of its own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest
import yaml

from tests.integration.clusters import Grid
from tests.places import EXAMPLES, ROOT
from wfrun.engine import events as ev

MONTAGE = EXAMPLES / "montage"
CATALOG = ROOT / "tests" / "testbed" / "launchers.yaml"
CHANGES = {
    name: {key: site[key] for key in ("dispatch", "launchers") if key in site}
    for name, site in yaml.safe_load(CATALOG.read_text())["sites"].items()
}


def done_at(grid: Grid) -> Counter[str]:
    """Tasks that ended well, by site."""
    state = grid.state()
    assert state.ended == "done"
    assert state.done == state.tasks
    return Counter({site.spec.name: site.done for site in state.sites})


@pytest.mark.skipif(
    shutil.which("mProjectPP") is None,
    reason="the Montage toolkit is not installed (Debian: apt-get install montage)",
)
def test_a_mosaic_is_made_in_launchers(grid: Grid) -> None:
    folder = grid.user.folder / "sky"
    make = [sys.executable, str(MONTAGE / "make_workflow.py"), str(folder), "--tiles", "2x2"]
    subprocess.run(make, check=True, capture_output=True)
    catalog = grid.catalog("alpha", "beta", "gamma", "delta", changes=CHANGES)
    options = ("--sites", catalog, "--run-dir", grid.run, "--policy", "round-robin")
    done = grid.user.wfrun(folder / "montage.dax", *options)
    assert done.status == 0, done.text
    # The host without launchers has two slots, and gets no more than twice as many tasks at once.
    done_by = done_at(grid)
    assert done_by["delta"] < done_by.total() / 2
    check = [sys.executable, str(MONTAGE / "check.py"), str(folder), str(grid.run / "outputs")]
    subprocess.run(check, check=True, capture_output=True)
    grid.check_quiet()


def test_a_run_that_was_interrupted_goes_on_at_all_its_clusters(grid: Grid) -> None:
    made = grid.user.wfrun("generate", "layered", "--tasks", "300", "-o", "w.dax")
    assert made.status == 0, made.text
    catalog = grid.catalog("alpha", "beta", "gamma", "delta", changes=CHANGES)
    options = ("--sites", catalog, "--run-dir", grid.run, "--policy", "all-clusters")
    emulated = ("--emulate", "--at-sites", "--time-scale", "0.004", "--size-scale", "0.001")
    engine = grid.user.start("w.dax", *options, *emulated)

    def some_are_done() -> bool:
        sites = grid.state().sites if grid.logged() else []
        return sum(s.done for s in sites if s.spec.has_launchers) >= 20

    grid.wait(engine, some_are_done)
    engine.signal(signal.SIGINT)
    stopped = engine.done()
    assert stopped.status == 130, stopped.text
    assert "to continue: wfrun resume" in stopped.text
    assert 0 < grid.state().done < 300
    resumed = grid.resume().done()
    assert resumed.status == 0, resumed.text
    done_at(grid)
    ended = [e for e in grid.events() if isinstance(e, ev.AttemptEnded)]
    assert len([e for e in ended if e.outcome.cause == "done"]) == 300
    assert {e.outcome.cause for e in ended} <= {"done", "cancelled"}
    # None of the launchers that ended with the first part keeps its site from getting others.
    events = grid.events()
    after = events[next(n for n, e in enumerate(events) if isinstance(e, ev.RunResumed)) :]
    asked = {e.site for e in after if isinstance(e, ev.LaunchersAsked)}
    assert asked == {i for i, s in enumerate(grid.state().sites) if s.spec.has_launchers}
    grid.check_quiet()
