"""Moldable jobs for the queues of several clusters, in virtual time."""

from __future__ import annotations

from random import Random

import pytest

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.jobs.moldable import Amdahl, MoldableRunTimes, fixed
from wfrun.engine.jobs.reallocation import ALGORITHMS, Limits
from wfrun.engine.model import SiteSpec
from wfrun.engine.queues import SimulatedJob, simulate_batch
from wfrun.runners.simulate.grid.moldable import (
    MoldableJob,
    MoldableSchedule,
    Reallocation,
    simulate_moldable,
)

SITES = (SiteSpec("a", 16), SiteSpec("b", 8, speed_ratio=1.5), SiteSpec("c", 12))


def mixed_jobs(count: int, seed: int) -> list[MoldableJob]:
    """Our moldable and rigid jobs, and local ones; a few a minute, for minutes to hours."""
    random, now_s, found = Random(seed), 0.0, []
    for _ in range(count):
        now_s += random.expovariate(1 / 400)
        runtimes: MoldableRunTimes = fixed(random.randint(1, 8), random.uniform(60, 9000))
        home = random.choice((-1, -1, 0, 1, 2))
        if home < 0 and random.random() < 0.7:
            runtimes = Amdahl(random.uniform(600, 40000), random.choice((0.8, 0.9, 0.99)), 16)
        found.append(MoldableJob(now_s, runtimes, random.random(), home))
    return found


def check(schedule: MoldableSchedule) -> None:
    """Every job ran once, after its submission, and no cluster had more than its processors."""
    for number, job in enumerate(schedule.jobs):
        site, size = SITES[schedule.site[number]], schedule.size[number]
        assert schedule.start_s[number] >= job.submit_s
        length_s = job.used * job.runtimes.runtime_s(size) / site.speed_ratio
        assert schedule.end_s[number] == pytest.approx(schedule.start_s[number] + length_s)
        if job.home >= 0:
            assert schedule.site[number] == job.home
    for index, site in enumerate(SITES):
        changes = []
        for number in range(len(schedule.jobs)):
            if schedule.site[number] == index:
                changes.append((schedule.start_s[number], schedule.size[number]))
                changes.append((schedule.end_s[number], -schedule.size[number]))
        used = 0
        for _, change in sorted(changes):
            used += change
            assert used <= site.slots


def test_local_jobs_are_those_of_one_queue() -> None:
    """Without a middleware each cluster is its queue model, reallocation or not."""
    random = Random(1)
    batch = [
        SimulatedJob(60.0 * n, random.uniform(1, 3000), random.randint(1, 16), 3000.0)
        for n in range(60)
    ]
    alone = simulate_batch(batch, 16, "conservative", kill_overruns=True)
    jobs = [
        MoldableJob(job.submit_s, fixed(job.cores, 3000.0), job.runtime_s / 3000.0, 0)
        for job in batch
    ]
    for how in (None, Reallocation("mct-can")):
        assert simulate_moldable(jobs, SITES, how).start_s == alone.start_s


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
def test_every_job_runs_once_within_the_processors(algorithm: str | None) -> None:
    how = None if algorithm is None else Reallocation(algorithm, 1800.0)
    jobs = mixed_jobs(250, 7)
    found = simulate_moldable(jobs, SITES, how)
    check(found)
    assert found == simulate_moldable(jobs, SITES, how)
    assert bool(found.moves) is (algorithm is not None)


def test_a_waiting_job_moves_where_a_job_has_ended_early() -> None:
    """Both clusters are full; the long job at the second one ends after 10% of its walltime. At the
    next hour the job that waits at the first one moves there."""
    sites = (SiteSpec("a", 4), SiteSpec("b", 4))
    jobs = [
        MoldableJob(0.0, fixed(4, 30_000.0), 1.0, 0),
        MoldableJob(0.0, fixed(4, 40_000.0), 0.1, 1),
        MoldableJob(10.0, fixed(4, 1000.0)),
    ]
    assert simulate_moldable(jobs, sites).start_s[2] == 30_000.0
    moved = simulate_moldable(jobs, sites, Reallocation("mct-reg"))
    assert (moved.site[2], moved.start_s[2], moved.moves) == (1, 7200.0, 1)
    settled = Reallocation("mct-reg", limits=Limits(most_moves=0))
    assert simulate_moldable(jobs, sites, settled).start_s[2] == 7200.0  # it starts immediately


def test_a_job_that_no_site_can_run() -> None:
    with pytest.raises(InfeasibleError, match="job 0 needs at least 17 processors"):
        simulate_moldable([MoldableJob(0.0, fixed(17, 1.0))], SITES)
