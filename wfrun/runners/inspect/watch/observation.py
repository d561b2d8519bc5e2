"""The data of the views of ``wfrun watch``: the state of a run at one look at its log, and the
rates of its links, from copies that ended lately."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wfrun.engine.core.state import RunState
from wfrun.engine.events import AnyEvent, TransferEnded
from wfrun.engine.explain.time_left import TimeLeft
from wfrun.runners.display.eta import Eta
from wfrun.runners.display.rate import Rate
from wfrun.runners.inspect.events.event_lines import event_line
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.directory.simulated import SIMULATED_ID

WINDOW_S = 60.0
"""Length of the window over which rates are averaged, in seconds."""

Link = tuple[int, int]
"""Source and destination."""


class LinkRate(NamedTuple):
    """Copies over a link in the last `WINDOW_S` seconds: number of files, and rate in bytes per
    second."""

    files: int
    bytes_per_s: float


class LinkRates:
    """The copies of the last `WINDOW_S` seconds by link. If a copy began before the window, only
    its bytes within the window count."""

    def __init__(self) -> None:
        self._copies: defaultdict[Link, deque[TransferEnded]] = defaultdict(deque)

    def observe(self, events: Iterable[AnyEvent]) -> None:
        """Add the copies among these events."""
        for event in events:
            if isinstance(event, TransferEnded):
                self._copies[event.source, event.destination].append(event)

    def at(self, now_s: float) -> dict[Link, LinkRate]:
        """The rate of each link on which copies ended in the window. Forgets earlier copies."""
        begin_s = now_s - WINDOW_S
        for copies in self._copies.values():
            while copies and copies[0].at_s < begin_s:
                copies.popleft()
        return {
            link: LinkRate(len(copies), sum(_moved(c, begin_s) for c in copies) / WINDOW_S)
            for link, copies in self._copies.items()
            if copies
        }


def _moved(copy: TransferEnded, begin_s: float) -> float:
    """Bytes of a copy that were moved since ``begin_s``, assuming a constant rate."""
    size = copy.size_bytes if copy.sent_bytes is None else copy.sent_bytes
    if copy.elapsed_s <= 0:
        return size
    return size * min(1.0, (copy.at_s - begin_s) / copy.elapsed_s)


MAX_EVENTS = 1000
"""Maximum number of events that are kept as lines."""


class RunObservation(NamedTuple):
    """A run at one look at its log."""

    state: RunState
    title: str
    now_s: float
    """Time of the look; if nothing drives the run, the time of its last event."""
    is_driven: bool
    tasks_per_s: float
    left: TimeLeft | None
    """Time until the run ends; None: unknown, or nothing drives it."""
    links: Mapping[Link, LinkRate]
    events: tuple[str, ...]
    """The last events, as lines."""


class RunObserver:
    """Reads the log of a run repeatedly. The cost of a look is proportional to the number of new
    events."""

    def __init__(self, followed: FollowedRun) -> None:
        self._followed = followed
        self._rate = Rate()
        self._eta = Eta(followed.state)
        self._links = LinkRates()
        recent = followed.recent(MAX_EVENTS)
        self._links.observe(recent)
        lines = (event_line(followed.state, event) for event in recent)
        self._events = deque(lines, maxlen=MAX_EVENTS)

    @property
    def run(self) -> RunDir:
        """The run that is observed."""
        return self._followed.run

    def look(self) -> RunObservation:
        """Read what is new. Raises the errors of ``Store``."""
        events = self._followed.update()
        state, is_driven = self._followed.state, self._followed.is_driven
        self._links.observe(events)
        self._events.extend(event_line(state, event) for event in events[-MAX_EVENTS:])
        tasks_per_s = self._rate.update(state.done)
        is_live = is_driven and state.ended is None and state.run_id != SIMULATED_ID
        now_s = time.time() if is_live else state.end_s
        left = self._eta.at(now_s) if is_live else None
        return RunObservation(
            state, self._followed.run.name, now_s, is_driven, tasks_per_s, left,
            self._links.at(now_s), tuple(self._events),
        )  # fmt: skip
