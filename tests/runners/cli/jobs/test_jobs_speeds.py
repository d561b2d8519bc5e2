"""Walltimes of parallel jobs at sites of other speeds, and what bad input gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.cli.jobs.test_jobs import jobs
from wfrun.engine import events as ev
from wfrun.engine.fitting.fit import admitted_sizes, fits
from wfrun.engine.model import Moldable, Resources, SiteSpec, Task, Workflow
from wfrun.runners.run.store.event_store import Store
from wfrun.sites.cluster.submission import one_node_note

JOB = Resources(walltime_s=100.0, parallel=True)


@pytest.mark.parametrize(("speed", "expected"), [(0.5, False), (1.0, True), (2.0, True)])
def test_the_limit_of_a_queue_holds_at_its_speed(speed: float, expected: bool) -> None:
    site = SiteSpec("a", 1, speed, walltime_s=100.0)
    assert fits(JOB, site) is expected
    assert fits(Resources(walltime_s=100.0), site)  # other tasks request what is documented
    assert fits(Resources(walltime_s=150.0, parallel=True), site) is (speed == 2.0)


def test_sizes_that_a_slow_site_admits_are_larger() -> None:
    moldable = {0: Moldable((1, 2, 4), (400.0, 200.0, 100.0), None)}
    jobs = Workflow(
        "j", "j.yaml", [Task("a", "x", "x", resources=Resources(walltime_s=400.0, parallel=True))],
        [], [()], moldable=moldable,
    )  # fmt: skip
    sizes = {
        speed: admitted_sizes(jobs, 0, SiteSpec("a", 8, speed, walltime_s=200.0))
        for speed in (0.25, 0.5, 1.0, 2.0)
    }
    assert sizes == {0.25: (), 0.5: (4,), 1.0: (2, 4), 2.0: (1, 2, 4)}


@pytest.mark.parametrize(("speed", "outcome"), [(0.25, "done"), (1.0, "walltime")])
def test_a_slow_site_gives_a_job_more_time(speed: float, outcome: str, tmp_path: Path) -> None:
    tmp_path.joinpath("jobs.yaml").write_text(
        "jobs:\n  - {job: a, command: sleep 1.5, walltime: 0.75 s}\n"
    )
    tmp_path.joinpath("sites.yaml").write_text(f"sites: {{here: {{slots: 1, speed: {speed}}}}}\n")
    run = tmp_path / "run"
    jobs(
        tmp_path / "jobs.yaml", "--sites", tmp_path / "sites.yaml", "--run-dir", run, "--quiet",
        "--retries", "0",
    )  # fmt: skip
    store = Store(run)
    ends = [event.outcome.cause for event in store.load() if isinstance(event, ev.AttemptEnded)]
    store.close()
    assert ends == [outcome]


def test_jobs_are_not_killed_at_a_simulated_slow_site(tmp_path: Path) -> None:
    tmp_path.joinpath("jobs.yaml").write_text("jobs: [{job: a, command: x, walltime: 100}]\n")
    tmp_path.joinpath("sites.yaml").write_text("sites: {here: {slots: 1, speed: 0.5}}\n")
    result = jobs(tmp_path / "jobs.yaml", "--sites", tmp_path / "sites.yaml", "--simulate")
    assert result.exit_code == 0, result.output
    assert "in 3:20" in result.output


def test_a_log_without_sizes_is_refused_with_its_first_line(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    row = "{} 0 5 100 -1 -1 -1 -1 100 -1 1 1 1 1 1 -1 -1 -1\n"
    log.write_text("; Version: 2.2\n;\n\n" + row.format(1) + row.format(2))
    tmp_path.joinpath("sites.yaml").write_text("sites: {here: {slots: 4}}\n")
    result = jobs(log, "--sites", tmp_path / "sites.yaml", "--simulate")
    assert result.exit_code != 0
    assert f"{log}:4: none of the 2 jobs of the log" in str(result.exception)


def test_the_refusal_of_a_wide_job_names_ppn() -> None:
    wide = Resources(cores=16, parallel=True)
    assert "its 16 processors on one node" in one_node_note(wide)
    assert "'ppn'" in one_node_note(wide)
    for asked in (Resources(cores=16), JOB, Resources(cores=16, nodes=4, parallel=True)):
        assert not one_node_note(asked)
