"""The loop: wait for events, let the core decide, commit, carry out the actions.

event = await clock.next() → log.append → core.step → log.commit → dispatch(actions)

Events that lead to no action are committed a little later, together with others, because a commit
costs a disk write. If the engine dies before this commit, the sites report these events to the next
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.errors import WfrunError
from wfrun.runners.run.clock import Clock

Observer = Callable[[Sequence[ev.Event]], None]
"""Called with every group of events after its commit."""


class EventLog(Protocol):
    """The log of a run."""

    def append(self, events: Sequence[ev.Event]) -> None:
        """Add events to the group that the next commit makes durable."""

    def commit(self) -> None:
        """Write all appended events; returns once they are durable."""


class Dispatch(Protocol):
    """Carries out actions between the entry and the exit of its asynchronous context."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...

    def dispatch(self, action: act.Action) -> None:
        """Start an action; its results are posted as events."""


class Loop:
    """Drives one core with one clock, log and dispatcher, real or simulated."""

    def __init__(
        self,
        core: Core,
        log: EventLog,
        clock: Clock,
        dispatcher: Dispatch,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._core = core
        self._log = log
        self._clock = clock
        self._dispatcher = dispatcher
        self._observers = observers
        self._uncommitted: list[ev.Event] = []
        self._lags = clock.lag_s > 0

    async def run(self) -> None:
        """Drive the run until it has ended. Raises errors of the log, a policy, a site or a
        transfer. The log is then complete up to the error, and running tasks continue at the
        sites."""
        async with self._dispatcher:
            ended = False  # a resumed run may have ended before
            try:
                while not ended:
                    events = await self._clock.next(lags=bool(self._uncommitted))
                    self._turn(events) if events else self._commit()
                    ended = self._core.state.ended is not None
            finally:
                self._commit()

    def _turn(self, events: Sequence[ev.Event]) -> None:
        """Process a group of events: let the core decide, commit events and decisions, dispatch."""
        log: list[ev.Event] = []
        actions: list[act.Action] = []
        step = self._core.step
        rest = iter(events)
        try:
            for event in rest:
                log.append(event)
                decided, wanted = step(event)
                if decided:
                    log += decided
                if wanted:
                    actions += wanted
        except WfrunError:
            # A policy has failed. Facts are facts, and the first ones of a run are what makes it a
            # run: the next engine decides what follows from them.
            self._uncommitted += [*log, *rest]
            raise
        self._uncommitted += log
        if not actions and self._lags:
            return
        self._commit()
        dispatch = self._dispatcher.dispatch
        for action in merged(actions) if len(actions) > 1 else actions:
            dispatch(action)

    def _commit(self) -> None:
        """Commit all events so far, then call the observers."""
        log, self._uncommitted = self._uncommitted, []
        if log:
            self._log.append(log)
            self._log.commit()
            for observer in self._observers:
                observer(log)


def merged(actions: Sequence[act.Action]) -> Sequence[act.Action]:
    """Return the actions with the submissions to each site joined into batches. A cancellation or a
    search at a site ends its batch, so that it stays between the submissions before and after
    it."""
    if len([action for action in actions if isinstance(action, act.SubmitAttempts)]) < 2:
        return actions
    result: list[act.Action] = []
    open_batch: dict[int, int] = {}
    batches: dict[int, list[tuple[str, int, int]]] = {}
    for action in actions:
        if isinstance(action, act.SubmitAttempts):
            position = open_batch.get(action.site)
            if position is None:
                position = open_batch[action.site] = len(result)
                batches[position] = []
                result.append(action)
            batches[position].extend(action.attempts)
            continue
        if isinstance(action, (act.CancelAttempts, act.FindAttempts)):
            open_batch.pop(action.site, None)
        result.append(action)
    for position, attempts in batches.items():
        first = result[position]
        assert isinstance(first, act.SubmitAttempts)
        result[position] = act.SubmitAttempts(first.site, tuple(attempts))
    return result
