"""What a workload of bags is: who submits which bag of tasks when and to which cluster."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubmittedBag:
    """One bag of independent sequential tasks, as it is submitted."""

    arrival_s: float
    """Since the start of the workload; bags are in this order."""
    cluster: int
    """Where it is submitted: an index into the workload's clusters."""
    user: str
    application: str
    """One of its user's; no two users have one of the same name."""
    runtime_s: array[float]
    """Of each task on the reference processor, at least 1 s."""
    estimate_s: array[float]
    """What the user says of each. Where estimates are accurate it is ``runtime_s`` itself."""

    def __len__(self) -> int:
        return len(self.runtime_s)


@dataclass(frozen=True, slots=True)
class BotWorkload:
    """Bags in order of arrival, that is of submission."""

    source: str
    """Row of the model, or the log that they were read from."""
    clusters: tuple[str, ...]
    bags: tuple[SubmittedBag, ...]
    capacity: float
    """Slots times speed, summed over the clusters; 0: not known (some logs)."""
    span_s: float
    """From the first to the last arrival; for bags that arrive at once, what the load was reckoned
    with."""
    midnight_s: float = 0.0
    """At arrival 0 it was so long after a midnight, in the clusters' time."""
    pace: float = 1.0
    """Times between arrivals have been multiplied by this since then, to get a load. 0: arrivals
    have been moved, and say nothing about the time of day."""
    remarks: tuple[str, ...] = ()
    """What was left out or cut, with counts."""

    @property
    def tasks(self) -> int:
        return sum(map(len, self.bags))

    @property
    def work_s(self) -> float:
        """Seconds that all tasks take on one reference processor."""
        return sum(sum(bag.runtime_s) for bag in self.bags)

    @property
    def load(self) -> float:
        """Work over what the clusters can do in the span. 0 where the capacity is not known."""
        possible_s = self.capacity * self.span_s
        return self.work_s / possible_s if possible_s > 0 else 0.0

    def of_cluster(self, cluster: int) -> Iterator[SubmittedBag]:
        """The bags submitted there."""
        return (bag for bag in self.bags if bag.cluster == cluster)
