"""The placement queue: jobs that the idle processors could not hold yet (thesis section 2.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from wfrun.engine.jobs.coallocation.idle import IdleProcessors
from wfrun.engine.jobs.coallocation.node_links import NodeLinks
from wfrun.engine.jobs.coallocation.policies import place
from wfrun.engine.jobs.coallocation.requests import Placement, PlacementRequest

Job = TypeVar("Job", bound=Hashable)
_FIRST = itemgetter(0)
_UNASKED: Placement = ((-1, 0),)
"""Marks a request for which the policy was not called yet."""


class Try(NamedTuple, Generic[Job]):
    """A job that leaves the queue: it is placed or given up."""

    job: Job
    placement: Placement | None
    """None: the job was tried more than ``max_tries`` times, and is given up."""


class PlacementQueue(Generic[Job]):
    """Jobs in the order of their submission. A scan tries the jobs from head to tail, past jobs
    that cannot be placed. Each scan counts as one try of every job. A job is given up after more
    than ``max_tries`` tries, or never if ``max_tries`` is None.

    The thesis sends a job to the tail when a try fails. As each scan tries all jobs, that would not
    change their order, and jobs keep their positions here.

    Cost of a scan: one call of the policy for each different request and each change of the idle
    processors. The other cost is constant for each different request, and, with ``max_tries``, for
    each waiting job.
    """

    def __init__(
        self, policy: str, links: NodeLinks | None = None, max_tries: int | None = None
    ) -> None:
        self.policy = policy
        self.links = links
        self.max_tries = max_tries
        self._jobs: list[Job] = []
        self._numbers: list[int] = []
        """By position: number of the job in the order of all jobs that were ever added."""
        self._number: dict[Job, int] = {}
        self._next = 0
        self._requests: dict[Job, PlacementRequest] = {}
        self._alike: dict[PlacementRequest, dict[int, Job]] = {}
        """By request: its jobs by number, in ascending order of the numbers."""
        self._tries: dict[Job, int] = {}
        """By job: number of tries, without those in ``_tries_of_all``."""
        self._tries_of_all = 0
        self._answers: dict[PlacementRequest, Placement | None] = {}
        """Answers of the policy for the latest version of the idle processors."""
        self._answered_for: tuple[IdleProcessors | None, int] = None, 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def __contains__(self, job: Job) -> bool:
        return job in self._requests

    def tries(self, job: Job) -> int:
        """Number of tries of a waiting job."""
        return self._tries[job] + self._tries_of_all

    def first(self, count: int) -> tuple[Job, ...]:
        """The first ``count`` jobs of the queue."""
        return tuple(self._jobs[:count])

    def request(self, job: Job) -> PlacementRequest:
        """The request of a waiting job."""
        return self._requests[job]

    def add(self, job: Job, request: PlacementRequest, tries: int = 0) -> None:
        """Add a job at the tail. ``tries``: number of earlier tries."""
        number = self._number[job] = self._next
        self._next += 1
        self._jobs.append(job)
        self._numbers.append(number)
        self._alike.setdefault(request, {})[number] = job
        self._requests[job], self._tries[job] = request, tries - self._tries_of_all

    def renew(self, request_of: Callable[[Job], PlacementRequest]) -> None:
        """Replace the request of each waiting job by ``request_of(job)``."""
        self._requests = {job: request_of(job) for job in self._jobs}
        self._alike.clear()
        for number, job in zip(self._numbers, self._jobs, strict=True):
            self._alike.setdefault(self._requests[job], {})[number] = job

    def remove(self, job: Job) -> None:
        """Remove a waiting job."""
        number, request = self._number.pop(job), self._requests.pop(job)
        position = bisect_left(self._numbers, number)
        del self._jobs[position], self._numbers[position], self._tries[job]
        alike = self._alike[request]
        del alike[number]
        if not alike:
            del self._alike[request]

    def find(self, idle: IdleProcessors, start: int = 0) -> tuple[int, Placement] | None:
        """Return the position and the placement of the first job from position ``start`` on that
        can be placed; None if no job can."""
        if start >= len(self._jobs):
            return None
        if self._answered_for[0] is not idle or self._answered_for[1] != idle.version:
            self._answers.clear()
            self._answered_for = idle, idle.version
        begin, answers = self._numbers[start], self._answers
        for number, request in self._firsts(begin):
            found = answers.get(request, _UNASKED)
            if found is _UNASKED:
                found = answers[request] = place(request, idle, self.policy, self.links)
            if found is not None:
                return bisect_left(self._numbers, number), found
        return None

    def _firsts(self, begin: int) -> list[tuple[int, PlacementRequest]]:
        """The first job of each request, from number ``begin`` on, in the order of the queue."""
        found = []
        for request, alike in self._alike.items():
            for number in alike:
                if number >= begin:
                    found.append((number, request))
                    break
        found.sort(key=_FIRST)
        return found

    def count_tries(self, start: int, end: int) -> list[Job]:
        """Count one try of each job from position ``start`` to ``end`` - 1. Removes and returns the
        jobs that now have more than ``max_tries`` tries."""
        tries, limit = self._tries, self.max_tries
        if limit is None and start == 0 and end >= len(self._jobs):
            self._tries_of_all += 1
            return []
        given_up = []
        for job in self._jobs[start:end]:
            tries[job] += 1
            if limit is not None and tries[job] + self._tries_of_all > limit:
                given_up.append(job)
        for job in given_up:
            self.remove(job)
        return given_up

    def scan(self, idle: IdleProcessors) -> Iterator[Try[Job]]:
        """Try all jobs once. Yields the jobs that leave the queue, and takes the processors of
        placed jobs from ``idle``. If a caller stops early, no try of the remaining jobs is
        counted."""
        position = 0
        counted = 0  # The try of each job before this position has been counted.
        try:
            while (found := self.find(idle, position)) is not None:
                end, placement = found
                job, given_up = self._jobs[end], []
                if self.max_tries is not None:
                    given_up = self.count_tries(position, end)
                    counted = end - len(given_up)
                self.remove(job)
                idle.take(placement)
                position = end - len(given_up)
                yield from (Try(each, None) for each in given_up)
                yield Try(job, placement)
            position = len(self._jobs)
        finally:
            # Without a maximum no job is given up: the tries of all are counted here, together.
            given_up = self.count_tries(counted, position)
        yield from (Try(each, None) for each in given_up)
