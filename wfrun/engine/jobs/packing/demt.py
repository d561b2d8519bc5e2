"""DEMT: batches of doubling lengths, filled by weight. A compromise between the makespan and
the weighted sum of completion times.

Source: P.-F. Dutot, L. Eyraud, G. Mounié, D. Trystram, *Bi-criteria Algorithm for Scheduling Jobs
on Cluster Platforms*, SPAA 2004, section 3.2. The paper does not say what happens to jobs that no
batch has taken; here they go into further batches of the last length.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2
from random import Random
from typing import NamedTuple

from wfrun.engine.jobs.packing.dual import Dual, knapsack
from wfrun.engine.jobs.packing.job import PackedJob, Packing, list_schedule

SHUFFLES = 10
"""Number of random orders of the batches that are tried in addition to their own order. The paper
says "several times"."""


class PackedBatch(NamedTuple):
    """Jobs that run side by side."""

    length_s: float
    jobs: tuple[int, ...]
    """The jobs in descending order of weight over run time."""


def batch_lengths(jobs: Sequence[PackedJob], length_s: float) -> list[float]:
    """The lengths t_0 to t_K of the batches. t_K is ``length_s``, an approximation of the makespan;
    t_0 is less than twice the shortest run time of all jobs and sizes."""
    shortest_s = min(job.shortest_s for job in jobs)
    doublings = max(0, floor(log2(length_s / shortest_s)))
    return [length_s / 2 ** (doublings - number) for number in range(doublings + 1)]


def demt(
    jobs: Sequence[PackedJob], processors: int, dual: Dual, seed: int = 0, shuffles: int = SHUFFLES
) -> Packing:
    """Pack jobs by DEMT: there is at least one job, and each can run on ``processors`` processors.
    Tries the order of the batches and ``shuffles`` random orders, and takes the order with the
    least weighted sum of completion times.

    Cost: jobs × processors × batches for the knapsacks, and a list schedule for each order.
    """
    places = [0] * len(jobs)
    batches = select_batches(jobs, processors, dual.length_s, places)
    random = Random(seed)
    best: tuple[float, Packing] | None = None
    for number in range(shuffles + 1):
        if number:
            random.shuffle(batches)
        order = tuple(job for batch in batches for job in batch.jobs)
        packing = Packing(order, tuple(places))
        weighted_s = list_schedule(jobs, packing, processors).weighted_s(jobs)
        if best is None or weighted_s < best[0]:
            best = weighted_s, packing
    assert best is not None
    return best[1]


def select_batches(
    jobs: Sequence[PackedJob], processors: int, length_s: float, places: list[int]
) -> list[PackedBatch]:
    """Divide the jobs into batches. Stores in ``places``, by job, the index of the chosen size
    among the sizes of the job."""
    left = list(range(len(jobs)))
    batches = []
    lengths_s = batch_lengths(jobs, length_s)
    while left:
        batch_s = lengths_s.pop(0) if len(lengths_s) > 1 else lengths_s[0]
        chosen = _select(jobs, left, processors, batch_s)
        for number in chosen:
            places[number] = jobs[number].choice(batch_s) or 0
        if chosen:
            taken = set(chosen)
            left = [number for number in left if number not in taken]
            chosen.sort(key=lambda n: -jobs[n].weight / jobs[n].times_s[places[n]])
            batches.append(PackedBatch(batch_s, tuple(chosen)))
    return batches


def _select(
    jobs: Sequence[PackedJob], left: Sequence[int], processors: int, batch_s: float
) -> list[int]:
    """Return the jobs of one batch: among the sets of jobs that fit, a set with the largest total
    weight, by a knapsack."""
    items: list[list[int]] = []
    costs: list[int] = []
    small = []
    for number in left:
        job = jobs[number]
        place = job.choice(batch_s)
        if place is None:
            continue
        if job.sizes[0] == 1 and job.times_s[0] < batch_s / 2:
            small.append(number)
        else:
            items.append([number])
            costs.append(job.sizes[place])
    stacks = _merge(jobs, small, batch_s)
    items += stacks
    costs += [1] * len(stacks)
    weights = [sum(jobs[number].weight for number in item) for item in items]
    return [number for item in knapsack(costs, weights, processors) for number in items[item]]


def _merge(jobs: Sequence[PackedJob], small: Sequence[int], batch_s: float) -> list[list[int]]:
    """Stack small sequential jobs, by decreasing weight, up to the length of the batch."""
    stacks: list[list[int]] = []
    filled_s = batch_s
    for number in sorted(small, key=lambda number: -jobs[number].weight):
        time_s = jobs[number].times_s[0]
        if filled_s + time_s > batch_s:
            stacks.append([])
            filled_s = 0.0
        stacks[-1].append(number)
        filled_s += time_s
    return stacks
