"""What users see of launchers on a real cluster: `wfrun launchers`, `wfrun bench dispatch`."""

from __future__ import annotations

import asyncio
import json

from tests.integration.clusters import Grid
from tests.runners.harness import LONG_S, wait_until
from tests.testbed import processes
from tests.testbed.testbed import Testbed
from wfrun.runners.admin.bench import measure
from wfrun.runners.admin.bench_figures import BenchCounts
from wfrun.sites.catalog import read_catalog

LAUNCHERS = {"slots": 4, "dispatch": "launchers", "launchers": {"cores": 2, "channels": "tcp"}}


def test_live_launchers_are_shown_while_another_process_drives_the_run(grid: Grid) -> None:
    grid.bag(60, 0.3)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": LAUNCHERS}))
    grid.wait_done(engine, 8)

    def shown() -> list[list[str]]:
        told = grid.user.wfrun("launchers", grid.run)
        assert told.status == 0, told.text
        return [line.split() for line in told.out.splitlines() if " live " in line]

    assert wait_until(lambda: any(int(row[8]) > 0 for row in shown()))
    row = shown()[0]
    assert row[1:4:2] == ["alpha", "live"]
    assert (row[5], row[10]) == ("2", "tcp")
    assert "launchers of alpha: " in grid.user.wfrun("status", grid.run).out
    assert grid.finish(engine).status == 0
    all_of_them = grid.user.wfrun("launchers", grid.run, "--all").out
    assert sum(int(line.split()[-3]) for line in all_of_them.splitlines() if ".L0." in line) == 60


def test_a_site_with_launchers_is_measured_and_nothing_stays(grid: Grid, testbed: Testbed) -> None:
    changes = {"alpha": {**LAUNCHERS, "directory": "~/measured"}}
    (spec,) = read_catalog(grid.catalog("alpha", changes=changes)).sites

    def jobs() -> set[str]:
        """Also those that have ended, for minutes."""
        command = ["squeue", "--noheader", "--states=all", "--array", "--format=%i"]
        environment = testbed.layout.environment(testbed.layout.site("alpha"))
        return set(processes.run(command, environment).stdout.split())

    before = jobs()
    result = asyncio.run(measure(spec, BenchCounts(empty=200, chain=10, short=20), LONG_S))
    assert result.problem is None
    figures = result.figures
    assert figures.rate is not None
    assert figures.latency_s is not None
    assert figures.ideal_s is not None
    assert figures.rate > 0
    assert figures.latency_s > 0
    assert 2 <= figures.slots <= 4
    assert 1 <= len(jobs() - before) <= 4, "tasks are no jobs of their own"
    home = testbed.layout.directory / "home" / "alpha" / "measured"
    assert list(home.iterdir()) == []


def test_a_check_starts_a_launcher_and_ends_it(grid: Grid) -> None:
    catalog = grid.catalog("alpha", changes={"alpha": LAUNCHERS})
    told = grid.user.wfrun("sites", "check", "--json", "--sites", catalog)
    assert told.status == 0, told.text
    checks = {check["check"]: check for check in json.loads(told.out)[0]["checks"]}
    assert checks["launcher"]["state"] == "ok"
    assert checks["launcher"]["text"].endswith("2 slots, by tcp")
    assert "its end known" in checks["test job"]["text"]
    assert wait_until(lambda: not grid.queue("alpha"))


def test_a_check_names_an_address_that_is_none(grid: Grid) -> None:
    nowhere = {**LAUNCHERS, "launchers": {"channels": "tcp", "address": "192.0.2.1"}}
    catalog = grid.catalog("alpha", changes={"alpha": nowhere})
    told = grid.user.wfrun("sites", "check", "--wait", "15", "--sites", catalog)
    assert told.status == 1
    assert "cannot reach the engine: tcp: " in told.out
    assert "Allow more 'channels'" in told.out
