"""Workloads of bags of tasks: who submits which bag when and to which cluster."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SubmittedBag:
    """One bag of independent sequential tasks, with its arrival and its user."""

    arrival_s: float
    """Seconds from the start of the workload to the arrival of the bag. A workload lists its bags
    in this order."""
    cluster: int
    """The cluster of arrival: an index into the workload's clusters."""
    user: str
    application: str
    """The application. Names are unique over all users."""
    runtime_s: array[float]
    """The run time of each task on the reference processor, at least 1 s."""
    estimate_s: array[float]
    """The user's estimate of each run time, in seconds. For accurate estimates it is the array
    ``runtime_s`` itself."""
    delay_s: array[float] | None = None
    """Seconds from the arrival to the submission of each task, in ascending order, the first 0.
    None: all tasks are submitted at the arrival."""

    def __len__(self) -> int:
        return len(self.runtime_s)


class Submitted(NamedTuple):
    """Tasks of one bag that are submitted at the same time."""

    at_s: float
    bag: int
    """Index into the bags of the workload."""
    tasks: range


@dataclass(frozen=True, slots=True)
class BotWorkload:
    """A workload of bags of tasks, in order of arrival, at several clusters."""

    source: str
    """The row of the model that the workload was drawn from, or the path of the log that it was
    read from."""
    clusters: tuple[str, ...]
    bags: tuple[SubmittedBag, ...]
    capacity: float
    """Slots times speed, summed over the clusters; 0 if unknown, as for some logs."""
    span_s: float
    """Seconds from the first to the last arrival. If all bags arrive at once, it is the span to
    which the load refers."""
    midnight_s: float = 0.0
    """Seconds from a midnight, in the local time of the clusters, to time 0 of the arrivals."""
    pace: float = 1.0
    """The factor by which the times between arrivals were multiplied to get a load. 0 if the
    pattern of arrivals was replaced, so that arrivals have no time of day."""
    remarks: tuple[str, ...] = ()
    """Messages on jobs and tasks that were dropped or cut, with their counts."""

    @property
    def tasks(self) -> int:
        return sum(map(len, self.bags))

    @property
    def work_s(self) -> float:
        """Seconds that all tasks take on one reference processor."""
        return sum(sum(bag.runtime_s) for bag in self.bags)

    @property
    def load(self) -> float:
        """Work relative to the capacity of the clusters in the span; 0 if the capacity is
        unknown."""
        possible_s = self.capacity * self.span_s
        return self.work_s / possible_s if possible_s > 0 else 0.0

    def submissions(self) -> list[Submitted]:
        """All submissions in order of time. Tasks of a bag that are submitted at the same time are
        one submission."""
        found = []
        for number, bag in enumerate(self.bags):
            if bag.delay_s is None:
                found.append(Submitted(bag.arrival_s, number, range(len(bag))))
                continue
            first = 0
            for delay_s, together in groupby(bag.delay_s):
                last = first + sum(1 for _ in together)
                found.append(Submitted(bag.arrival_s + delay_s, number, range(first, last)))
                first = last
        found.sort(key=lambda submitted: submitted.at_s)  # stable: bags keep their order
        return found

    def of_cluster(self, cluster: int) -> Iterator[SubmittedBag]:
        """The bags that arrive at a cluster."""
        return (bag for bag in self.bags if bag.cluster == cluster)
