"""Reads the observations for the history from the logs of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.errors import InvalidError
from wfrun.runners.run.directory.run_directory import RunDir, never_started
from wfrun.runners.run.history.runtime_history import Harvest, harvest_of
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.log_errors import replay


def harvest_of_run(run: RunDir, *, emulated: bool) -> Harvest:
    """Replay the log of a run, and return its observations for the history, whether or not the run
    used a history. Raises the errors of `Store`, InvalidError for a run that was never started, and
    InvalidError for an emulated run unless ``emulated``.

    Cost: that of a replay of the whole log.
    """
    store = Store(run.path)
    try:
        core = Core(store.workflows())
        replay(core, _with_history(store.load()), store.path)
    finally:
        store.close()
    if not core.state.run_id:
        raise never_started(run.path)
    if core.state.settings.emulate and not emulated:
        raise made_up(run, "emulated")
    return harvest_of(core.state)


def made_up(run: RunDir, how: str) -> InvalidError:
    """The error for an emulated or simulated run, whose times are not those of its sites."""
    return InvalidError(
        f"the run {run.name} was {how}: its times are not those of the sites",
        source=str(run.path),
        hint="name a file that keeps them: --history FILE",
    )


def _with_history(events: Iterable[ev.AnyEvent]) -> Iterator[ev.AnyEvent]:
    """The events of a log, with an event that an empty history was read inserted after the start.
    Without such an event a run collects no observations."""
    for event in events:
        yield event
        if isinstance(event, ev.RunStarted):
            yield ev.HistoryRead(event.at_s, "", (), {})
