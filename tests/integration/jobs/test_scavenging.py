"""Owners share idle processors of real clusters, beside jobs of another user."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.integration.jobs.scavengers import SLOTS, Scavengers
from tests.testbed import processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev


@pytest.mark.slow
@pytest.mark.testbed
def test_owners_share_and_give_back(testbed: Testbed, tmp_path: Path) -> None:
    """A third owner joins, jobs of another user come and go, and the engine is killed after it has
    decided to give processors back."""
    run = Scavengers(testbed, tmp_path)
    run.write_sweeps("alpha", "gamma", tasks=100, seconds=3, owners="ann bea cho")
    try:
        engine = run.start("--scavenge", "persite", "--retries", "0", owners="ann bea")
        processes.wait_until(lambda: run.running() >= SLOTS["alpha"] + SLOTS["gamma"], "full use")
        added = run.command("add", "run", "cho.yaml")
        assert added.wait(60) == 0, (tmp_path / "told").read_text()
        local = run.local_job("alpha", 8, 5)
        reclaims = [e for e in run.events() if isinstance(e, ev.LaunchersStopped)]
        processes.wait_until(lambda: run.count(ev.LaunchersStopped) > len(reclaims), "a reclaim")
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        engine = run.start()
        assert local.waited_s() < 20.0
        assert run.local_job("gamma", 4, 3).waited_s() < 15.0
        assert run.local_job("alpha", 4, 3).waited_s() < 15.0
        run.done(engine, 200.0)
    finally:
        run.close()
    run.check_done()
    run.check_quiet()
    log = run.events()
    ends = [e.at_s for e in log if isinstance(e, ev.LaunchersStopped) and e.cause == "unneeded"]
    shared = [e for e in log if isinstance(e, ev.ProcessorsShared) and e.at_s < min(ends)]
    assert max(len(e.owners) for e in shared) == 3
    for event in shared:  # while everybody has enough to do
        for counts in zip(*(event.held[owner] for owner in event.owners), strict=True):
            assert max(counts) - min(counts) <= 1, event
