"""Workloads of bags of tasks: who submits which bag when and to which cluster."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubmittedBag:
    """One bag of independent sequential tasks, as it is submitted."""

    arrival_s: float
    """Seconds since the start of the workload. Bags are in this order."""
    cluster: int
    """The cluster of arrival: an index into the workload's clusters."""
    user: str
    application: str
    """The application. Names are unique over all users."""
    runtime_s: array[float]
    """The run time of each task on the reference processor, at least 1 s."""
    estimate_s: array[float]
    """The user's estimate of each run time. Accurate estimates are ``runtime_s`` itself."""

    def __len__(self) -> int:
        return len(self.runtime_s)


@dataclass(frozen=True, slots=True)
class BotWorkload:
    """Bags in order of arrival."""

    source: str
    """The row of the model, or the log that the bags were read from."""
    clusters: tuple[str, ...]
    bags: tuple[SubmittedBag, ...]
    capacity: float
    """Slots times speed, summed over the clusters; 0: unknown (some logs)."""
    span_s: float
    """Seconds from the first to the last arrival; for bags that arrive at once, the span that the
    load refers to."""
    midnight_s: float = 0.0
    """Seconds between a midnight of the clusters' time and arrival 0."""
    pace: float = 1.0
    """The factor by which times between arrivals were multiplied to get a load. 0: arrivals were
    moved, and have no time of day."""
    remarks: tuple[str, ...] = ()
    """What was dropped or cut, with counts."""

    @property
    def tasks(self) -> int:
        return sum(map(len, self.bags))

    @property
    def work_s(self) -> float:
        """Seconds that all tasks take on one reference processor."""
        return sum(sum(bag.runtime_s) for bag in self.bags)

    @property
    def load(self) -> float:
        """Work relative to the capacity of the clusters in the span. 0 where the capacity is
        unknown."""
        possible_s = self.capacity * self.span_s
        return self.work_s / possible_s if possible_s > 0 else 0.0

    def of_cluster(self, cluster: int) -> Iterator[SubmittedBag]:
        """The bags that arrive at a cluster."""
        return (bag for bag in self.bags if bag.cluster == cluster)
