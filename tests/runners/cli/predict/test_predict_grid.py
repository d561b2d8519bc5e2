"""`wfrun predict --grid` as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runners.harness import User, assert_refused
from wfrun.parsers.logs import LoggedJob, LogHeader, WorkloadLog, write_swf
from wfrun.runners.cli.predict.predict_grid import MODE
from wfrun.runners.simulate.grid.grids import GRIDS
from wfrun.runners.simulate.grid.schedulers import SCHEDULERS


def test_a_table_of_all_schedulers(user: User) -> None:
    done = user.ask("predict", "--grid", "das3", "--part", "0.002")
    assert done.status == 0
    assert "generated workload, seed 0, load 30%: 760 jobs" in done.out
    for kind in SCHEDULERS.values():
        assert kind.title in done.out


def test_the_numbers_as_json(user: User) -> None:
    done = user.ask("predict", "--grid", "auver", "--part", "0.01", "--json")
    found = json.loads(done.out)
    assert list(found["schedulers"]) == list(SCHEDULERS)
    perfect, fpf = found["schedulers"]["ect-perfect"], found["schedulers"]["fpf"]
    assert perfect["jobs"] == 900
    assert perfect["wait_s"] == pytest.approx(fpf["wait_s"])
    assert sum(fpf["share"]) == pytest.approx(1.0)


def test_the_jobs_of_a_log_at_a_load(user: User, tmp_path: Path) -> None:
    jobs = [
        LoggedJob(n, n * 600, 0, 300 * (n % 5 + 1), cores, status=1, user=n % 3)
        for n, cores in enumerate([1, 4, 200, 8, 2] * 20, 1)
    ]
    log = tmp_path / "log.swf"
    write_swf(WorkloadLog("log", LogHeader((" MaxProcs: 256",)), tuple(jobs)), log)
    done = user.ask("predict", "--grid", "auver", "--log", str(log), "--load", "0.02", "--json")
    assert done.status == 0
    assert "20 jobs are larger than every cluster and left out" in done.err
    found = json.loads(done.out)["schedulers"]["fpf"]
    assert found["jobs"] == 80
    assert found["utilization"] == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--grid", "das2"), "is not one of"),
        (("--grid", "das3", "--load", "0"), "--load"),
        (("--grid", "das3", "--part", "0"), "--part"),
        (("--grid", "das3", "--method", "es"), "--method has no effect on a grid (--grid)"),
        (("--grid", "das3", "a.dax"), "a grid (--grid) has no arguments"),
    ],
)
def test_what_it_refuses(user: User, given: tuple[str, ...], said: str) -> None:
    assert_refused(user.ask("predict", *given), 2, [said])


def test_all_grids_can_be_chosen() -> None:
    assert list(MODE.options[0].type.choices) == list(GRIDS)  # type: ignore[attr-defined]
