"""Reads the log of a run in one pass, with a collector of facts about its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.events import AnyEvent
from wfrun.runners.run.directory.run_directory import RunDir, await_start, is_driven
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.log_errors import replay


class Collector(Protocol):
    """Collects facts about the events of a log."""

    def passed(self, events: Iterator[AnyEvent]) -> Iterator[AnyEvent]:
        """Yield the events unchanged, and collect facts about them. The caller interprets each
        event before it requests the next event, so that the state includes an event once its
        ``yield`` returns."""


C = TypeVar("C", bound=Collector)


def collect(run: RunDir, collector_of: Callable[[RunState], C]) -> tuple[RunState, C, bool]:
    """Read the log of a run, which an engine may be writing. Returns the state of the run, the
    collector that ``collector_of`` made, and whether an engine drove the run when reading began.
    Raises what ``await_start`` and ``Store`` raise."""
    await_start(run)
    driven = is_driven(run)
    store = Store(run.path)
    try:
        core = Core(store.workflows())
        collector = collector_of(core.state)
        replay(core, collector.passed(store.load()), store.path)
    finally:
        store.close()
    return core.state, collector, driven
