"""Watching a run: on a terminal by the display, otherwise by plain lines."""

from __future__ import annotations

import asyncio
import os
import sys

from wfrun.runners.display.console import make_console
from wfrun.runners.inspect.live.progress import LineProgress
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.run.directory.run_directory import RunDir, StartingError

LOOK_S = 1.0
"""Interval between two looks at the log without a terminal, in seconds."""


def watch(run: RunDir) -> None:
    """Show a run until the user leaves; without a terminal until no engine drives it. Raises the
    errors of ``FollowedRun``."""
    with _follow(run) as followed:
        if _is_interactive():
            _show(followed)
        else:
            asyncio.run(_print(followed))


def _follow(run: RunDir) -> FollowedRun:
    """Follow a run. Waits until the run has started."""
    is_said = False
    while True:
        try:
            return FollowedRun(run)
        except StartingError as error:
            if not is_said:
                print(error.message, file=sys.stderr, flush=True)
            is_said = True


def _is_interactive() -> bool:
    """Whether the display can be drawn: standard input, output and error are terminals that can be
    controlled."""
    streams = sys.stdin, sys.stdout, sys.stderr
    return all(s.isatty() for s in streams) and os.environ.get("TERM", "dumb") != "dumb"


def _show(followed: FollowedRun) -> None:
    # These take longer to import than all else: only the display needs them.
    from wfrun.runners.inspect.watch.app import WatchApp
    from wfrun.runners.inspect.watch.observation import RunObserver

    error = WatchApp(RunObserver(followed)).run(mouse=False)
    if error is not None:
        raise error


async def _print(followed: FollowedRun) -> None:
    """Print lines as a run without a terminal does, and the summary at its end."""
    lines = LineProgress(followed.state, followed.run.name)
    printing = asyncio.create_task(lines.show())
    try:
        while followed.is_driven:
            await asyncio.sleep(LOOK_S)
            followed.update()
    finally:
        printing.cancel()
    make_console().print(summary(followed.state, driven=False))
