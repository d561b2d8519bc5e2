"""Which sites could run a task, by the width of their nodes and the size of their launchers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.fit import admitted_sizes, fits, site_mask
from wfrun.engine.model import (
    Access,
    LauncherSpec,
    Moldable,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)

LAUNCHER = LauncherSpec(cores=8, nodes=2, memory_bytes=1 << 30, gpus=1, max=4, walltime_s=600.0)
SITE = SiteSpec(
    "a", 64, kind="slurm", gpus=9, access=Access(("h",), dispatch="launchers", launchers=LAUNCHER)
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Resources(), True),
        (Resources(cores=8, memory_bytes=1 << 30, gpus=1, walltime_s=600.0), True),
        (Resources(cores=9), False),
        (Resources(cores=16, nodes=2), True),
        (Resources(cores=24, nodes=3), False),
        (Resources(memory_bytes=(1 << 30) + 1), False),
        (Resources(gpus=2), False),
        (Resources(walltime_s=601.0), False),
    ],
)
def test_fits_a_launcher(asked: Resources, expected: bool) -> None:
    assert fits(asked, SITE) is expected


def test_what_is_offered_is_a_launcher() -> None:
    task = Task("t", "t", "t", resources=Resources(cores=9))
    with pytest.raises(InvalidError, match="fits no site: it asks for 9 cores") as caught:
        site_mask(task, [SITE], "w.dax")
    assert "a: launchers of 16 cores, 2 nodes, 1024 MiB, 1 GPUs, 600 s walltime" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("walltime_s", "speed", "expected"),
    [(1200.0, 2.0, True), (1201.0, 2.0, False), (300.0, 0.5, True), (301.0, 0.5, False)],
)
def test_a_parallel_job_asks_launchers_for_its_walltime_at_their_speed(
    walltime_s: float, speed: float, expected: bool
) -> None:
    asked = Resources(cores=2, parallel=True, walltime_s=walltime_s)
    assert fits(asked, replace(SITE, speed_ratio=speed)) is expected


def test_a_launcher_of_another_speed_says_what_the_job_asks_for() -> None:
    task = Task("t", "t", "t", resources=Resources(parallel=True, walltime_s=301.0))
    with pytest.raises(InvalidError, match="asks for 1 cores, 301 s walltime") as caught:
        site_mask(task, [replace(SITE, speed_ratio=0.5)], "jobs.yaml")
    assert "600 s walltime (at its speed of 0.5 the job asks for 602 s)" in str(caught.value)


NARROW = SiteSpec("a", 64, kind="slurm", access=Access(("h",)), node_cores=4)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Resources(cores=4), True),
        (Resources(cores=5), False),
        (Resources(cores=8, nodes=2), True),
        (Resources(cores=10, nodes=2), False),
        (Resources(cores=8, parallel=True), False),
    ],
)
def test_a_task_has_a_node_of_its_width(asked: Resources, expected: bool) -> None:
    assert fits(asked, NARROW) is expected
    assert fits(asked, replace(NARROW, node_cores=None))


def test_a_job_wider_than_all_nodes_is_refused_with_what_would_fit() -> None:
    task = Task("t", "t", "t", resources=Resources(cores=8, parallel=True))
    with pytest.raises(InvalidError, match="fits no site: it asks for 8 cores") as caught:
        site_mask(task, [NARROW], "j.yaml")
    assert "a: 64 cores, nodes of 4 cores. With a 'ppn' of at most 4 the job gets" in str(
        caught.value
    )
    with pytest.raises(InvalidError) as caught:  # Its batch system gives a job one node only.
        site_mask(task, [replace(NARROW, max_nodes=1)], "j.yaml")
    assert "ppn" not in str(caught.value)


@pytest.mark.parametrize(
    ("ppn", "expected"), [(None, (1, 2, 4)), (8, (1, 2, 4)), (4, (1, 2, 4, 8, 16))]
)
def test_sizes_of_a_job_that_nodes_can_have(ppn: int | None, expected: tuple[int, ...]) -> None:
    sizes = (1, 2, 4, 8, 16)
    moldable = Moldable(sizes, (5.0, 4.0, 3.0, 2.0, 1.0), ppn)
    task = Task("t", "t", "t", resources=Resources(parallel=True, walltime_s=5.0))
    w = Workflow("j", "j.yaml", [task], [], [()], moldable={0: moldable})
    assert admitted_sizes(w, 0, NARROW) == expected
    assert admitted_sizes(w, 0, replace(NARROW, node_cores=None)) == sizes
