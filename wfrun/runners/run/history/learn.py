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
    """Replay the log of a run, and return its observations for the history. The run itself need not
    have used a history. Raises the errors of `Store`. Raises InvalidError if the run was never
    started, or if it is emulated and ``emulated`` is False.

    Takes the time of a replay of the whole log.
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
    """Yield the events of a log. After the start of the run, insert the event that an empty history
    was read, because a run without this event collects no observations."""
    for event in events:
        yield event
        if isinstance(event, ev.RunStarted):
            yield ev.HistoryRead(event.at_s, "", (), {})
