"""The linear program whose value is a lower bound of the weighted sum of completions (SPAA 2004,
section 3.3).

Time is divided into intervals (t_j, t_{j+1}] of doubling lengths. A job that ends in an interval
costs its weight times the beginning of the interval. Its work is at least the least work with which
it can be done by the end of the interval. All jobs that end by the end t of an interval have
together at most the work m·t on m processors.

The paper prints (t_0, t_1] as the first interval. But t_0 may be nearly twice the shortest run
time: a job that ends before t_0 then has no interval, and the value may exceed the optimum. The
additional interval (t_0/2, t_0] makes the value a bound, since no job ends before t_0/2. Jobs that
end after the last interval count in it. This keeps the bound: the least work of all jobs together
is at most m·t_K.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wfrun.engine.jobs.packing.demt import batch_lengths
from wfrun.engine.jobs.packing.job import PackedJob


class LinearProgram(NamedTuple):
    """Minimize costs · x for x ≥ 0. The constraints are the rows of two sparse matrices: each row
    of ``cover`` sums to at least 1, and each row of ``areas`` to at most 1."""

    costs: list[float]
    """By variable: its cost."""
    cover: list[list[int]]
    """By job: its variables."""
    areas: list[list[tuple[int, float]]]
    """By interval: each variable of a job that ends by the end of the interval, with the work of
    the job as a share of the maximum work by then."""


def weighted_program(
    jobs: Sequence[PackedJob], processors: int, length_s: float, *, as_printed: bool = False
) -> LinearProgram:
    """The linear program of some jobs. Each job can run on ``processors`` processors. ``length_s``:
    an accepted length of the dual approximation. ``as_printed``: leave out the interval before
    t_0."""
    begins_s = batch_lengths(jobs, length_s)
    if not as_printed:
        begins_s.insert(0, begins_s[0] / 2)
    costs: list[float] = []
    cover: list[list[int]] = [[] for _ in jobs]
    areas: list[list[tuple[int, float]]] = []
    before: list[tuple[int, float]] = []
    """Variables and work of the intervals so far."""
    for begin_s in begins_s:
        limit = processors * 2 * begin_s
        for number, job in enumerate(jobs):
            work = job.least_work(2 * begin_s)
            if work is not None:
                before.append((len(costs), work))
                cover[number].append(len(costs))
                costs.append(job.weight * begin_s)
        areas.append([(variable, work / limit) for variable, work in before])
    return LinearProgram(costs, cover, areas)
