"""Expected waits in the present queue of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from wfrun.engine.prediction.waits.point import OpenJob, expected_start_s
from wfrun.engine.queues import SimulatedJob
from wfrun.engine.queues.easy import Easy

BOUND = 0.95
"""Share of the sampled waits that the upper bound covers: the quantile of BMBP in thesis section
7.3.2."""
_SAMPLES = 40
"""Number of samples for a short queue. The upper bound is then the second largest sample."""
_MIN_SAMPLES = 5
_JOBS = 20_000
"""Maximum total number of jobs in all samples of a queue. It limits the computation for a long
queue to a second, instead of a minute. Long queues need fewer samples, because their waits vary
less."""
_MAX_RATIO = 19.0
"""Maximum ratio of a sampled run time to its median: the 95% quantile of the distribution."""


class ExpectedWait(msgspec.Struct, frozen=True):
    """Predicted wait of a job with this number of cores that is submitted now."""

    cores: int
    wait_s: float
    """Median of the sampled waits, in seconds."""
    bound_s: float
    """Upper bound in seconds, which `BOUND` of the sampled waits do not exceed."""


def expected_wait(
    cores: int, requested_s: float, slots: int, ahead: Sequence[SimulatedJob], seed: int = 0
) -> ExpectedWait:
    """Predict the wait of a job that requests ``cores`` for ``requested_s`` behind the jobs
    ``ahead`` (`wfrun.runners.simulate.plan_queues.jobs_ahead`). The queue is simulated with EASY
    backfilling, as in plans.

    The remaining run times of the jobs ahead are sampled from the distributions whose medians
    `jobs_ahead` gives.
    """
    if not ahead:
        return ExpectedWait(cores, 0.0, 0.0)
    random = Random(seed)
    count = max(_MIN_SAMPLES, min(_SAMPLES, _JOBS // len(ahead)))
    waits_s = sorted(
        _wait_s(cores, requested_s, slots, sampled(ahead, random)) for _ in range(count)
    )
    bound_s = waits_s[min(count - 1, int(BOUND * count))]
    return ExpectedWait(cores, waits_s[count // 2], bound_s)


def sampled(ahead: Sequence[SimulatedJob], random: Random) -> list[SimulatedJob]:
    """Return the jobs with randomly sampled run times.

    `jobs_ahead` assumes that the density of run times falls as 1/t². So the remaining time R of a
    job with the median m has the distribution P(R > r) = m / (m + r). A job with a time limit does
    not run past it.
    """
    jobs = []
    for job in ahead:
        share = random.random()
        runtime_s = job.runtime_s * min(_MAX_RATIO, share / (1 - share))
        requested_s = runtime_s
        if job.requested_s > job.runtime_s:  # a limit, see `jobs_ahead`
            requested_s = job.requested_s
            runtime_s = min(runtime_s, requested_s)
        jobs.append(SimulatedJob(job.submit_s, runtime_s, job.cores, requested_s))
    return jobs


def _wait_s(cores: int, requested_s: float, slots: int, ahead: Sequence[SimulatedJob]) -> float:
    jobs = [OpenJob(job.cores, job.requested_s, job.runtime_s) for job in ahead]
    probe = OpenJob(min(cores, slots), requested_s, requested_s)
    return expected_start_s(Easy.name, slots, jobs, probe, 0.0)
