"""State of the attempts at a cluster: to be submitted, in the queue, running, ended."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wfrun.engine.events import AttemptStarted, Event, RecordedEnd
from wfrun.engine.exchange import AttemptRequest, Outcome

MAX_RECORDS = 5_000_000
"""Maximum number of ended attempts that are kept in memory: more than the largest runs have."""
MAX_KEY_LENGTH = 200


class ExitRecord(msgspec.Struct):
    """The exit record that a job leaves at the end of an attempt."""

    key: str
    outcome: Outcome
    doubt: str = ""
    """Why the batch system may have cut the attempt short; empty: no doubt. See ``job.py``."""


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
        "request",
        "started",
        "submitted_at_s",
        "submitted_s",
    )

    def __init__(self, request: AttemptRequest | None = None) -> None:
        self.request = request
        """The request, while it waits to be submitted; else None."""
        self.submitted_s: float | None = None
        """Monotonic time at which the submission was accepted or the attempt adopted; None
        before."""
        self.submitted_at_s: float | None = None
        """Time of the submission command by the clock of events; None if an earlier engine
        submitted the attempt."""
        self.started = False
        self.has_begun = False
        """Whether the attempt's claim was seen. The queue may show a job as started that never
        claims its attempt."""
        self.begin_deadline_s = 0.0
        """Monotonic time by which a job shown as running must have begun; 0: none."""
        self.cancelled_s: float | None = None
        """Monotonic time of the last cancellation of the attempt's job; None: none."""
        self.absences = 0
        """Number of consecutive queue listings without the attempt."""
        self.left_queue_s: float | None = None
        """Monotonic time at which the attempt was found to have left the queue; None before."""
        self.refusal: str | None = None
        """Reason of the batch system, in the last queue listing, why it will never start the job;
        None: it gave none."""
        self.record: Outcome | None = None
        """Outcome in the exit record, while the batch system has to explain or confirm it; else
        None."""
        self.doubt = ""
        """Why the batch system may have ended the task, although the exit record says that the task
        ended by itself."""


class Attempts:
    """All attempts of a cluster. Posts each start and each end once. ``on_ended`` is called after
    each end, when the queue may accept another attempt."""

    def __init__(self, clock: Callable[[], float], on_ended: Callable[[], None]) -> None:
        self.open: dict[str, OpenAttempt] = {}
        self.ended: dict[str, Outcome] = {}
        self._earlier: dict[str, ExitRecord] = {}
        """Records of attempts of an earlier engine that the batch system has to confirm."""
        self.post: Callable[[Event], None] = _refuse
        self.clock = clock
        self._on_ended = on_ended

    def add(self, request: AttemptRequest) -> None:
        """Add an attempt to be submitted. A known attempt is not submitted again; if it has ended,
        its end is posted again."""
        outcome = self.ended.get(request.key)
        if outcome is not None:
            self.post(RecordedEnd(self.clock(), request.key, outcome))
        elif request.key not in self.open:
            self.open[request.key] = OpenAttempt(request)

    def adopt(self, key: str) -> tuple[OpenAttempt, ExitRecord | None]:
        """Take over an attempt that an earlier engine submitted. Returns the attempt, and its exit
        record if the batch system has to confirm the record, else None."""
        attempt = self.open[key] = OpenAttempt()
        return attempt, self._earlier.pop(key, None)

    def keep(self, record: ExitRecord) -> None:
        """Keep the exit record of an attempt that is not open: if an earlier engine submitted the
        attempt, this engine may still look for it. Drops the record if there are MAX_RECORDS
        already, or if its key is longer than MAX_KEY_LENGTH: a site may send invented records."""
        known = len(self.ended) + len(self._earlier)
        if known >= MAX_RECORDS or len(record.key) > MAX_KEY_LENGTH or record.key in self.ended:
            return
        if record.doubt:
            self._earlier[record.key] = record
        else:
            self.ended[record.key] = record.outcome

    def waiting(self) -> list[AttemptRequest]:
        """Attempts to be submitted, in the order in which they were added."""
        return [a.request for a in self.open.values() if a.request is not None]

    def is_waiting(self, key: str) -> bool:
        """Whether an attempt is to be submitted."""
        attempt = self.open.get(key)
        return attempt is not None and attempt.request is not None

    def in_queue(self) -> int:
        """Number of attempts in the batch system."""
        return sum(1 for attempt in self.open.values() if attempt.submitted_s is not None)

    def start(self, key: str, started_s: float | None = None, host: str = "") -> None:
        """Post the start of an attempt on the node ``host`` (empty if unknown). ``started_s`` is by
        our clock; None if unknown: the attempt starts now."""
        attempt = self.open[key]
        attempt.started = True
        at_s = now_s = self.clock()
        if started_s is not None:
            # The clocks of scheduler and nodes may differ from that of the head node.
            at_s = min(now_s, max(attempt.submitted_at_s or 0.0, started_s))
        self.post(AttemptStarted(at_s, key, host=host))

    def end(self, key: str, outcome: Outcome) -> None:
        """Post the end of an attempt. An attempt that has ended already keeps its outcome."""
        if self.open.pop(key, None) is not None:
            self.ended[key] = outcome
            self.post(RecordedEnd(self.clock(), key, outcome))
            self._on_ended()


def _refuse(event: Event) -> None:
    raise AssertionError("the site is not open")
