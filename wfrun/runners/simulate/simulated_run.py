"""Run directories of simulated runs. ``wfrun simulate --run-dir`` makes them; they are read like
those of real runs, but cannot be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.runners.run.directory import run_directory as rundir
from wfrun.runners.run.directory.new_run import NewRun
from wfrun.runners.run.directory.simulated import SIMULATED_ID
from wfrun.runners.run.store.checkpoints import CheckpointWriter
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.simulate.simulation import Platform, begun

GROUP_SIZE = 5000
"""Minimum number of events that are committed together."""


def simulate_into(
    path: Path,
    workflows: Sequence[Workflow],
    platform: Platform,
    settings: ev.Settings,
    arrivals_s: Sequence[float] | None = None,
) -> RunState:
    """Simulate a run, and keep its log in a new run directory, like a real run. If the simulation
    is interrupted or fails, the directory is removed. Raises the errors of `NewRun` and of
    `begun`."""
    new = NewRun(path, path.name)
    try:
        store = Store(path, create=True)
        try:
            digests = store.put_workflows(workflows)
            log = _GroupedLog(store)
            simulation = begun(
                workflows, platform, settings, log=log, digests=digests, arrivals_s=arrivals_s
            )
            log.checkpoints = CheckpointWriter(store, simulation.core)
            state = simulation.run()
            log.flush(last=True)
        finally:
            store.close()
    except BaseException:
        new.abandon()
        raise
    new.lock.release()
    return state


class _GroupedLog:
    """A log that commits many turns of the loop together, because a commit for each turn would take
    most of the time of a simulation. A crash may lose a group of events, which does no harm: the
    simulation can be repeated."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._events = 0
        self.checkpoints: CheckpointWriter | None = None

    def append(self, events: Sequence[ev.Event]) -> None:
        """Add events to the next group."""
        self._store.append(events)
        self._events += len(events)

    def commit(self) -> None:
        """Commit the current group if it has `GROUP_SIZE` events."""
        if self._events >= GROUP_SIZE:
            self.flush()

    def flush(self, *, last: bool = False) -> None:
        """Commit all uncommitted events. ``last``: no events follow."""
        self._store.commit()
        self._events = 0
        if self.checkpoints is not None:
            self.checkpoints.after_commit(last=last)


def is_simulated(run: rundir.RunDir) -> bool:
    """Whether a run was simulated. False for a run without a log."""
    if not rundir.has_log(run.path):  # the run is starting
        return False
    store = Store(run.path)
    try:
        first = next(store.load(), None)
    finally:
        store.close()
    return isinstance(first, ev.RunStarted) and first.run_id == SIMULATED_ID


def refuse_simulated(run: rundir.RunDir, why: str) -> None:
    """Raise InvalidError, with the reason ``why``, for a simulated run."""
    if is_simulated(run):
        raise InvalidError(
            f"the run {run.name} was simulated: {why}",
            hint="`wfrun simulate --from-run` simulates its workflows again, `wfrun run` runs "
            "them for real",
        )
