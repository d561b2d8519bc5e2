"""All that is known of the attempts of a cluster: to be submitted, in the queue, running, ended."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wfrun.engine.events import AttemptStarted, Event, RecordedEnd
from wfrun.engine.exchange import AttemptRequest, Outcome

MAX_RECORDS = 5_000_000
"""Maximum number of ended attempts that are kept in memory: more than the largest runs have."""
MAX_KEY_LENGTH = 200


class ExitRecord(msgspec.Struct):
    """What a job has recorded of the end of an attempt."""

    key: str
    outcome: Outcome
    doubt: str = ""
    """Why the batch system may have cut it; see ``job.py``."""


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
        """What is to be submitted; None if it is on its way into the queue, or was there."""
        self.submitted_s: float | None = None
        """Monotonic time at which the batch system accepted it; None if it has not."""
        self.submitted_at_s: float | None = None
        """The same by the clock of events; None if an earlier engine submitted it."""
        self.started = False
        self.has_begun = False
        """Whether its claim was seen. The queue may show a job as started that never claims."""
        self.begin_deadline_s = 0.0
        """Time by which a job that the queue shows as running must have begun; 0: none."""
        self.cancelled_s: float | None = None
        """Time of the last cancellation of its job; None: none."""
        self.absences = 0
        """Number of consecutive queue listings without it."""
        self.left_queue_s: float | None = None
        """Time since which it is known to have left the queue; None: it has not."""
        self.refusal: str | None = None
        """Why the batch system will never start the job, by its last listing of the queue; None if
        it does not say so."""
        self.record: Outcome | None = None
        """Exit record whose cause the batch system has to explain or to confirm."""
        self.doubt = ""
        """Why the batch system may have ended the task, although its record says that it ended by
        itself."""


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
        """Take an attempt that is to be submitted; one that is known is not submitted again."""
        outcome = self.ended.get(request.key)
        if outcome is not None:
            self.post(RecordedEnd(self.clock(), request.key, outcome))
        elif request.key not in self.open:
            self.open[request.key] = OpenAttempt(request)

    def adopt(self, key: str) -> tuple[OpenAttempt, ExitRecord | None]:
        """Take over an attempt that an earlier engine has submitted. Returns it, and its exit
        record if the batch system has to confirm that, else None."""
        attempt = self.open[key] = OpenAttempt()
        return attempt, self._earlier.pop(key, None)

    def keep(self, record: ExitRecord) -> None:
        """Keep the record of an attempt that is not open: an earlier engine submitted the attempt,
        and this one may ask for it; or the site has made up the record."""
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
        """Post the start of an attempt: at ``started_s`` by our clock, or now if that is unknown;
        on the node ``host``, empty if unknown."""
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
