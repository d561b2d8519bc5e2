"""Drives a run in the foreground of a terminal: shows it, handles Ctrl-C, prints the summary, and
gives the exit status."""

from __future__ import annotations

import asyncio
import signal

import click
from rich.console import Console

from wfrun.engine.core.state import RunState
from wfrun.engine.explain.visible import command_line
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.runners.cli.exit_statuses import DONE, FAILED, INTERRUPTED, SITE
from wfrun.runners.display.console import make_console
from wfrun.runners.inspect.live import progress
from wfrun.runners.inspect.live.live import LiveProgress
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.run.session import Session

_NOTES = {
    1: "no further task is started; running tasks end. Ctrl-C again ends them now.",
    2: "running tasks are being ended. Ctrl-C again leaves at once.",
    3: "leaving: running tasks continue, and wfrun resume finds them.",
}
"""Messages after the first, second and third Ctrl-C."""
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def drive(session: Session, *, as_json: bool, quiet: bool) -> int:
    """Drive a run to its end with a display. Returns the exit status."""
    console = make_console(stderr=True)
    if as_json:
        session.observers.append(progress.JsonEvents(session.logged))
    if not quiet and not as_json:
        console.print(f"run {session.run.path}")
        if session.clusters:
            console.print(f"connecting to {', '.join(session.clusters)}")
    # Signals wait until the session handles them: an interrupt while the event loop is made would
    # leave half of it, which writes a traceback when it is freed.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        state = asyncio.run(_drive(session, console, quiet=quiet))
    except BrokenPipeError:  # the reader of --json is gone, as after `| head`
        command = command_line("wfrun", "resume", session.run.path)
        click.echo(f"the reader of the events is gone; to continue: {command}", err=True)
        raise
    except PolicyError as error:
        command = command_line("wfrun", "resume", session.run.path)
        click.echo(f"wfrun: {error}\nto continue: {command}", err=True)
        return SITE
    finally:
        # A further Ctrl-C must neither cut the summary nor kill the interpreter during its exit.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    return _report(session, state, make_console(stderr=as_json))


async def _drive(session: Session, console: Console, *, quiet: bool) -> RunState:
    display: LiveProgress | progress.LineProgress
    if console.is_terminal and not console.is_dumb_terminal:
        display = LiveProgress(console, session.state, session.run.name)
    else:
        display = progress.LineProgress(session.state, session.run.name)

    def on_interrupt(times: int) -> None:
        note = _NOTES[min(times, 3)]
        if isinstance(display, LiveProgress):
            display.note = note
        else:
            click.echo(note, err=True)

    async def show() -> None:
        await session.opened.wait()  # a login may use the terminal until then
        await display.show()

    session.listen_to_signals(on_interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    shown = None if quiet else asyncio.create_task(show())
    try:
        return await session.drive()
    finally:
        if shown is not None:
            shown.cancel()
            await asyncio.gather(shown, return_exceptions=True)


def _report(session: Session, state: RunState, console: Console) -> int:
    """Print the summary of a run. Returns the exit status."""
    console.print(summary(state))
    if state.ended == "done":
        if any(w.to_collect for w in state.workflows):
            console.print(f"outputs: {session.run.outputs}", soft_wrap=True)
        return DONE
    command = command_line("wfrun", "resume", session.run.path)
    console.print(f"to continue: {command}", soft_wrap=True)
    if state.ended == "cancelled":
        return INTERRUPTED
    return SITE if state.end_reason else FAILED
