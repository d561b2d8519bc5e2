"""The load of workloads of bags while bags arrive."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.parsers.generate.bots import Arrival, at_load

_MOST = 2.0
"""Maximum ratio of the load that counts all work to the requested load."""
_STEPS = 30
"""Number of bisections, each of which halves the error of the load."""


def at_load_of_arrivals(
    workload: BotWorkload,
    load: float,
    sites: Sequence[SiteSpec],
    arrival: Arrival = "realistic",
) -> BotWorkload:
    """Return the bags with times between arrivals scaled so that ``load`` is the busy share of the
    sites from the first to the last arrival. This load assumes that each task starts when it
    arrives, on a processor of average speed.

    Work after the last arrival does not count. `at_load` counts all work, so that with long tasks a
    load of 60% would keep only half of the processors busy. The load that counts all work is at
    most twice ``load``. If ``load`` cannot be reached within this limit because there are too few
    tasks, a remark in the result says so. Raises the errors of `at_load`.
    """
    once = at_load(workload, load)
    done_s = _work_by_time(once, workload.capacity / sum(site.slots for site in sites))

    def within(counted: float) -> float:
        """The load until the last arrival, if the load that counts all work is ``counted``."""
        shorter = load / counted
        return done_s(shorter) / (workload.capacity * once.span_s * shorter)

    low, high = load, load * _MOST
    if within(high) < load:
        remark = (
            f"{workload.tasks} tasks are too few to keep {load:.0%} of the processors busy while "
            "bags arrive: most of their work is done afterwards"
        )
        return replace(at_load(workload, high, arrival), remarks=(*workload.remarks, remark))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < load else (low, middle)
    return at_load(workload, high, arrival)


def _work_by_time(workload: BotWorkload, speed_ratio: float) -> Callable[[float], float]:
    """Return a function that maps a factor on the times between arrivals to the work done until the
    last arrival, in seconds on the reference processor."""
    submissions = workload.submissions()
    end_s = submissions[-1].at_s
    bags = []
    for at_s, bag, tasks in submissions:
        runtimes_s = sorted(workload.bags[bag].runtime_s[tasks.start : tasks.stop])
        sums_s = [0.0, *accumulate(runtimes_s)]
        bags.append(((end_s - at_s) * speed_ratio, runtimes_s, sums_s))

    def done_s(factor: float) -> float:
        total_s = 0.0
        for left_s, runtimes_s, sums_s in bags:
            most_s = left_s * factor
            ended = bisect_left(runtimes_s, most_s)
            total_s += sums_s[ended] + most_s * (len(runtimes_s) - ended)
        return total_s

    return done_s
