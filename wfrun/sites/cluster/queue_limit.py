"""The limit on our jobs in a queue, learned from its refusals."""

from __future__ import annotations

PROBE_S = 300.0
"""Time after a refusal in which the learned limit is not exceeded again."""
PROBES = 4
"""A probe exceeds the limit by 1/PROBES, and by at least one job."""
CONTRADICTIONS = 3
"""Number of consecutive refusals, at a number of jobs that was accepted before, after which the
limit counts as lowered. Fewer refusals prove nothing: the batch system may still count jobs whose
ends are known here."""


class QueueLimit:
    """The largest number of our jobs that the queue has held, and the smallest that it has refused.
    Bisection finds the limit between them. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._accepted = 0
        self._refused: int | None = None
        """Smallest refused number of our jobs; None: no number was refused, or the refused number
        has been accepted since."""
        self._refused_s = 0.0
        self._contradictions = 0

    @property
    def known(self) -> int | None:
        """The limit; None: there is none, or it is not learned yet, or the queue accepted no job at
        all."""
        if self._refused is None or self._refused > self._accepted + 1:
            return None
        return self._accepted or None

    def bound(self, now_s: float) -> int | None:
        """Maximum number of our jobs in the queue after the next submission; None: no limit. At
        least 1, since other users' jobs may have filled the queue when it refused ours."""
        if self._refused is None:
            return None
        if self.known is None:
            return max(1, (self._accepted + self._refused) // 2)
        probes = now_s >= self._refused_s + PROBE_S
        return max(1, self._accepted + (max(1, self._accepted // PROBES) if probes else 0))

    def accept(self, in_queue: int) -> None:
        """Record that the queue holds ``in_queue`` jobs of ours."""
        self._contradictions = 0
        self._accepted = max(self._accepted, in_queue)
        if self._refused is not None and self._accepted >= self._refused:
            self._refused = None

    def refuse(self, in_queue: int, asked: int, now_s: float) -> None:
        """Record that the queue, holding ``in_queue`` jobs of ours, refused ``asked`` more."""
        self._refused_s = now_s
        total = in_queue + asked
        if total <= self._accepted:
            self._contradictions += 1
            if self._contradictions < CONTRADICTIONS:
                return
            self._accepted = in_queue
            self._refused = total
        self._contradictions = 0
        self._refused = total if self._refused is None else min(self._refused, total)
