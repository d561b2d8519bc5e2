"""Allocation strategies follow the starts that real queues plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.runners.harness import LONG_S, User
from tests.testbed import processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store

ALL = {"alpha": ["-p", "main", "-N", "4", "--ntasks-per-node=4"],
       "beta": ["-p", "batch", "-N", "2", "--ntasks-per-node=8"]}  # fmt: skip


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path, LONG_S)
    yield user
    user.close()


def environment(testbed: Testbed, name: str) -> dict[str, str]:
    return testbed.layout.environment(testbed.layout.site(name))


def placed(run: Path) -> list[int]:
    """The sites of all placements, as numbers in the catalog."""
    if not (run / "events.sqlite").exists():
        return []
    store = Store(run)
    try:
        return [e.site for e in store.load() if isinstance(e, ev.AttemptPlaced)]
    finally:
        store.close()


def test_a_job_goes_where_slurm_plans_to_start_it_first(testbed: Testbed, user: User) -> None:
    """All processors of both clusters are busy, and at each another job waits for all of them. By
    the model both queues are equal, since it knows no run times; by Slurm's plan alpha is free in
    3 minutes and beta in 21."""
    for name, minutes in (("alpha", "2"), ("beta", "20")):
        for limit in (minutes, "1"):
            argv = ["sbatch", "-o", "/dev/null", *ALL[name], "-t", limit, "--wrap", "sleep 60"]
            processes.run(argv, environment(testbed, name))
    asked = ["squeue", "--noheader", "--states=PD", "--format=%S"]
    for name in ALL:
        site = environment(testbed, name)
        processes.wait_until(
            lambda site=site: "T" in processes.run(asked, site).stdout,  # type: ignore[misc]
            f"a planned start at {name}",
        )
    entries = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    sites = {name: {**entries[name], "poll_min": 0.5} for name in ("beta", "alpha")}
    catalog = user.catalog(yaml.safe_dump({"sites": sites}, sort_keys=False))
    document = user.folder / "jobs.yaml"
    document.write_text('jobs:\n  - {job: a, command: "true", size: 4, ppn: 4, walltime: 60}\n')
    run = user.folder / "run"
    engine = user.start("jobs", document, "--sites", catalog, "--run-dir", run, "--allocate", "mst")
    processes.wait_until(lambda: engine.ended or bool(placed(run)), "a placement")
    for name in ALL:
        processes.run(["scancel", "-u", "root"], environment(testbed, name))
    done = engine.done()
    assert done.status == 0, done.text
    assert placed(run) == [1], "not at alpha"
