"""A bag passes the limits of a real Grid Engine on jobs and arrays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.clusters import Grid
from tests.testbed import processes
from tests.testbed.testbed import Testbed

LIMITS = {"max_u_jobs": "2", "max_aj_tasks": "4", "max_aj_instances": "1"}


@pytest.fixture
def limited(testbed: Testbed) -> Iterator[None]:
    """Limits on jobs of a user, on elements of an array, and on those that run at once."""
    environment = testbed.layout.environment(testbed.layout.site("gamma"))
    path = testbed.layout.cell / "global"

    def configure(text: str) -> None:
        path.write_text(text)
        processes.run(["qconf", "-Mconf", str(path)], environment)

    before = processes.run(["qconf", "-sconf"], environment).stdout
    lines = [line for line in before.splitlines() if line.partition(" ")[0] not in LIMITS]
    configure("\n".join([*lines, *map(" ".join, LIMITS.items())]) + "\n")
    try:
        yield
    finally:
        configure(before)


def test_a_bag_passes_the_limits(grid: Grid, limited: None) -> None:
    grid.bag(8, 0.0)
    # More than the master takes: it says so.
    engine = grid.start(grid.catalog("gamma", changes={"gamma": {"max_array": 100}}))
    done = grid.finish(engine)
    grid.check(done)
    assert not grid.failures()
