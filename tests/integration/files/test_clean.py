"""``wfrun clean`` and cleanup while a run goes on, over real clusters."""

from __future__ import annotations

import pytest

from tests.integration.clusters import Grid
from tests.integration.files.test_reuse import do, pairs
from tests.integration.launchers.test_launchers_faults import launchers
from tests.testbed import faults
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

pytestmark = pytest.mark.slow


def test_a_run_leaves_its_sites(grid: Grid) -> None:
    """A site that cannot be reached is named with what is left there; a second call goes on."""
    pairs(grid)
    sites = ("alpha", "delta")
    done = do(grid, "one", sites, "--keep", "all")
    assert done.status == 0, done.text
    name = read_state(RunDir(grid.user.folder / "one")).site_directory
    homes = {site: grid.testbed.layout.site(site).home / "scratch" / name for site in sites}
    assert all(home.is_dir() for home in homes.values())
    faults.stop(grid.testbed, "delta.sshd")
    some = grid.user.wfrun("clean", "one", "--yes")
    faults.start(grid.testbed, "delta.sshd")
    assert some.status == 3
    assert "site delta:" in some.text
    assert f"{name} is left there" in some.text
    assert not homes["alpha"].exists()
    assert homes["delta"].is_dir()
    rest = grid.user.wfrun("clean", "one", "--yes")
    assert rest.status == 0, rest.text
    assert not homes["delta"].exists()
    assert not (grid.user.folder / "one").exists()


def test_files_leave_clusters_while_a_run_goes_on(grid: Grid) -> None:
    """When the run is done, its log knows of no file but those in outputs/."""
    pairs(grid)
    done = do(grid, "one", ("alpha", "delta"))
    assert done.status == 0, done.text
    present = read_state(RunDir(grid.user.folder / "one")).workflows[0].present
    assert set(present) == {0, 1 << 2}


def test_live_launchers_end_before_their_directory_goes(grid: Grid) -> None:
    """A job whose directory is gone would hold its cores until its time limit."""
    grid.bag(4, 300)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers()}))
    grid.wait_begun(engine, 2)
    engine.kill()
    name = read_state(RunDir(grid.run)).site_directory
    cleaned = grid.user.wfrun("clean", str(grid.run), "--yes")
    assert cleaned.status == 0, cleaned.text
    assert not (grid.testbed.layout.site("alpha").home / "scratch" / name).exists()
    assert [line for _, line in grid.processes_at("alpha") if "job.py" in line] == []
