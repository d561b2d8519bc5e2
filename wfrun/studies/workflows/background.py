"""The load that other users put on the DAS-3 of the thesis.

Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft 2010,
section 6.2.3 and Figure 6.2, and what Tables 6.3, 7.1, 7.2 and 7.6 state about the same logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import exp, log, sqrt
from random import Random
from statistics import NormalDist

import msgspec

from wfrun.engine.model import SiteSpec
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.studies.workflows.das3 import das3

UTILIZATION: Mapping[str, float] = {
    "vrije": 0.25,
    "amsterdam": 0.20,
    "delft": 0.47,
    "multimedian": 0.42,
    "leiden": 0.05,
}
"""Long-term share of each cluster that other users use; 0.30 of the whole system."""

WARM_UP_S = 48 * 3600.0
"""Seconds for which the background runs alone, before workflows arrive."""
HORIZON_S = 48 * 3600.0
"""Seconds for which background jobs are submitted after workflows have arrived."""

_SIZES, _SIZE_WEIGHTS = (2, 4, 8, 16, 32, 64), (35, 30, 20, 15, 10, 5)


class Load(msgspec.Struct, frozen=True):
    """Parameters of the load of other users. The docstring of `background` states where the numbers
    come from."""

    median_s: float = 670.0
    """Median of the run times in seconds. Run times are log-normal with ``sigma``, and cut at
    ``longest_s``."""
    sigma: float = 1.1
    """Standard deviation of the logarithms of the run times. Half of the variance is between
    applications."""
    longest_s: float = 4 * 3600.0
    parallel: float = 0.15
    """Share of jobs that request more than one processor. Their sizes are drawn from _SIZES and cut
    at ``widest``."""
    widest: int = 64
    burst_median: float = 2.0
    """Median of the number of sequential jobs that a user submits at once. The number is log-normal
    with ``burst_sigma``, and at most ``largest_burst``. Parallel jobs are submitted one by one."""
    burst_sigma: float = 1.0
    largest_burst: int = 1000
    applications: int = 60
    """Number of sequential applications at each cluster. There are as many parallel ones."""


def background(
    sites: Sequence[SiteSpec], seed: int, load: Load | None = None
) -> Mapping[str, list[SimulatedJob]]:
    """Other users' jobs by cluster, over WARM_UP_S + HORIZON_S, in order of submission.

    The thesis replays four months of the DAS-3's log of 2008 (section 6.2.3), which is not part of
    this project; workflows arrive there every six hours. Here each seed stands for one of these
    arrivals and has its own load. This load is generated, with the properties that the thesis
    gives:

    - The utilization is about 30% overall (Table 7.5), and different in every cluster (Figure 6.2,
      whose bars have no numbers in the text). Delft and MultimediaN are the busy ones: Table 7.2
      has them as the DAS-3's sites FS3 and FS4, where most jobs are submitted.
    - 15% of the jobs are parallel (Table 7.1).
    - The mean run time is some 20 minutes. For the same log, response times less waits are 1,215 s
      (Table 7.6, ECT-Perfect). Two million jobs in 18 months at 30% of 272 nodes (Table 7.1) take
      1,900 processor seconds each, which is 1,100 s on 1.7 processors. Run times are log-normal, as
      in logs.
    - Sequential jobs come in bursts (Figure 7.1) of similar jobs (section 7.2.3).

    The spread of the run times, the sizes of parallel jobs, the bursts and the shares of the
    clusters, which the thesis leaves open, are fitted to Round Robin's queue waits with background
    load in Table 6.3; the waits of the other policies are not used. Sizes matter most: a wide job
    at the head of a FCFS queue keeps a cluster from starting anything, although its load is low.

    Bursts arrive as a Poisson process whose rate gives the utilization. The applications of a
    cluster are the same for all seeds.
    """
    load = load or Load()
    return {
        site.name: list(_jobs(site, Random(f"das3/{seed}/{site.name}"), load)) for site in sites
    }


def total_utilization() -> float:
    """Share of the whole system that other users use: the mean of UTILIZATION weighted by slots."""
    sites = das3().sites
    work = sum(UTILIZATION[site.name] * site.slots for site in sites)
    return work / sum(site.slots for site in sites)


@cache
def utilizations(repetitions: int) -> Mapping[str, Sequence[float]]:
    """By cluster and, under ``all``, for all clusters together: the work that the background
    submits in each repetition, relative to capacity. The seed of a repetition is its number."""
    sites = das3().sites
    slots = {site.name: site.slots for site in sites}
    slots["all"] = sum(slots.values())
    found: dict[str, list[float]] = {name: [] for name in ("all", *UTILIZATION)}
    for seed in range(repetitions):
        jobs = background(sites, seed)
        work = {name: sum(j.cores * j.runtime_s for j in ours) for name, ours in jobs.items()}
        work["all"] = sum(work.values())
        for name, values in found.items():
            values.append(work[name] / ((WARM_UP_S + HORIZON_S) * slots[name]))
    return found


# Applications


class _Application(msgspec.Struct, frozen=True):
    name: str
    """Name of the application and of its user. Each user has one application."""
    cores: int
    typical_s: float


@cache
def _applications(site: str, slots: int, load: Load) -> tuple[list[_Application], ...]:
    """The sequential and the parallel applications of a cluster, equally many of each. Typical run
    times are equally spaced quantiles of their distribution, so that every cluster has the same
    mean."""
    random = Random(f"das3/applications/{site}")
    normal, count = NormalDist(), load.applications
    found: list[list[_Application]] = []
    for sizes in ([1], _parallel_sizes(slots, load)):
        typical_s = [
            load.median_s * exp(load.sigma / sqrt(2) * normal.inv_cdf((i + 0.5) / count))
            for i in range(count)
        ]
        random.shuffle(typical_s)
        cores = [sizes[i * len(sizes) // count] for i in range(count)]
        kind = "parallel" if found else "sequential"
        names = [f"{kind}-{i}" for i in range(count)]
        found.append(list(map(_Application, names, cores, typical_s)))
    return tuple(found)


def _parallel_sizes(slots: int, load: Load) -> list[int]:
    return [
        min(size, load.widest, slots)
        for size, weight in zip(_SIZES, _SIZE_WEIGHTS, strict=True)
        for _ in range(weight)
    ]


# Jobs


def _jobs(site: SiteSpec, random: Random, load: Load) -> Iterator[SimulatedJob]:
    sequential, parallel = _applications(site.name, site.slots, load)
    burst = _mean_burst(load)
    alone = load.parallel * burst / (1 - load.parallel + load.parallel * burst)
    cores = sum(one.cores for one in parallel) / len(parallel)
    work_s = ((1 - alone) * burst + alone * cores) * _mean_runtime_s(load)
    rate_per_s = UTILIZATION[site.name] * site.slots / work_s
    now_s = random.expovariate(rate_per_s)
    while now_s < WARM_UP_S + HORIZON_S:
        is_parallel = random.random() < alone
        application = random.choice(parallel if is_parallel else sequential)
        count = 1 if is_parallel else _burst(random, load)
        typical_s = application.typical_s * random.lognormvariate(0.0, load.sigma / sqrt(2))
        for _ in range(count):
            runtime_s = min(load.longest_s, typical_s * random.uniform(0.8, 1.2))
            name = application.name
            yield SimulatedJob(now_s, runtime_s, application.cores, runtime_s, name, name)
        now_s += random.expovariate(rate_per_s)


def _burst(random: Random, load: Load) -> int:
    drawn = random.lognormvariate(log(load.burst_median), load.burst_sigma)
    return max(1, min(load.largest_burst, round(drawn)))


@cache
def _mean_burst(load: Load) -> float:
    """Mean size of a burst: the sum over n of the probability of at least n jobs in ``_burst``."""
    size = NormalDist(log(load.burst_median), load.burst_sigma)
    return 1 + sum(1 - size.cdf(log(n - 0.5)) for n in range(2, load.largest_burst + 1))


@cache
def _mean_runtime_s(load: Load) -> float:
    """Mean of a log-normal run time X that is cut at ``longest_s``, E[min(X, longest_s)], in
    seconds."""
    normal, sigma = NormalDist(), load.sigma
    z = log(load.longest_s / load.median_s) / sigma
    below = load.median_s * exp(sigma**2 / 2) * normal.cdf(z - sigma)
    return below + load.longest_s * (1 - normal.cdf(z))
