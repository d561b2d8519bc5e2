"""What `wfrun sites check` would find ends a new run before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import assert_refused
from tests.testbed.testbed import Testbed

WRONG: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "queue of Slurm": ("alpha", {"queue": "nope"}, "queue", "Invalid partition"),
    "option of Slurm": ("alpha", {"options": ["--constraint=x"]}, "options", "Invalid feature"),
    "queue of Grid Engine": ("gamma", {"queue": "nope.q"}, "queue", 'unknown queue "nope.q"'),
    "project of Grid Engine": ("gamma", {"account": "nope"}, "account", '"nope" does not exist'),
    "directory": ("beta", {"directory": "/proc/x"}, "directory", "cannot be used"),
    "user": ("delta", {"user": "nobody"}, "", "refused the login"),
    "host": ("delta", {"host": "nohost.invalid"}, "", "cannot be reached"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_entry_ends_the_run(testbed: Testbed, grid: Grid, what: str) -> None:
    site, change, key, says = WRONG[what]
    grid.bag(2, 0.1)
    catalog = grid.catalog(*dict.fromkeys(["alpha", site]), changes={site: change})
    lines = catalog.read_text().splitlines()
    entry = lines.index(f"  {site}:")
    line = (
        next(n for n in range(entry, len(lines)) if lines[n].startswith(f"    {key}"))
        if key
        else entry
    )
    # Runs of other tests, which share the testbed, may have been killed for good.
    scratches = [testbed.layout.site(name).home / "scratch" for name in ("alpha", site)]
    before = [set(scratch.glob("wfrun-r*")) for scratch in scratches]
    done = grid.finish(grid.start(catalog))
    assert_refused(done, 3, [f"{catalog}:{line + 1}: site {site}", says])
    assert not grid.begun()
    assert not grid.run.exists()
    assert [set(scratch.glob("wfrun-r*")) for scratch in scratches] == before


def test_a_request_of_a_load_value_is_no_wrong_entry(grid: Grid) -> None:
    """``qsub -w v`` finds no queue for it, ``qsub`` runs it."""
    grid.bag(2, 0.1)
    catalog = grid.catalog("gamma", changes={"gamma": {"options": ["-l", "mem_free=1M"]}})
    done = grid.finish(grid.start(catalog))
    assert done.status == 0, done.text
