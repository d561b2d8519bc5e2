"""Simulations as tasks at a Slurm cluster and a host with SSH: `wfrun simulate --on`."""

from __future__ import annotations

import csv
import subprocess
import sys
import sysconfig

import pytest

from tests.integration.clusters import Grid
from tests.places import ROOT
from wfrun.engine import events as ev
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

SIMULATE = ["simulate", "average", "--tasks", "2000", "--policy", "ect,rr", "--seeds", "12"]
PACKAGES = sysconfig.get_path("purelib")


def entry() -> dict[str, object]:
    """Keys of a site whose users get this wfrun and its packages. Its own interpreter may be where
    only the user of the tests may read, and that of the system has the same packages."""
    words = ["/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])"]
    system = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    if system != [str(number) for number in sys.version_info[:2]]:
        pytest.skip("the system's python3 has another version than that of the tests")
    return {"slots": 1, "prologue": f"export PYTHONPATH={ROOT}:{PACKAGES}"}


def test_a_killed_command_continues_over_two_sites(grid: Grid) -> None:
    """The rows are those of a run on this machine, and no task runs twice. On a fast machine there
    are so few tasks that one of the sites may get none."""
    here = grid.user.wfrun(*SIMULATE, "-o", "here.csv", "--jobs", "1")
    assert here.status == 0, here.text
    catalog = grid.catalog("alpha", "delta", changes={"alpha": entry(), "delta": entry()})
    there = [*SIMULATE, "-o", "there.csv", "--on", str(catalog)]
    grid.run = grid.user.folder / "there.csv.runs" / "1" / "run"
    engine = grid.user.start(*there)
    grid.wait(engine, lambda: grid.logged() and began(grid) >= 1)
    engine.kill()
    done = grid.user.wfrun(*there)
    assert done.status == 0, done.text
    assert f"run {grid.run.relative_to(grid.user.folder)}: continued" in done.err
    texts = [(grid.user.folder / name).read_text() for name in ("here.csv", "there.csv")]
    assert texts[0] == texts[1]
    assert done.out == here.out
    sites = read_state(RunDir(grid.run)).sites
    assert [site.failed for site in sites] == [0, 0]
    assert sum(site.done for site in sites) > 0
    grid.user.ask("results", grid.run, "-o", "tasks.csv")
    with (grid.user.folder / "tasks.csv").open() as stream:
        assert {row["attempts"] for row in csv.DictReader(stream)} == {"1"}
    grid.check_quiet()


def began(grid: Grid) -> int:
    """Number of attempts that have started."""
    return sum(isinstance(event, ev.AttemptStarted) for event in grid.events())
