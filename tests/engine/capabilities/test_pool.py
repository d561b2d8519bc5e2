"""The launchers of a site, as the core knows them."""

from __future__ import annotations

import pytest

from wfrun.engine.capabilities.launchers.pool import Launcher, LauncherPhase, LauncherPool
from wfrun.engine.exchange import LauncherRequest
from wfrun.engine.model import LauncherSpec


@pytest.mark.parametrize("phase", [LauncherPhase.DRAINING, LauncherPhase.AWAY])
def test_what_runs_in_launchers_that_take_no_more_is_no_load_on_the_others(
    phase: LauncherPhase,
) -> None:
    pool = LauncherPool(LauncherSpec(cores=8))
    for key in ("a", "b"):
        request = LauncherRequest(key, 1, 8, 0, 0, 300.0)
        launcher = pool.launchers[key] = Launcher(request, 0.0)
        launcher.slots, launcher.busy_cores, launcher.phase = 8, 5, LauncherPhase.LIVE
    pool.refresh()
    assert (pool.capacity, pool.busy_cores) == (16, 10)
    pool.launchers["a"].phase = phase
    pool.refresh()
    assert (pool.capacity, pool.busy_cores) == (8 + 5, 10)
