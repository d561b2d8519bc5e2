"""A simulation predicts the makespan of a run from what an earlier one has measured."""

from __future__ import annotations

import json

import pytest

from tests.integration.clusters import Grid
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax

FACTOR = 5
"""The machine may be as much faster or slower during the second run."""


@pytest.mark.slow
def test_montage_over_several_clusters(grid: Grid) -> None:
    catalog, user = grid.catalog("alpha", "beta", "gamma"), grid.user
    write_dax(generate("montage", 30, 1), user.folder / "montage.dax")
    words = ("montage.dax", "--sites", catalog, "--emulate", "--at-sites", "--time-scale", "0.01")
    first, second = (user.wfrun(*words, "--quiet") for _ in range(2))
    assert (first.status, second.status) == (0, 0), first.text + second.text
    real_s = json.loads(user.wfrun("status", "--json").out)["elapsed_s"]

    def predicted_s(*more: str) -> float:
        done = user.wfrun("simulate", "--from-run", "montage-1", "-p", "file-aware", *more)
        assert done.status == 0, done.text
        return float(done.out.splitlines()[1].split()[1].replace(",", ""))

    assert real_s / FACTOR < predicted_s() < real_s * FACTOR
    assert predicted_s("--overheads", "none") < real_s / FACTOR
    by_auto = user.wfrun("simulate", "montage.dax", "--sites", catalog, "-p", "file-aware")
    assert "overheads of alpha" in by_auto.err
    assert "as run montage-2 measured them" in by_auto.err
