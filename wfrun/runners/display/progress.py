"""Displays of a running run: live on a terminal, plain lines elsewhere, or events as JSON."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Sequence

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from wfrun.engine.events import SCHEMA_VERSION, Event
from wfrun.engine.state import RunState
from wfrun.engine.visible import message_block
from wfrun.runners.display.ascii_json import as_ascii
from wfrun.runners.display.console import stderr_above
from wfrun.runners.display.report import (
    SiteTable,
    duration,
    failure_list,
    nothing_succeeds,
    progress_line,
)

REFRESH_S = 0.25
"""Interval between two refreshes of the live display, in seconds."""
LINE_EVERY_S = 10.0
"""Interval between two lines of the plain display, in seconds."""
RATE_WINDOW_S = 20.0
"""Length of the window over which the task rate is averaged, in seconds."""


class Rate:
    """Task rate over a moving window."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, done: int) -> tuple[float, float | None]:
        """Add a sample; returns (tasks per second, seconds per task or None if the rate is 0)."""
        now_s = time.monotonic()
        self._samples.append((now_s, done))
        while now_s - self._samples[0][0] > RATE_WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()
        first_s, first = self._samples[0]
        if done == first or now_s == first_s:
            return 0.0, None
        rate = (done - first) / (now_s - first_s)
        return rate, 1 / rate


class LiveProgress:
    """The display on a terminal: progress bar, sites, task rate, time left, latest failures."""

    def __init__(self, console: Console, state: RunState, title: str) -> None:
        self._console = console
        self._state = state
        self._title = title
        self._rate = Rate()
        self.note = ""
        """A line under the display, for example after a Ctrl-C."""

    async def show(self) -> None:
        """Refresh the display until cancelled, then clear it."""
        live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with live, stderr_above(self._console):
            while True:
                live.update(self.render(), refresh=True)
                await asyncio.sleep(REFRESH_S)

    def render(self) -> RenderableType:
        """The display of the current state."""
        state = self._state
        tasks, settled = state.tasks, state.done + state.failed + state.blocked
        rate, seconds_per_task = self._rate.update(state.done)
        elapsed_s = time.time() - state.started_s if state.started_s else 0.0
        bar = Table.grid(padding=(0, 1))
        for shrinks in (True, True, False, False, False, False):
            bar.add_column(no_wrap=not shrinks)
        left = f"{duration((tasks - settled) * seconds_per_task)} left" if seconds_per_task else ""
        bar.add_row(
            Text(self._title, style="bold", no_wrap=True, overflow="ellipsis"),
            ProgressBar(total=max(1, tasks), completed=settled, width=30),
            Text(f"{settled}/{tasks}"),
            Text(f"{rate:.1f} tasks/s", style="cyan"),
            Text(duration(elapsed_s)),
            Text(left, style="cyan"),
        )
        parts: list[RenderableType] = [
            bar,
            Text(progress_line(state), style="dim"),
            SiteTable(state),
        ]
        if state.recent_failures:
            parts.append(failure_list(state, list(state.recent_failures)[-3:]))
        hopeless = nothing_succeeds(state, self._title)
        if hopeless is not None:
            parts.append(Text(hopeless, style="yellow"))
        if self.note:
            parts.append(Text(self.note, style="yellow"))
        return Group(*parts)


class LineProgress:
    """The display without a terminal: a line every ten seconds, and a line when a site is paused or
    no task succeeds."""

    def __init__(self, state: RunState, title: str) -> None:
        self._state = state
        self._title = title
        self._rate = Rate()
        self._printed: dict[str, str] = {}
        """The printed reasons of paused sites, by site."""

    async def show(self) -> None:
        """Print lines until cancelled."""
        self._rate.update(self._state.done)
        while True:
            await asyncio.sleep(LINE_EVERY_S)
            rate, _ = self._rate.update(self._state.done)
            line = f"{self._title}: {progress_line(self._state)}, {rate:.1f} tasks/s"
            print(line, file=sys.stderr, flush=True)
            hopeless = nothing_succeeds(self._state, self._title)
            if hopeless is not None:
                print(hopeless, file=sys.stderr, flush=True)
            paused = {s.spec.name: s.pause_reason for s in self._state.sites if s.pause_reason}
            for name, reason in paused.items():
                if self._printed.get(name) != reason:
                    text = message_block(f"site {name} is paused: {reason}")
                    print(text, file=sys.stderr, flush=True)
            self._printed = paused


class JsonEvents:
    """An observer that prints every event as a line of JSON, with its sequence number."""

    def __init__(self, first_seq: int) -> None:
        self._seq = first_seq

    def __call__(self, events: Sequence[Event]) -> None:
        lines = []
        for event in events:
            record = {"seq": self._seq, "version": SCHEMA_VERSION, **msgspec.to_builtins(event)}
            lines.append(as_ascii(msgspec.json.encode(record)))
            self._seq += 1
        sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
        sys.stdout.buffer.flush()
