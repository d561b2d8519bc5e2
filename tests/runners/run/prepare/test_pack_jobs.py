"""Allocations that jobs are packed into, and what is asked of their sites."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Access, Catalog, LauncherSpec, LinkSpec, SiteSpec
from wfrun.parsers.read import ReadDocument
from wfrun.runners.run.prepare.pack_jobs import (
    PackedAllocation,
    PackedPlan,
    allocations,
    choose_allocation,
    packed_catalog,
    packed_jobs,
    packed_workflow,
    plan_packing,
)
from wfrun.runners.run.prepare.prepare_jobs import read_job_documents


def cluster(name: str = "alpha", *, nodes: int = 2, walltime_s: float | None = None) -> SiteSpec:
    """Nodes of 8 processors, with launchers."""
    access = Access(dispatch="launchers", launchers=LauncherSpec(cores=8, nodes=nodes, max=3))
    return SiteSpec(name, slots=32, kind="slurm", access=access, walltime_s=walltime_s)


def read_jobs(folder: Path, *jobs: str) -> ReadDocument:
    path = folder / "jobs.yaml"
    path.write_text("command: x {size}\njobs:\n" + "".join(f"  - {job}\n" for job in jobs))
    [read] = read_job_documents([path], together=True).read
    return read


def test_a_launcher_of_several_nodes_takes_the_plan() -> None:
    catalog = Catalog(
        (cluster(), SiteSpec("other", slots=1)),
        links=(LinkSpec("origin", "alpha"), LinkSpec("alpha", "other")),
    )
    assert [offer[1:] for offer in allocations(catalog, None)] == [(16, 8), (1, 1)]
    [offer] = allocations(catalog, 24)
    packed = packed_catalog(catalog, offer, 1000.0)
    [site] = packed.sites
    assert site.access is not None
    spec = site.access.launchers
    assert spec is not None
    assert (spec.cores, spec.nodes, spec.min, spec.max, site.slots) == (8, 3, 1, 1, 24)
    assert spec.walltime_s == 2000.0
    assert packed.links == (LinkSpec("origin", "alpha"),)


def test_a_site_that_gives_jobs_gets_one_launcher() -> None:
    """Short plans get five minutes, long ones no more than the site allows."""
    for end_s, walltime_s in ((10.0, 300.0), (3000.0, 4000.0)):
        site = SiteSpec("s", slots=32, kind="slurm", access=Access(), walltime_s=4000.0)
        [offer] = allocations(Catalog((site,)), 20)
        access = packed_catalog(Catalog((site,)), offer, end_s).sites[0].access
        assert access is not None
        assert access.launchers is not None
        assert access.dispatch == "launchers"
        assert (access.launchers.cores, access.launchers.walltime_s) == (20, walltime_s)


def test_processors_are_whole_nodes() -> None:
    with pytest.raises(InvalidError, match="no site has an allocation of 12 processors"):
        allocations(Catalog((cluster(),)), 12)


def test_a_job_stays_on_a_node_unless_it_has_ppn(tmp_path: Path) -> None:
    read = read_jobs(
        tmp_path,
        "{job: a, walltime: {4: 9, 8: 5, 16: 3}}",
        "{job: b, ppn: 8, walltime: {4: 9, 8: 5, 16: 3}}",
    )
    assert [job.sizes for job in packed_jobs(read, 16, 8)] == [(4, 8), (4, 8, 16)]
    wide = read_jobs(tmp_path, "{job: a, size: 12, walltime: 9}")
    with pytest.raises(
        InvalidError, match="needs at least 12 processors, the allocation has 16, 8"
    ):
        packed_jobs(wide, 16, 8)


def test_run_times_fall_as_the_walltimes(tmp_path: Path) -> None:
    read = read_jobs(tmp_path, "{job: a, walltime: {1: 100, 2: 60}, runtime: 50, weight: 4}")
    [job] = packed_jobs(read, 2)
    assert (job.times_s, job.weight) == ((50.0, 30.0), 4.0)
    plan = plan_packing([job], 2, "gang", 0)
    [task] = packed_workflow(read.workflow, plan).tasks
    assert (task.resources.cores, task.resources.walltime_s, task.runtime_s) == (2, 60.0, 30.0)
    assert task.arguments == ("2",)


def test_jobs_of_all_owners_are_packed_together(tmp_path: Path) -> None:
    read = read_jobs(tmp_path, "{job: a, walltime: 9, owner: x}", "{job: b, walltime: 9, owner: y}")
    assert [task.id for task in read.workflow.tasks] == ["a", "b"]


def test_a_plan_that_is_longer_than_every_site_allows_is_refused(tmp_path: Path) -> None:
    read = read_jobs(tmp_path, "{job: a, walltime: 90}")

    def plan(offer: PackedAllocation) -> PackedPlan:
        jobs = packed_jobs(read, offer.processors, offer.per_node)
        return plan_packing(jobs, offer.processors, "demt", 0)

    short, long = cluster("short", walltime_s=60.0), cluster("long", walltime_s=100.0)
    with pytest.raises(InvalidError, match="short allows an allocation for 60 s"):
        choose_allocation(allocations(Catalog((short,)), 8), plan)
    chosen, _ = choose_allocation(allocations(Catalog((short, long)), 8), plan)
    assert chosen.site.name == "long"
