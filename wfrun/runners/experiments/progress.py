"""The progress of an experiment, and an estimate of the time left."""

from __future__ import annotations

import time

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from wfrun.runners.display.console import make_console
from wfrun.runners.display.durations import duration

LINE_EVERY_S = 10.0
"""Interval of lines of progress, if stderr is not a terminal."""


class ExperimentProgress:
    """Shows progress on stderr: a bar on a terminal, otherwise a line at intervals, both with an
    estimate of the time left."""

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
        self._shown_s = self._begun_s = time.monotonic()
        self._done_before: int | None = None
        """Number of runs done by earlier commands."""

    def __enter__(self) -> ExperimentProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """Show that ``done`` of the ``total`` runs are simulated."""
        self._bar.start()
        if self._done_before is None:
            self._done_before, self._begun_s = done, time.monotonic()
        self._bar.update(self._task, completed=done, total=total)
        if self._lines and time.monotonic() - self._shown_s > LINE_EVERY_S:
            self._shown_s = time.monotonic()
            line = f"{done} of {total} simulated runs are done"
            new = done - self._done_before
            if new:
                left_s = (self._shown_s - self._begun_s) / new * (total - done)
                line += f", about {duration(left_s)} left"
            click.echo(line, err=True)
