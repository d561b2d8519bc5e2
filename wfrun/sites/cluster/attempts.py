"""The attempts of a cluster whose ends are to be posted, and those that have ended."""

from __future__ import annotations

from collections.abc import Callable

from wfrun.engine.events import AttemptEnded, AttemptStarted, Event
from wfrun.engine.exchange import Outcome


class OpenAttempt:
    """An attempt whose end is to be posted."""

    __slots__ = (
        "cancelled_s",
        "doubtful_s",
        "gone_s",
        "missed",
        "record",
        "started",
        "submitted_at_s",
        "submitted_s",
    )

    def __init__(self) -> None:
        self.submitted_s: float | None = None
        """When the batch system took it; None: not yet."""
        self.submitted_at_s: float | None = None
        """Likewise, by the clock of events; None: an engine before this one submitted it."""
        self.started = False
        self.doubtful_s = 0.0
        """When a job that is shown as running ought to have begun; 0: it is not, or has."""
        self.cancelled_s: float | None = None
        """When its job was last told to end."""
        self.missed = 0
        """Answers in a row that showed the queue without it."""
        self.gone_s: float | None = None
        """Since when it is certain that it left the queue."""
        self.record: Outcome | None = None
        """An exit record that does not explain itself."""


class Attempts:
    """Posts each start and each end once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.open: dict[str, OpenAttempt] = {}
        self.ended: dict[str, Outcome] = {}
        self.post: Callable[[Event], None] = _refuse
        self.told: Callable[[], None] = _refuse_call
        """Called after each end, when there may be room for another."""
        self.clock = clock

    def in_queue(self) -> int:
        """How many the batch system has."""
        return sum(1 for attempt in self.open.values() if attempt.submitted_s is not None)

    def start(self, key: str, started_s: float | None = None) -> None:
        """It runs, since ``started_s`` by our clock as far as that of the cluster can be trusted,
        or since an unknown time."""
        attempt = self.open[key]
        attempt.started = True
        at_s = now_s = self.clock()
        if started_s is not None:
            # The clocks of the scheduler and of the nodes may differ from the head node's.
            at_s = min(now_s, max(attempt.submitted_at_s or 0.0, started_s))
        self.post(AttemptStarted(at_s, key))

    def end(self, key: str, outcome: Outcome) -> None:
        """It has ended; one that had ended before stays as it was."""
        if self.open.pop(key, None) is not None:
            self.ended[key] = outcome
            self.post(AttemptEnded(self.clock(), key, outcome))
            self.told()


def _refuse(event: Event) -> None:
    raise AssertionError("the site is not open")


def _refuse_call() -> None:
    raise AssertionError("the site is not open")
