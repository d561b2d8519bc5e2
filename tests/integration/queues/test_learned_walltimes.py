"""Walltimes that the second go of a run requests of real batch systems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.integration.clusters import Grid
from tests.runners.harness import wait_until
from tests.testbed import processes
from wfrun.engine import events as ev

TASKS = 44
"""On two sites in turn: enough run times of each for a bound."""
ACCOUNTING_S = 45.0
"""Maximum delay of Grid Engine's accounting."""
CHANGES = {"alpha": {"walltime": "02:00:00"}, "gamma": {"walltime": "02:00:00"}}
IN_LAUNCHERS = {
    "alpha": {**CHANGES["alpha"], "dispatch": "launchers",
              "launchers": {"cores": 4, "channels": "tcp", "walltime": "01:00:00"}},
}  # fmt: skip


def of_slurm(grid: Grid) -> dict[str, str]:
    """The time limit of each job that Slurm knows. It forgets jobs some time after their end."""
    environment = grid.testbed.layout.environment(grid.testbed.layout.site("alpha"))
    command = ["squeue", "--noheader", "--states=all", "--array", "--format=%i %l"]
    lines = processes.run(command, environment).stdout.splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def new_in_slurm(grid: Grid, earlier: Mapping[str, str]) -> Counter[str]:
    """The number of jobs with each time limit, without those known earlier."""
    found = of_slurm(grid)
    return Counter(limit.strip() for job, limit in found.items() if job not in earlier)


def of_grid_engine(grid: Grid) -> Counter[str]:
    """The number of jobs with each walltime in Grid Engine's accounting, which forgets none."""
    site = grid.testbed.layout.site("gamma")
    environment = grid.testbed.layout.environment(site)
    command = ["qacct", "-j", "*", "-o", site.user]
    done = processes.run(command, environment, check=False)  # qacct fails before the first job
    return Counter(re.findall(r"h_rt=(\d+)", done.stdout))


def go(grid: Grid, name: str, *sites: str, changes: Mapping[str, Any]) -> None:
    """Run the bag, and check that no task failed, by its time or anything else."""
    grid.run = grid.user.folder / name
    engine = grid.start(grid.catalog(*sites, changes=changes), held="none")
    assert engine.done().status == 0, engine.told
    assert grid.failures() == Counter()
    assert sum(isinstance(e, ev.AttemptEnded) for e in grid.events()) == TASKS


def test_a_second_go_requests_what_the_first_one_has_learned(grid: Grid) -> None:
    grid.bag(TASKS, 0.1)
    slurm, grid_engine = of_slurm(grid), of_grid_engine(grid)  # of tests before this one

    def accounted(walltime_s: str) -> bool:
        """Whether Grid Engine has as many new jobs of this walltime as a go has at its site. It
        writes its accounting late."""
        new = of_grid_engine(grid) - grid_engine
        return new[walltime_s] >= TASKS // 2

    go(grid, "first", "alpha", "gamma", changes=CHANGES)
    assert new_in_slurm(grid, slurm).keys() == {"2:00:00"}
    assert wait_until(lambda: accounted("7200"), ACCOUNTING_S)
    slurm = of_slurm(grid)
    go(grid, "second", "alpha", "gamma", changes=CHANGES)
    assert new_in_slurm(grid, slurm) == {"6:00": TASKS // 2}
    assert wait_until(lambda: accounted("360"), ACCOUNTING_S)
    slurm = of_slurm(grid)
    go(grid, "third", "alpha", changes=IN_LAUNCHERS)
    assert new_in_slurm(grid, slurm).keys() == {"6:00"}
    asked = [e for e in grid.events() if isinstance(e, ev.LaunchersAsked)]
    assert {r.walltime_s for e in asked for r in e.launchers} == {300.0}
