"""Measures owners who scavenge, on the testbed of this machine (root and the packages of
docs/testbed.md): how much later a job of another user starts than on idle clusters, which share of
the idle processor time is used, and how equal the shares of the owners are.

    python bench/scavenging.py [--rounds 20] [--minutes 10] [--owners 3] [--sites alpha,gamma]
                               [--poll 2]

The same number of jobs is submitted to the idle clusters, before owners use them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

# A script sees its own folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.integration.jobs.scavengers import SLOTS, Scavengers
from tests.testbed.fixture import bring_up_free
from wfrun.engine import events as ev

GOAL_DELAY_S, GOAL_USE, GOAL_SHARE = 3.0, 0.95, 0.05
"""Later start of a job of others, 95th percentile; used share of the idle processor time; greatest
relative deviation of a share from the mean."""
TASK_S = 5.0
CORES, JOB_S, PAUSE_S = 4, 2.0, 12.0
"""A job of another user, and the time between two of them."""


def waits(run: Scavengers, site: str, rounds: int, pause_s: float) -> list[float]:
    """Waiting times of jobs of another user, ascending, in seconds."""
    found = []
    for _ in range(rounds):
        found.append(run.local_job(site, CORES, JOB_S).waited_s())
        time.sleep(pause_s)
    return sorted(found)


def quantile(times_s: list[float], share: float) -> float:
    return times_s[min(len(times_s) - 1, int(share * len(times_s)))]


def use_of(
    run: Scavengers, names: list[str], begin_s: float, end_s: float
) -> tuple[float, dict[str, float]]:
    """The share of the processor time that others left idle in which tasks ran, and the processor
    time of each owner, in seconds."""
    idle_s = sum(SLOTS[name] for name in names) * (end_s - begin_s)
    running: dict[int, tuple[float, int]] = {}
    owners: dict[str, str] = {}
    used_s: dict[str, float] = {}
    started: dict[str, float] = {}

    def clipped(since_s: float, until_s: float) -> float:
        return max(0.0, min(until_s, end_s) - max(since_s, begin_s))

    for event in run.events():
        if isinstance(event, ev.WorkflowAdded):
            owners[str(event.workflow)] = event.name
        elif isinstance(event, ev.SiteLoadObserved):
            since_s, cores = running.get(event.site, (event.at_s, 0))
            idle_s -= cores * clipped(since_s, event.at_s)
            running[event.site] = event.at_s, event.running_cores + event.queued_cores
        elif isinstance(event, ev.AttemptStarted):
            started[event.key] = event.at_s
        elif isinstance(event, ev.AttemptEnded) and event.key in started:
            owner = owners[event.key.split(".")[-3]]
            time_s = clipped(started.pop(event.key), event.at_s)
            used_s[owner] = used_s.get(owner, 0.0) + time_s
    for since_s, cores in running.values():
        idle_s -= cores * clipped(since_s, end_s)
    return sum(used_s.values()) / idle_s, used_s


def measure(names: list[str], rounds: int, minutes: float, owners: int, poll_s: float) -> bool:
    """Print what is measured; returns whether the goals are met."""
    testbed = bring_up_free()
    console = Console(width=110)
    table = Table("site", "jobs", "idle: median", "95%", "scavenged: median", "95%", "later, 95%")
    good = True
    try:
        with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
            run = Scavengers(testbed, Path(place))
            people = [f"owner{n}" for n in range(1, owners + 1)]
            slots = sum(SLOTS[name] for name in names)
            length_s = 60 * minutes + 4 * rounds * len(names) * PAUSE_S
            tasks = int(slots * length_s / TASK_S)  # more than there is time for
            run.write_sweeps(*names, tasks=tasks, seconds=TASK_S, owners=" ".join(people),
                             narrow=" ".join(names), poll_s=poll_s)  # fmt: skip
            idle = {name: waits(run, name, rounds, 3.0) for name in names}
            engine = run.start("--scavenge", "persite")
            while run.running() < 0.9 * slots:
                time.sleep(1.0)
            time.sleep(5.0)
            begin_s = time.time()
            time.sleep(60 * minutes)
            busy = {name: waits(run, name, rounds, PAUSE_S) for name in names}
            end_s = time.time()
            cancel = run.command("cancel", "run")
            cancel.wait(60)
            engine.wait(60)
            share, used_s = use_of(run, names, begin_s, end_s)
            run.close()
    finally:
        testbed.down()
    for name in names:
        later_s = quantile(busy[name], 0.95) - quantile(idle[name], 0.95)
        good = good and later_s <= GOAL_DELAY_S
        cells = [quantile(each[name], q) for each in (idle, busy) for q in (0.5, 0.95)]
        table.add_row(name, str(rounds), *(f"{cell:.2f} s" for cell in cells), f"{later_s:.2f} s")
    console.print(table)
    mean_s = sum(used_s.values()) / len(used_s)
    worst = max(abs(each / mean_s - 1) for each in used_s.values())
    seconds = end_s - begin_s
    console.print(
        f"{share:.3f} of the idle processor time used (goal {GOAL_USE}), shares within "
        f"{worst:.1%} of equal (goal {GOAL_SHARE:.0%}), {seconds:.0f} s"
    )
    console.print({owner: f"{each:.0f} s" for owner, each in sorted(used_s.items())})
    return good and share >= GOAL_USE and worst <= GOAL_SHARE


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure owners who scavenge.")
    parser.add_argument("--rounds", type=int, default=20, help="jobs of another user at each site")
    parser.add_argument("--minutes", type=float, default=10.0, help="before these jobs")
    parser.add_argument("--owners", type=int, default=3)
    parser.add_argument("--sites", default="alpha,gamma")
    parser.add_argument("--poll", type=float, default=2.0, help="poll_min of the sites, seconds")
    given = parser.parse_args()
    names = given.sites.split(",")
    return 0 if measure(names, given.rounds, given.minutes, given.owners, given.poll) else 1


if __name__ == "__main__":
    sys.exit(main())
