"""The open and the ended attempts of a cluster."""

from __future__ import annotations

from collections.abc import Callable

from wfrun.engine.events import AttemptStarted, Event, RecordedEnd
from wfrun.engine.exchange import Outcome


class OpenAttempt:
    """An attempt whose end has not been posted."""

    __slots__ = (
        "cancelled_s",
        "begin_deadline_s",
        "doubt",
        "has_begun",
        "left_queue_s",
        "absences",
        "record",
        "refusal",
        "started",
        "submitted_at_s",
        "submitted_s",
    )

    def __init__(self) -> None:
        self.submitted_s: float | None = None
        """Monotonic time at which the batch system accepted it; None if it has not."""
        self.submitted_at_s: float | None = None
        """The same by the clock of events; None if an earlier engine submitted it."""
        self.started = False
        self.has_begun = False
        """Its claim was seen at the site. The queue may show a job as started that never claims."""
        self.begin_deadline_s = 0.0
        """Time by which a job that the queue shows as running must have begun; 0: none."""
        self.cancelled_s: float | None = None
        """Time of the last cancellation of its job; None: none."""
        self.absences = 0
        """Number of consecutive queue listings without it."""
        self.left_queue_s: float | None = None
        """Time since which it is known to have left the queue; None: it has not."""
        self.refusal: str | None = None
        """Why the batch system says, in its last listing of the queue, that it will never start the
        job; None: it does not say so."""
        self.record: Outcome | None = None
        """Exit record whose cause the batch system has to explain or to confirm."""
        self.doubt = ""
        """Why the batch system may have cut it, although its record says that it ended by
        itself."""


class Attempts:
    """All attempts of a cluster. Posts each start and each end once. ``on_ended`` is called after
    each end, when the queue may accept another attempt."""

    def __init__(self, clock: Callable[[], float], on_ended: Callable[[], None]) -> None:
        self.open: dict[str, OpenAttempt] = {}
        self.ended: dict[str, Outcome] = {}
        self.post: Callable[[Event], None] = _refuse
        self.clock = clock
        self._on_ended = on_ended

    def in_queue(self) -> int:
        """Number of attempts in the batch system."""
        return sum(1 for attempt in self.open.values() if attempt.submitted_s is not None)

    def start(self, key: str, started_s: float | None = None, host: str = "") -> None:
        """Post the start of an attempt, at ``started_s`` by our clock or at an unknown time, on the
        node ``host`` if that is known."""
        attempt = self.open[key]
        attempt.started = True
        at_s = now_s = self.clock()
        if started_s is not None:
            # The clocks of scheduler and nodes may differ from that of the head node.
            at_s = min(now_s, max(attempt.submitted_at_s or 0.0, started_s))
        self.post(AttemptStarted(at_s, key, host=host))

    def end(self, key: str, outcome: Outcome) -> None:
        """Post the end of an attempt, from its record or the batch system. An attempt that has
        ended keeps its outcome."""
        if self.open.pop(key, None) is not None:
            self.ended[key] = outcome
            self.post(RecordedEnd(self.clock(), key, outcome))
            self._on_ended()


def _refuse(event: Event) -> None:
    raise AssertionError("the site is not open")
