"""Displays of a running run without a terminal: plain lines, or events as JSON."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

import msgspec

from wfrun.engine.core.state import Phase, RunState
from wfrun.engine.events import SCHEMA_VERSION, Event
from wfrun.engine.explain.idleness import Idleness, explain_idleness
from wfrun.engine.explain.visible import message_block, name_line
from wfrun.runners.display.ascii_json import as_ascii
from wfrun.runners.display.counts import progress_line
from wfrun.runners.display.durations import duration, task_rate
from wfrun.runners.display.eta import Eta
from wfrun.runners.display.rate import Rate
from wfrun.runners.inspect.failures.failures import nothing_succeeds
from wfrun.runners.inspect.tables.idle_sites import grouped
from wfrun.runners.inspect.tables.report import MAX_FALLBACK
from wfrun.runners.inspect.tables.running import running_tasks

LINE_EVERY_S = 10.0
"""Interval between two lines of the plain display, in seconds."""
LOOK_EVERY_S = 1.0
"""Interval between checks for sites that take no work, in seconds."""
LOOKS = 3
"""Number of successive checks that must find a site idle for the same kind of reason before the
reason is printed. Short idle times between two tasks are therefore not reported."""
_AT_ONCE = ("paused", "limit")
"""Kinds of reasons that a site reports itself. They are printed at the first check, because they do
not pass with the next task."""
_BESIDE_WORK = (*_AT_ONCE, "storage")
"""Kinds of reasons that are printed even for a site that runs tasks."""
MAX_REASONS = 4
"""Maximum number of reasons on a periodic line."""
MAX_REASON = 300
"""Maximum number of characters of a reason on a periodic line."""


class LineProgress:
    """The display without a terminal: a line every `LINE_EVERY_S`, and a line when there is a new
    reason why a site takes no work."""

    def __init__(self, state: RunState, title: str) -> None:
        self._state = state
        self._title = title
        self._rate = Rate()
        self._eta = Eta(state)
        self._looks: list[tuple[Idleness | None, int]] = []
        """By site: the reason why it runs nothing, and the number of successive checks that found
        this kind of reason."""
        self._printed: dict[int, str] = {}
        """The reasons that were printed, by site."""
        self._fallbacks = 0
        """Number of lines printed about transfer methods that failed."""

    async def show(self) -> None:
        """Print lines until cancelled."""
        self._rate.update(self._state.done)
        next_s = time.monotonic() + LINE_EVERY_S
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self._look()
            if time.monotonic() >= next_s:
                next_s += LINE_EVERY_S
                _print(self.line())
                hopeless = nothing_succeeds(self._state, self._title)
                if hopeless is not None:
                    _print(hopeless)

    def line(self) -> str:
        """The numbers of the run, the reasons why sites have free cores, and the oldest task."""
        state, now_s = self._state, time.time()
        rate = self._rate.update(state.done)
        parts = [f"{self._title}: {progress_line(state)}"]
        if state.done < state.tasks:  # else it fetches outputs
            parts[0] += f", {task_rate(rate)}"
        left = self._eta.text(now_s)
        if left:
            parts[0] += f", {left}"
        reasons = grouped(state, explain_idleness(state))
        parts += [name_line(found.line(now_s), MAX_REASON) for found in reasons[:MAX_REASONS]]
        if len(reasons) > MAX_REASONS:
            count = sum(len(found.sites) for found in reasons[MAX_REASONS:])
            parts.append(f"{count} more sites with free cores")
        for task in running_tasks(state, now_s, 1):
            at = f"{task.site}, {task.host}" if task.host else task.site
            expected = (
                "" if task.expected_s is None else f" of {duration(task.expected_s)} expected"
            )
            parts.append(f"oldest: {task.title} at {at} for {duration(task.elapsed_s)}{expected}")
        return "; ".join(parts)

    def _look(self) -> None:
        """Print new reasons why sites take no work, and new failures of transfer methods, each
        once."""
        state = self._state
        if len(self._looks) < len(state.sites):  # they are known once the run has started
            self._looks = [(None, 0)] * len(state.sites)
        new = [
            self._new_reason(index, reason) for index, reason in enumerate(explain_idleness(state))
        ]
        now_s = time.time()
        for found in grouped(state, new):
            name = "site" if len(found.sites) == 1 else "sites"
            _print(message_block(f"{name} {found.line(now_s)}"))
        for line in state.fallbacks[self._fallbacks :]:
            _print(name_line(line, MAX_FALLBACK))
        self._fallbacks = len(state.fallbacks)

    def _new_reason(self, index: int, reason: Idleness | None) -> Idleness | None:
        """The reason to print for a site. None: the site works, or the reason was printed already
        or has not yet been found `LOOKS` times."""
        site = self._state.sites[index]
        if reason is not None and reason.kind not in _BESIDE_WORK and site.phases[Phase.RUNNING]:
            reason = None
        before, looks = self._looks[index]
        same = reason is not None and before is not None and before.kind == reason.kind
        looks = looks + 1 if same else 1
        self._looks[index] = reason, looks
        if reason is None:
            self._printed.pop(index, None)
            return None
        # The text of others changes with every task.
        shown = reason.text if reason.kind == "paused" else reason.kind
        is_due = reason.kind in _AT_ONCE or looks >= LOOKS
        if not is_due or self._printed.get(index) == shown:
            return None
        self._printed[index] = shown
        return reason


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class JsonEvents:
    """An observer that prints every event as a line of JSON, with its sequence number."""

    def __init__(self, first_seq: int) -> None:
        self._seq = first_seq

    def __call__(self, events: Sequence[Event]) -> None:
        lines = []
        for event in events:
            lines.append(_encoded(self._seq, event))
            self._seq += 1
        sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
        sys.stdout.buffer.flush()


def event_record(seq: int, event: Event) -> str:
    """An event with its sequence number as JSON."""
    return _encoded(seq, event).decode()


def _encoded(seq: int, event: Event) -> bytes:
    record = {"seq": seq, "version": SCHEMA_VERSION, **msgspec.to_builtins(event)}
    return as_ascii(msgspec.json.encode(record))
