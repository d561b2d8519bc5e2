"""`wfrun plan` on real clusters: their present queues, and a run as long as its plan says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_sites_command import at, fill_alpha, init, wfrun
from tests.testbed.testbed import Testbed
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax

SITES = ("alpha", "gamma")
EMULATED = ("montage.dax", "--sites", "sites.yaml", "--emulate", "--at-sites")


@pytest.fixture
def folder(testbed: Testbed, tmp_path: Path) -> Path:
    """With a workflow, and the catalog that ``init`` made of a Slurm and a Grid Engine site."""
    for site in SITES:
        init(testbed, tmp_path, site)
    write_dax(generate("montage", 50, 1), tmp_path / "montage.dax")
    return tmp_path


def planned(folder: Path, *words: str) -> dict[str, Any]:
    said = wfrun(folder, "plan", *words, "--compare", "0", "--json")
    document: dict[str, Any]
    document, _ = json.JSONDecoder().raw_decode(said)  # what is written to stderr follows
    return document


def kept(testbed: Testbed, site: str) -> set[Path]:
    """What runs have left at a site."""
    return set(testbed.layout.site(site).home.rglob("wfrun-r*"))


def test_the_jobs_of_a_full_cluster_are_ahead_and_nothing_is_left_there(
    testbed: Testbed, folder: Path
) -> None:
    fill_alpha(testbed)
    before = [kept(testbed, site) for site in SITES]  # by runs of other tests
    plan = planned(folder, *EMULATED, "--no-history")
    alpha, gamma = plan["present"]
    assert (alpha["idle_cores"], alpha["jobs_ahead"]) == (0, 1)
    assert (gamma["state"], gamma["jobs_ahead"]) == ("up", 0)
    tasks = {site["site"]: site["tasks"] for site in plan["run"]["sites"]}
    assert sum(tasks.values()) == plan["run"]["tasks"]
    assert plan["run"]["sites"][1]["first_start_s"] < 60  # gamma is free
    assert len(at(testbed, "alpha", "squeue --noheader").splitlines()) == 1
    assert [kept(testbed, site) for site in SITES] == before


def test_a_run_on_clusters_takes_as_long_as_its_plan_says(testbed: Testbed, folder: Path) -> None:
    wfrun(folder, "run", *EMULATED, "--run-dir", "wfrun-runs/first", "-q")
    (run, _) = json.JSONDecoder().raw_decode(wfrun(folder, "stats", "--json"))
    plan = planned(folder, *EMULATED)
    assert plan["sources"]["measured_overheads"] == list(SITES)
    assert plan["run"]["makespan_s"] == pytest.approx(run[0]["total"]["makespan_s"], rel=0.15)
