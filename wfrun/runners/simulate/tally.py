"""Counts of attempts while a workload of bags is simulated."""

from __future__ import annotations

from wfrun.engine import events as ev

LATER = 2
"""Times of the last arrival by which done tasks are also counted."""


class AttemptTally:
    """Counts of attempts, and of the time for which they held processors.

    ``until_s`` is the last arrival. Tasks done by then measure the throughput of an architecture
    (thesis section 5.4.5), as do those done by LATER times that. Use is measured up to the last
    arrival, because the sites run empty afterwards.
    """

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.placed = 0
        """Number of attempts, replicas included."""
        self.done_in_time = 0
        """Number of tasks that were done by ``until_s``."""
        self.done_later = 0
        """Number of tasks that were done by LATER times ``until_s``."""
        self.used_s = 0.0
        """Processor seconds of all attempts."""
        self.wasted_s = 0.0
        """Processor seconds of attempts that were not the first of their task to be done."""
        self.used_in_time_s = 0.0
        """Processor seconds up to ``until_s``."""
        self._done: set[str] = set()
        """Done tasks, as the beginning of the keys of their attempts."""

    def ended(self, event: ev.AttemptEnded) -> bool:
        """Count an attempt; returns whether it is the first of its task to be done."""
        outcome = event.outcome
        task = event.key.rpartition(".")[0]
        first = outcome.cause == "done" and task not in self._done
        if first:
            self._done.add(task)
            ended_s = event.at_s if outcome.ended_s is None else outcome.ended_s
            self.done_in_time += ended_s <= self.until_s
            self.done_later += ended_s <= LATER * self.until_s
        if outcome.started_s is not None and outcome.ended_s is not None:
            length_s = outcome.ended_s - outcome.started_s
            self.used_s += length_s
            if not first:
                self.wasted_s += length_s
            in_time_s = min(outcome.ended_s, self.until_s) - outcome.started_s
            self.used_in_time_s += max(0.0, in_time_s)
        return first
