"""``wfrun export --format trace``: a row for each attempt, and logs that make load."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import wfrun
from tests.runners.harness import Job, User, assert_refused, make_workflow
from wfrun.engine.model import Catalog, Resources, SiteSpec, Task, Workflow
from wfrun.engine.settings import Settings
from wfrun.parsers.logs import read_gwf, read_swf
from wfrun.runners.inspect.export.trace import COLUMNS
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform

HOSTILE = '=cmd|"x"!A1,\r\n\x1b[31m\x9b-1\t;#'


def rows(user: User, run: str) -> list[dict[str, str]]:
    done = user.ask("export", run, "--format", "trace")
    assert done.status == 0, done.text
    with open(user.folder / f"{run}.csv", newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def simulated(folder: Path) -> None:
    """Makes a run of hours on two sites: a chain, a wide task, and names that are hostile."""
    tasks = [Task(f"t{n}", "k", "k", runtime_s=36_000.0) for n in range(5)]
    tasks.append(Task("w", HOSTILE, "k", resources=Resources(2, 5 << 30, walltime_s=1e5),
                      runtime_s=18_000.0))  # fmt: skip
    parents: list[tuple[int, ...]] = [(), (0,), (1,), (), (), (0, 3)]
    workflow = Workflow(HOSTILE, "w.dax", tasks, [], parents, owner=HOSTILE)
    catalog = Catalog((SiteSpec("one", 2, memory_bytes=8 << 30), SiteSpec("two", 1, 2.0)), ())
    simulate_into(folder / "sim", [workflow], Platform(catalog), Settings("heft"))


@pytest.mark.slow
def test_a_row_for_each_attempt(user: User) -> None:
    flag = user.folder / "flag"
    jobs = [
        Job("a", "exit 0"),
        Job("b", f"[ -e {flag} ] && exit 0; touch {flag}; echo '@bad' >&2; exit 3"),
    ]
    run = user.folder / "run"
    assert wfrun.run(make_workflow(jobs), run_dir=run, retries=1).outcome == "done"
    found = rows(user, "run")
    assert tuple(found[0]) == COLUMNS
    first, failed, second = sorted(found, key=lambda row: (row["task_id"], row["attempt"]))
    assert [row["state"] for row in (first, failed, second)] == ["done", "exit", "done"]
    assert [row["attempt"] for row in (first, failed, second)] == ["1", "1", "2"]
    assert failed["exit_code"] == "3"
    assert failed["message"] == "'@bad"
    for row in found:
        assert row["run"] == "run"
        assert row["type"] == "sh"
        assert row["host"]
        assert 0 <= float(row["placed_s"]) <= float(row["ready_s"])
        length_s = float(row["ended_s"]) - float(row["started_s"])
        assert float(row["run_time_s"]) == pytest.approx(length_s, abs=1e-5)
    jobs_of = read_swf(user.folder / export(user, "run", "run.swf")).jobs
    assert sorted(job.status or 0 for job in jobs_of) == [0, 1, 1]


def export(user: User, run: str, name: str) -> str:
    done = user.ask("export", run, "--format", "trace", "-o", name)
    assert done.status == 0, done.text
    return name


def test_logs_are_read_back_and_make_load(user: User) -> None:
    simulated(user.folder)
    table = rows(user, "sim")
    grid = read_gwf(user.folder / export(user, "sim", "sim.gwf"))
    plain = read_swf(user.folder / export(user, "sim", "sim.swf"))
    assert not grid.dropped
    assert not plain.dropped
    assert grid.processors == plain.processors == 3
    for log in (grid, plain):
        by_submission = sorted(table, key=lambda row: float(row["ready_s"]))
        measured = [round(float(row["run_time_s"]), 3) for row in by_submission]
        assert [job.runtime_s for job in log.jobs] == measured
        assert [job.processors for job in log.jobs] == [int(row["cores"]) for row in by_submission]
    sites = {job.site for job in grid.jobs}
    assert sites == {row["site"] for row in table} == {"one", "two"}
    ids = {row["task_id"]: number for number, row in enumerate(by_submission, 1)}
    parents = {job.id: job.grid.parents for job in grid.jobs if job.grid is not None}
    assert parents[ids["w"]] == tuple(sorted((ids["t0"], ids["t3"])))
    assert parents[ids["t2"]] == (ids["t1"],)
    (wide,) = (job for job in plain.jobs if job.processors == 2)
    assert wide.requested_s == 1e5
    assert wide.requested_memory_kb == 5 * 2**20 / 2
    user.write([Job("a", "true")], "w.dax")
    catalog = user.catalog("sites:\n  there: {slots: 3}\n")
    for log_name in ("sim.swf", "sim.gwf"):
        done = user.ask("simulate", "w.dax", "--runtime", "60", "--sites", catalog, "--policy",
                        "heft", "--background", log_name, "--load", "0.5")  # fmt: skip
        assert done.status == 0, done.text


def test_no_cell_is_a_formula_or_a_further_row(user: User) -> None:
    simulated(user.folder)
    found = rows(user, "sim")
    assert len(found) == 6
    text = (user.folder / "sim.csv").read_bytes()
    assert b"\x1b" not in text
    assert b"\r" not in text
    wide = next(row for row in found if row["task_id"] == "w")
    assert wide["workflow"].startswith("'=cmd")
    assert wide["type"].startswith("'=cmd")


def test_another_suffix_is_refused(user: User) -> None:
    simulated(user.folder)
    done = user.ask("export", "sim", "--format", "trace", "-o", "sim.xlsx")
    assert done.status == 2
    assert "name the file .csv, .gwf or .swf" in done.err
    assert not (user.folder / "sim.xlsx").exists()


def test_the_suffix_names_the_format(user: User) -> None:
    simulated(user.folder)
    for name, start in (("a.csv", "run,"), ("a.SWF", ";"), ("a.json", "{"), ("a.zip", "PK")):
        done = user.ask("export", "sim", "-o", name)
        assert done.status == 0, done.text
        assert (user.folder / name).read_bytes().startswith(start.encode()), name
    for words in ((), ("-o", "a.txt"), ("-o", "folder")):
        assert_refused(user.ask("export", "sim", *words), 2, ["--format (wfformat, ", ".json"])
