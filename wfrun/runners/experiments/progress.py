"""How far a grid of simulated runs is, and how long it will take."""

from __future__ import annotations

import time

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from wfrun.runners.display.report import duration, make_console

LINE_EVERY_S = 10.0
"""Where there is no terminal, so often a line tells how far a grid is."""


class GridProgress:
    """On stderr: a bar on a terminal, a line now and then elsewhere, both with an estimate of the
    time that is left."""

    def __init__(self, *, quiet: bool) -> None:
        console = make_console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
            speed_estimate_period=600.0,
        )
        self._task = self._bar.add_task("simulating", total=None)
        self._lines = not quiet and not console.is_terminal
        self._told_s = self._begun_s = time.monotonic()
        self._done_before: int | None = None
        """Runs that an earlier command has done."""

    def __enter__(self) -> GridProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """So many of the runs are simulated."""
        if self._done_before is None:
            self._done_before, self._begun_s = done, time.monotonic()
        self._bar.update(self._task, completed=done, total=total)
        if self._lines and time.monotonic() - self._told_s > LINE_EVERY_S:
            self._told_s = time.monotonic()
            line = f"{done} of {total} simulated runs are done"
            new = done - self._done_before
            if new:
                left_s = (self._told_s - self._begun_s) / new * (total - done)
                line += f", about {duration(left_s)} left"
            click.echo(line, err=True)
