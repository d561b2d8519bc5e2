"""Packing of jobs that arrive over time, in batches.

When all jobs of a batch are done, the jobs that have arrived meanwhile are the next batch. If the
packing algorithm has the approximation ratio ρ, the schedule in batches has the ratio 2ρ (SPAA
2004, section 2.2, after D. Shmoys, J. Wein, D. Williamson, SIAM J. Computing 24, 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wfrun.engine.jobs.packing.job import PackedJob, PackedSchedule, Packing, list_schedule

Pack = Callable[[Sequence[PackedJob], int], Packing]


def pack_arrivals(
    jobs: Sequence[PackedJob], arrivals_s: Sequence[float], processors: int, pack: Pack
) -> PackedSchedule:
    """The schedule of jobs that arrive over time; ``pack`` packs each batch. Raises InfeasibleError
    for a job that is wider than the allocation."""
    order = sorted(range(len(jobs)), key=arrivals_s.__getitem__)
    starts_s, times_s, sizes = [0.0] * len(jobs), [0.0] * len(jobs), [0] * len(jobs)
    now_s, arrived = 0.0, 0
    while arrived < len(order):
        now_s = max(now_s, arrivals_s[order[arrived]])
        first = arrived
        while arrived < len(order) and arrivals_s[order[arrived]] <= now_s:
            arrived += 1
        batch = order[first:arrived]
        members = [jobs[number] for number in batch]
        found = list_schedule(members, pack(members, processors), processors, now_s)
        for place, number in enumerate(batch):
            starts_s[number] = found.starts_s[place]
            times_s[number], sizes[number] = found.times_s[place], found.sizes[place]
        now_s = found.makespan_s
    return PackedSchedule(starts_s, times_s, sizes)
