"""Follows the state of a run from outside its engine, as the log grows."""

from __future__ import annotations

from itertools import islice
from types import TracebackType

from wfrun.engine.core.state import RunState
from wfrun.engine.events import AnyEvent
from wfrun.runners.run.directory.run_directory import (
    START_WAIT_S,
    RunDir,
    await_start,
    is_driven,
)
from wfrun.runners.run.store.checkpoints import read_core
from wfrun.runners.run.store.event_store import Store


class FollowedRun:
    """The state of a run, kept up to date by events that are read from its log. A context manager
    that closes the log."""

    def __init__(self, run: RunDir, timeout_s: float = START_WAIT_S) -> None:
        """Raises the errors of ``await_start`` and ``Store``."""
        await_start(run, timeout_s)
        self.run = run
        self.is_driven = is_driven(run)
        """Whether an engine drove the run just before its log was last read. If not, no further
        event comes until the run is resumed."""
        self._store = Store(run.path)
        try:
            self._core = read_core(self._store)
        except BaseException:
            self._store.close()
            raise

    @property
    def state(self) -> RunState:
        """The state after the events that were read."""
        return self._core.state

    @property
    def seq(self) -> int:
        """Number of events that were read."""
        return self._store.next_seq

    def update(self) -> list[AnyEvent]:
        """Read and apply the events since the last call, and return them. Raises the errors of
        ``Store``."""
        self.is_driven = is_driven(self.run)
        events = []
        for event in self._store.load_more():
            self._core.apply_undecided(event)
            events.append(event)
        return events

    def recent(self, count: int) -> list[AnyEvent]:
        """The last events that were read, at most ``count``. Raises the errors of ``Store``."""
        store = Store(self.run.path)
        try:
            store.seek(self.seq - count)
            return list(islice(store.load_more(), self.seq - store.next_seq))[-count:]
        finally:
            store.close()

    def __enter__(self) -> FollowedRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.close()
