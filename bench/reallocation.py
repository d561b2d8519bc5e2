"""Measures a round of reallocation between three clusters, in seconds.

The clusters are those of Grid'5000 in RR-7365 (640, 270 and 434 processors, conservative
backfilling). Moldable jobs of types t1 to t4 wait, most at the first cluster; processors are held
for hours. Memory and the making of the queues are not counted. A round asks for the estimates of
all waiting jobs at all other clusters, sized by binary search.

    python bench/reallocation.py [--jobs 1000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from random import Random

from rich.console import Console
from rich.table import Table

from wfrun.engine.moldable import Amdahl, RunTimes
from wfrun.engine.queues import QueuedJob, make_lrm
from wfrun.engine.reallocation import ALGORITHMS, LrmQueues, Offer, QueueJob, reallocate

SLOTS = (640, 270, 434)
TYPES = ((0.8, 32, 0.5), (0.9, 96, 0.3), (0.99, 256, 0.15), (0.999, 650, 0.05))
GOAL_S = 10.0
"""Of MCT-reg with 1,000 waiting jobs."""
CLUSTER_WEIGHTS = (6, 2, 2)


class Counted(LrmQueues):
    """Counts the offers of sites, each a search for the best size."""

    offers = 0

    def offer_of(self, runtimes: RunTimes, site: int) -> Offer | None:
        self.offers += 1
        return super().offer_of(runtimes, site)


def waiting_queues(jobs: int, seed: int) -> Counted:
    """Three clusters that are full for hours, with jobs that wait."""
    random = Random(seed)
    lrms = [make_lrm("conservative", slots) for slots in SLOTS]
    for site, (lrm, slots) in enumerate(zip(lrms, SLOTS, strict=True)):
        held = 0
        while held < slots:
            cores = min(slots - held, random.randint(1, 40))
            lrm.occupy(QueuedJob(f"r{site}.{held}", cores, random.uniform(600, 40_000)), 0.0)
            held += cores
    queues = Counted(lrms, [1.0, 1.2, 1.4])
    weights = [share for _, _, share in TYPES]
    for number in range(jobs):
        parallel, limit, _ = random.choices(TYPES, weights)[0]
        runtimes = Amdahl(random.uniform(600, 100_000), parallel, limit)
        queues.jobs[number] = QueueJob(runtimes, float(number))
        site = random.choices(range(3), CLUSTER_WEIGHTS)[0]
        offer = queues.offer_of(runtimes, site)
        assert offer is not None
        queues.enter(number, offer)
    queues.offers = 0
    return queues


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    table = Table("algorithm", "waiting jobs", "round", "moves", "offers", "goal")
    for algorithm in ALGORITHMS:
        taken, moves, offers = [], 0, 0
        for seed in range(arguments.rounds):
            queues = waiting_queues(arguments.jobs, seed)
            since_s = time.process_time()
            placed = reallocate(queues, algorithm)
            taken.append(time.process_time() - since_s)
            moves, offers = sum(each.is_moved for each in placed), queues.offers
        goal = f"{GOAL_S:.0f} s" if algorithm == "mct-reg" and arguments.jobs <= 1000 else ""
        table.add_row(algorithm, f"{arguments.jobs:,}", f"{statistics.median(taken):.2f} s",
                      f"{moves:,}", f"{offers:,}", goal)  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
