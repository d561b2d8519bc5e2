"""Measures a malleable job beside another user's jobs, on Slurm of the testbed of this machine
(root and the packages of docs/testbed.md): the share of the idle processor time that the n-body
example uses, and how much later the other user's jobs start than on the idle cluster.

    python bench/malleability_beside.py [--jobs 20] [--policy egs|fpsma]

The same jobs are submitted to the idle cluster first.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

# A script sees its own folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.integration.jobs.coallocated import LocalJob
from tests.integration.jobs.growing import BODIES, SLOTS, MalleableJobs
from tests.testbed.fixture import bring_up_free
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

GOAL_USE, GOAL_DELAY_S = 0.95, 3.0
"""Used share of the idle processor time; later start of another user's job."""
LEAST = 2
"""Processors that the malleable job starts with."""
STEP_PAUSE_S = 0.2
Submitted = tuple[float, float, int]
"""Of another user's job: time of its submission, of its end, and its cores."""


def stream(jobs: MalleableJobs, count: int) -> tuple[list[float], list[Submitted]]:
    """Submit jobs of another user of 2 to 8 cores, 3 to 6 s long, in the mean every 15 s. Returns
    their waits, ascending, in seconds, and what they held."""
    random = Random(count)
    waits_s, found = [], []
    for _ in range(count):
        cores, seconds = random.choice([2, 4, 8]), random.uniform(3.0, 6.0)
        job = LocalJob(jobs, jobs.site, cores, seconds)
        waits_s.append(job.waited_s())
        found.append((job.submitted_s, job.submitted_s + waits_s[-1] + seconds, cores))
        time.sleep(random.uniform(7.0, 13.0))
    return sorted(waits_s), found


def held_s(jobs: MalleableJobs, since_s: float, until_s: float) -> float:
    """Processor seconds that the malleable job held, by the log."""
    sizes = [(since_s, 0)]
    for event in jobs.events():
        if isinstance(event, ev.AttemptStarted):
            sizes.append((event.at_s, LEAST))
        elif isinstance(event, ev.AttemptEnded):
            sizes.append((event.at_s, 0))
        elif isinstance(event, ev.JobResized):
            sizes.append((event.at_s, LEAST + len(event.launchers)))
    sizes.append((until_s, 0))
    return sum(
        size * max(0.0, min(after_s, until_s) - max(at_s, since_s))
        for (at_s, size), (after_s, _) in pairwise(sizes)
    )


def measured(
    testbed: Testbed, count: int, policy: str
) -> tuple[list[float], list[float], float, int]:
    """Waits of another user's jobs on the idle cluster and beside the malleable job, the used share
    of the idle processor time, and the number of shrinks."""
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
        jobs = MalleableJobs(testbed, Path(place), "alpha")
        slots = SLOTS["alpha"]
        jobs.write_nbody(
            f"{{job: nbody, size: {{min: {LEAST}, max: {slots}}}}}",
            command=f"python3 nbody.py {BODIES} 1000000 --pause {STEP_PAUSE_S}",
            walltime={"serial_s": 7200, "parallel": 0.9},
        )
        try:
            idle_s, _ = stream(jobs, count)
            engine = jobs.start("--malleable", policy)
            while max(jobs.sizes(), default=0) < slots - LEAST:
                if engine.poll() is not None:
                    sys.exit((jobs.folder / "told").read_text())
                time.sleep(1.0)
            since_s = time.time()
            beside_s, others = stream(jobs, count)
            until_s = time.time()
            used_s = held_s(jobs, since_s, until_s)
            shrinks = jobs.count(ev.ShrinkAsked)
        finally:
            jobs.close()
    taken_s = sum(cores * (min(end_s, until_s) - begin_s) for begin_s, end_s, cores in others)
    return idle_s, beside_s, used_s / (slots * (until_s - since_s) - taken_s), shrinks


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure a malleable job beside other jobs.")
    parser.add_argument("--jobs", type=int, default=20, help="of another user")
    parser.add_argument("--policy", choices=["egs", "fpsma"], default="egs")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    testbed = bring_up_free()
    try:
        idle_s, beside_s, share, shrinks = measured(testbed, given.jobs, given.policy)
    finally:
        testbed.down()
    table = Table(f"{given.jobs} jobs of another user, load {load:.1f}", "median", "95%", "longest")
    rows = (("start on the idle cluster", idle_s), ("start beside a malleable job", beside_s))
    for name, waits_s in rows:
        picked = (waits_s[len(waits_s) // 2], waits_s[int(0.95 * (len(waits_s) - 1))], waits_s[-1])
        table.add_row(name, *(f"{wait_s:.2f} s" for wait_s in picked))
    console = Console(width=100)
    console.print(table)
    later_s = beside_s[-1] - idle_s[-1]
    console.print(
        f"{share:.3f} of the idle processor time used (goal {GOAL_USE}), longest wait "
        f"{later_s:.2f} s longer (goal {GOAL_DELAY_S:g} s), {shrinks} shrinks"
    )
    return 0 if share >= GOAL_USE and later_s <= GOAL_DELAY_S else 1


if __name__ == "__main__":
    sys.exit(main())
