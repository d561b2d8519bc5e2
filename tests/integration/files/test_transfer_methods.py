"""Whole runs over the testbed whose files move by the methods that the catalog names."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import pytest
import yaml

from tests.integration.clusters import Grid
from tests.integration.files.ssh_agent import agent_of
from wfrun.engine import events as ev

SITES = ("alpha", "beta", "delta")
METHODS = ("rsync", "scp", "sftp")


def methods_used(grid: Grid) -> dict[tuple[str, str], Counter[str]]:
    """How often each method has carried a file between two sites, by the log."""
    used: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for event in grid.events():
        if isinstance(event, ev.TransferEnded) and min(event.source, event.destination) >= 0:
            used[SITES[event.source], SITES[event.destination]][event.method] += 1
    return used


def test_mixed_methods_and_one_that_fails(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of sites has methods of its own; delta cannot be reached by others."""
    forced = {
        pair: [METHODS[number % len(METHODS)], "stream"]
        for number, pair in enumerate(itertools.permutations(SITES, 2))
    }
    forced["alpha", "beta"] = ["stream"]
    unused = grid.testbed.layout.base + 39
    changes = {name: {"direct": "forward"} for name in SITES}
    changes["delta"] |= {"direct_port": unused}  # type: ignore[dict-item]
    changes["beta"] |= {"transport": "openssh"}
    path = grid.catalog(*SITES, changes=changes)
    catalog = yaml.safe_load(path.read_text())
    catalog["links"] = [
        {"from": source, "to": destination, "transfer": methods}
        for (source, destination), methods in forced.items()
    ]
    path.write_text(yaml.safe_dump(catalog))
    grid.layers(4, 3, 0)
    with agent_of(grid.testbed.layout, grid.user.folder, monkeypatch):
        done = grid.start(path, held="none").done()
    grid.check(done)
    used = methods_used(grid)
    learned = grid.state().network.samples
    assert len(used) > 3
    for (source, destination), counts in used.items():
        fails = destination == "delta"
        method = forced[source, destination][-1 if fails else 0]
        assert set(counts) == {method}, (source, used)
        assert learned[SITES.index(source), SITES.index(destination)].method == method
        line = f"{source} to {destination}: files go by stream, because"
        assert done.text.count(line) == (2 if fails else 0), done.text  # at once, and at the end
    assert set(METHODS) & {method for counts in used.values() for method in counts}
