"""What the benches on the testbed share: three clusters, and the times of the jobs of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store

SLOTS = {"alpha": 16, "beta": 16, "gamma": 8}
"""Two Slurm clusters and Grid Engine."""
WFRUN = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"
"""The command `wfrun` as a program of Python."""


class Times(NamedTuple):
    """Of a run, in seconds: by workflow its arrival, by task (workflow, number) start and end of
    the attempt that was done; the start of the last launcher. ``moves`` is the number of
    reallocated jobs."""

    came: dict[int, float]
    started: dict[tuple[int, int], float]
    ended: dict[tuple[int, int], float]
    launchers_s: float
    moves: int


def write_sites(testbed: Testbed, folder: Path, **more: dict[str, Any]) -> Path:
    """Write a catalog of the three clusters. ``more`` are further keys of each entry, by site."""
    entries = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    sites = {
        name: {**entries[name], "poll_min": 0.5, "poll_max": 2, **more.get(name, {})}
        for name in SLOTS
    }
    path = folder / "sites.yaml"
    path.write_text(yaml.safe_dump({"sites": sites}))
    return path


def times_of(run: Path) -> Times:
    """Read the log of a run."""
    found, started = Times({}, {}, {}, 0.0, 0), {}
    launchers: dict[str, float] = {}
    moves = 0
    store = Store(run)
    for event in store.load():
        if isinstance(event, ev.WorkflowAdded):
            found.came[event.workflow] = event.at_s
        elif isinstance(event, ev.AttemptStarted):
            started[event.key] = event.at_s
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            _, workflow, task, _ = event.key.split(".")
            found.started[int(workflow), int(task)] = started[event.key]
            found.ended[int(workflow), int(task)] = event.at_s
        elif isinstance(event, ev.LauncherStarted):
            launchers.setdefault(event.key, event.at_s)  # reported again after changes
        elif isinstance(event, ev.JobsReallocated):
            moves += len(event.moves)
    store.close()
    return found._replace(launchers_s=max(launchers.values(), default=0.0), moves=moves)
