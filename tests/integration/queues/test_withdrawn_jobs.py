"""Jobs that wait in the queue of one cluster are taken back for idle cores elsewhere, while some of
them start: each task runs once."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.clusters import Grid
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

FILL = "sbatch --parsable -o /dev/null -p main -N 4 --ntasks-per-node 4 --wrap 'sleep 600'"
"""All of alpha."""


def at_alpha(testbed: Testbed, command: str) -> str:
    words = ["ssh", "-F", str(testbed.layout.ssh_config), "alpha", command]
    ended = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    return ended.stdout.strip()


@pytest.mark.slow
def test_jobs_are_taken_back_while_their_queue_begins_to_move(testbed: Testbed, grid: Grid) -> None:
    """The other cluster is done, and nothing of alpha has started. As soon as the first jobs are
    withdrawn, alpha is free."""
    filling = at_alpha(testbed, FILL)
    grid.bag(24, 0.5)
    engine = grid.start(grid.catalog("alpha", "delta"), "--selection", "s-t")

    def withdrawn() -> list[str]:
        decided = [e for e in grid.events() if isinstance(e, ev.AttemptsWithdrawn)]
        assert {event.site for event in decided} <= {0}
        return [key for event in decided for key in event.keys]

    grid.wait(engine, grid.logged)
    grid.wait(engine, lambda: bool(withdrawn()))
    at_alpha(testbed, f"scancel {filling}")
    grid.check(grid.finish(engine))
    assert set(grid.failures()) <= {"cancelled"}
