"""Tasks at sites with launchers: the size of a launcher limits them, not that of the site."""

from __future__ import annotations

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.fit import fits, site_mask
from wfrun.engine.model import Access, LauncherSpec, Resources, SiteSpec, Task

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
