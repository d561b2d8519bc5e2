"""The size of a moldable job: the number of processors with the earliest estimated completion.

Source: RR-7365, section 3.2.1. The size is chosen each time that a job is submitted, for the
current queue: fewer processors take longer, but may be free sooner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.jobs.moldable.run_times import MoldableRunTimes


class Estimator(Protocol):
    """Estimates completions in the queue of one site."""

    def completion_s(self, size: int, runtime_s: float) -> float:
        """The estimated completion of a job of this size that is submitted now and takes
        ``runtime_s`` seconds on a processor of speed 1; infinite if it cannot be estimated."""


class Sized(NamedTuple):
    """The size that a search has chosen, with its estimate."""

    size: int
    runtime_s: float
    """Run time in seconds on processors of speed 1."""
    completion_s: float
    estimates: int
    """Number of estimates that the search needed."""


Sizing: TypeAlias = Callable[[MoldableRunTimes, Estimator, int], Sized]
"""A search for the size of a job. Arguments: run times of the job, estimator of the site, largest
size that the site admits. Raises InfeasibleError if the site admits no size of the job."""


def exhaustive_search(runtimes: MoldableRunTimes, estimator: Estimator, largest: int) -> Sized:
    """Estimate all sizes and return the best; of equally good sizes the smallest, which is the most
    efficient."""
    search = _Search(runtimes, estimator, largest)
    for index in range(search.count):
        search.estimate(index)
    return search.best


def binary_search(runtimes: MoldableRunTimes, estimator: Estimator, largest: int) -> Sized:
    """Return the best of the sizes that a binary search estimates. Of n > 1 sizes it estimates at
    most 2 + ⌈log2(n - 1)⌉.

    The search estimates the smallest and the largest size, then repeatedly the middle of the
    interval, and goes on in the half with the better end. With backfilling the completion may have
    several minima, of which the search finds one (Fig. 1 of the paper).
    """
    search = _Search(runtimes, estimator, largest)
    low, high = 0, search.count - 1
    low_s = search.estimate(low)
    high_s = low_s if high == low else search.estimate(high)
    while high - low > 1:
        middle = (low + high) // 2
        middle_s = search.estimate(middle)
        if low_s <= high_s:
            high, high_s = middle, middle_s
        else:
            low, low_s = middle, middle_s
    return search.best


SIZINGS: dict[str, Sizing] = {"binary": binary_search, "exhaustive": exhaustive_search}
"""Searches by name, as in ``wfrun jobs --size``."""


class _Search:
    """The sizes that a site admits, and the best one so far."""

    def __init__(self, runtimes: MoldableRunTimes, estimator: Estimator, largest: int) -> None:
        self._runtimes = runtimes
        self._estimator = estimator
        self._sizes = _admitted(runtimes.sizes, largest)
        self.count = len(self._sizes)
        self._best: tuple[float, int, float] | None = None
        self._estimates = 0

    def estimate(self, index: int) -> float:
        size = self._sizes[index]
        runtime_s = self._runtimes.runtime_s(size)
        completion_s = self._estimator.completion_s(size, runtime_s)
        self._estimates += 1
        found = completion_s, size, runtime_s
        if self._best is None or found < self._best:
            self._best = found
        return completion_s

    @property
    def best(self) -> Sized:
        assert self._best is not None, "every search estimates the smallest size"
        completion_s, size, runtime_s = self._best
        return Sized(size, runtime_s, completion_s, self._estimates)


def _admitted(sizes: Sequence[int], largest: int) -> Sequence[int]:
    """The sizes of at most ``largest`` processors. Raises InfeasibleError if there is none."""
    if sizes[-1] <= largest:
        return sizes
    admitted = sizes[: bisect_right(sizes, largest)]
    if not admitted:
        raise InfeasibleError(
            f"a job needs at least {sizes[0]} processors, the site admits {largest}",
            hint="offer it smaller sizes, or a larger site",
        )
    return admitted
