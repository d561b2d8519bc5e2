"""The placement queue: jobs that the idle processors could not hold yet (thesis section 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from wfrun.engine.jobs.coallocation.idle import IdleProcessors
from wfrun.engine.jobs.coallocation.node_links import NodeLinks
from wfrun.engine.jobs.coallocation.policies import place
from wfrun.engine.jobs.coallocation.requests import Placement, PlacementRequest

Job = TypeVar("Job", bound=Hashable)


class Try(NamedTuple, Generic[Job]):
    """The end of a job's wait in the queue."""

    job: Job
    placement: Placement | None
    """None: it was tried too often, and is given up."""


class PlacementQueue(Generic[Job]):
    """Jobs in the order of their submission. A scan tries them from head to tail and does not stop
    at one that cannot be placed. Each scan counts as one try of a job; above ``max_tries`` it is
    given up.

    The thesis sends a job to the tail when a try fails. As a scan tries all jobs, their order stays
    as it is.

    Cost of a scan: constant for each waiting job; the policy is asked once for equal requests and
    the same idle processors.
    """

    def __init__(
        self, policy: str, links: NodeLinks | None = None, max_tries: int | None = None
    ) -> None:
        self.policy = policy
        self.links = links
        self.max_tries = max_tries
        self._jobs: list[Job] = []
        self._requests: dict[Job, PlacementRequest] = {}
        self._tries: dict[Job, int] = {}
        self._answers: dict[PlacementRequest, Placement | None] = {}
        """Answers of the policy for the idle processors that were seen last."""
        self._answered_for: tuple[IdleProcessors | None, int] = None, 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def __contains__(self, job: Job) -> bool:
        return job in self._requests

    def tries(self, job: Job) -> int:
        """Number of tries of a waiting job."""
        return self._tries[job]

    def first(self, count: int) -> tuple[Job, ...]:
        """The first jobs of the queue."""
        return tuple(self._jobs[:count])

    def request(self, job: Job) -> PlacementRequest:
        """The request of a waiting job."""
        return self._requests[job]

    def add(self, job: Job, request: PlacementRequest, tries: int = 0) -> None:
        """Add a job at the tail. ``tries``: those that it had before."""
        self._jobs.append(job)
        self._requests[job], self._tries[job] = request, tries

    def renew(self, request_of: Callable[[Job], PlacementRequest]) -> None:
        """Ask for the requests of all waiting jobs again."""
        self._requests = {job: request_of(job) for job in self._jobs}

    def remove(self, job: Job) -> None:
        """Remove a waiting job."""
        self._jobs.remove(job)
        del self._requests[job], self._tries[job]

    def find(self, idle: IdleProcessors, start: int = 0) -> tuple[int, Placement] | None:
        """The first job from a position on that can be placed: its position and placement. None:
        none can."""
        if self._answered_for[0] is not idle or self._answered_for[1] != idle.version:
            self._answers.clear()
            self._answered_for = idle, idle.version
        answers, requests = self._answers, self._requests
        for position in range(start, len(self._jobs)):
            request = requests[self._jobs[position]]
            try:
                found = answers[request]
            except KeyError:
                found = answers[request] = place(request, idle, self.policy, self.links)
            if found is not None:
                return position, found
        return None

    def count_tries(self, start: int, end: int) -> list[Job]:
        """Count a try of the jobs from position ``start`` to before ``end``. Removes and returns
        those that were tried too often."""
        tries, limit = self._tries, self.max_tries
        given_up = []
        for job in self._jobs[start:end]:
            count = tries[job] = tries[job] + 1
            if limit is not None and count > limit:
                given_up.append(job)
        for job in given_up:
            self.remove(job)
        return given_up

    def scan(self, idle: IdleProcessors) -> Iterator[Try[Job]]:
        """Try all jobs once. Yields those that leave the queue, and takes the processors of placed
        ones from ``idle``. A caller may stop early; the jobs behind count no try then."""
        position = 0
        while (found := self.find(idle, position)) is not None:
            end, placement = found
            job = self._jobs[end]
            given_up = self.count_tries(position, end)
            self.remove(job)
            idle.take(placement)
            position = end - len(given_up)
            yield from (Try(each, None) for each in given_up)
            yield Try(job, placement)
        yield from (Try(each, None) for each in self.count_tries(position, len(self._jobs)))
