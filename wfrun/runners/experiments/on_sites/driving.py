"""Drives a run of simulations in the foreground: collects rows, reports sites that cannot run
simulations, handles Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError
from wfrun.engine.explain.visible import command_line, message_block
from wfrun.engine.model import Catalog
from wfrun.runners.experiments.on_sites.bag_run import BagRun
from wfrun.runners.experiments.on_sites.collector import RowCollector
from wfrun.runners.experiments.on_sites.sites import refusal
from wfrun.runners.run.session import Session

_NOTES = {
    1: "no further simulations are started; running ones end. Ctrl-C again ends them now.",
    2: "running simulations are being ended. Ctrl-C again leaves at once.",
    3: "leaving: running simulations continue, and the same command finds them.",
}
"""Messages after the first, second and third Ctrl-C."""
_STOPPING = (signal.SIGINT, signal.SIGTERM)


class _Watch:
    """Observes a run: collects its rows after each commit, and cancels the run when a simulation
    fails."""

    def __init__(
        self, session: Session, bag: BagRun, collector: RowCollector[Any, Any], catalog: Catalog
    ) -> None:
        self._session, self._bag, self._collector = session, bag, collector
        self._catalog = catalog
        self._seen: set[str] = set()
        """Keys of the failed attempts that were examined."""
        self.refusals: dict[str, str] = {}
        """Messages for the sites that cannot run the simulations, by name of the site."""

    def after_commit(self, events: Sequence[ev.Event]) -> None:
        if any(isinstance(event, (ev.TransferEnded, ev.RunEnded)) for event in events):
            self._take()
        if any(isinstance(event, ev.AttemptEnded) for event in events):
            self._look_at_failures()

    def _take(self) -> None:
        """Add new rows. If a simulation has failed, or rows are damaged, cancel the run."""
        if self._collector.error is not None:
            return
        try:
            self._collector.take(self._bag)
        except Exception as error:  # from rows that a site has damaged
            self._collector.error = error
        if self._collector.error is not None:
            self._session.cancel("kill")

    def _look_at_failures(self) -> None:
        for failure in self._session.state.recent_failures:
            if failure.key in self._seen:
                continue
            self._seen.add(failure.key)
            text = refusal(failure, self._catalog)
            if text is not None and failure.site not in self.refusals:
                self.refusals[failure.site] = text
                if len(self.refusals) < len(self._session.state.sites):
                    warning = f"warning: {text}\n  Its simulations go to other sites."
                    click.echo(message_block(warning), err=True)


def drive(
    session: Session, bag: BagRun, collector: RowCollector[Any, Any], catalog: Catalog
) -> None:
    """Drive the run to its end, and add its rows to the results.

    Raises the error of the first simulation that failed, KeyboardInterrupt after an interrupt, and
    InfeasibleError if tasks failed for good.
    """
    watch = _Watch(session, bag, collector, catalog)
    session.observers.append(watch.after_commit)
    with _own_signals():
        state = asyncio.run(_driven(session, collector))
    collector.take(bag)
    if collector.error is not None:
        raise collector.error
    if state.ended == "cancelled":
        raise KeyboardInterrupt
    if state.ended != "done":
        raise _not_done(state, bag, watch.refusals)


def stop(session: Session) -> None:
    """Cancel a run with all its tasks, and wait for its end."""
    session.cancel("kill")
    with _own_signals():
        asyncio.run(_driven(session, None))


async def _driven(session: Session, collector: RowCollector[Any, Any] | None) -> RunState:
    async def show() -> None:
        await session.opened.wait()
        if collector is not None:
            collector.show()

    def on_interrupt(times: int) -> None:
        click.echo(_NOTES[min(times, 3)], err=True)

    session.listen_to_signals(on_interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    shown = asyncio.create_task(show())
    try:
        return await session.drive()
    finally:
        shown.cancel()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Block signals until the session handles them, and restore their earlier handlers
    afterwards."""
    before = {number: signal.getsignal(number) for number in _STOPPING}
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


def _not_done(state: RunState, bag: BagRun, refusals: dict[str, str]) -> InfeasibleError:
    """The error of a run with failed tasks."""
    if refusals and len(refusals) == len(state.sites):
        *_, last_refusal = refusals.values()  # the others have been printed
        return InfeasibleError(last_refusal)
    again = "correct the cause; the same command continues"
    last = state.recent_failures[-1] if state.recent_failures else None
    reason = state.end_reason or (last and f"at {last.site}: {last.message}") or "tasks failed"
    shown = command_line("wfrun", "failures", bag.run.path)
    return InfeasibleError(
        f"simulations could not be done: {reason}", hint=f"`{shown}` shows why; {again}"
    )
