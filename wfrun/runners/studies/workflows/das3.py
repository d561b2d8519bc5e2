"""The DAS-3 of the thesis, and the load that other users put on it.

Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft 2010:
Table 1.2 (clusters), Table 2.1 (links), section 6.2 (what is simulated).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import exp, log
from random import Random
from statistics import NormalDist

import msgspec

from wfrun.engine.model import Catalog, LinkSpec, SiteSpec
from wfrun.sites.simulated.queues import SimulatedJob

_GHZ = 2.4
"""Of three of the five clusters: the reference processor."""

_LINKS = (
    ("vrije", "amsterdam", 185.0, 0.4),
    ("vrije", "delft", 45.0, 1.15),
    ("vrije", "multimedian", 185.0, 0.4),
    ("vrije", "leiden", 77.0, 1.0),
    ("amsterdam", "delft", 53.0, 1.1),
    ("amsterdam", "multimedian", 512.0, 0.03),
    ("amsterdam", "leiden", 115.0, 0.6),
    ("delft", "multimedian", 10.0, 1.45),
    ("delft", "leiden", 10.0, 1.45),
    ("multimedian", "leiden", 115.0, 0.6),
)
"""Pairs with MB/s and ms. Delft-Leiden could not be measured (section 2.4.1); it is given the
values of Delft-MultimediaN, the slowest link of Delft."""


def das3(processors_per_node: int = 1) -> Catalog:
    """The five clusters, fully connected, in the order of Table 1.2.

    A node is one place for a task, as in Table 7.4, which gives the simulated clusters their number
    of nodes as size: with 272 places the queue waits of Single Cluster for large workflows come
    out as in Table 6.3, with 544 or 816 (two processors a node, dual cores) far below.
    """
    clusters = (
        ("vrije", 85, 2.4),
        ("amsterdam", 41, 2.2),
        ("delft", 68, 2.4),
        ("multimedian", 46, 2.4),
        ("leiden", 32, 2.6),
    )
    sites = tuple(
        SiteSpec(name, nodes * processors_per_node, speed_ratio=ghz / _GHZ)
        for name, nodes, ghz in clusters
    )
    links = tuple(
        LinkSpec(source, destination, bandwidth * 1e6, latency / 1e3)
        for one, other, bandwidth, latency in _LINKS
        for source, destination in ((one, other), (other, one))
    )
    return Catalog(sites, links)


UTILIZATION: Mapping[str, float] = {
    "vrije": 0.25,
    "amsterdam": 0.25,
    "delft": 0.40,
    "multimedian": 0.40,
    "leiden": 0.10,
}
"""Share of each cluster that other users use in the long term; 0.30 of the whole system."""


class Load(msgspec.Struct, frozen=True):
    """What other users submit. See ``background`` for where the numbers come from."""

    parallel: float = 0.15
    """Share of jobs that ask for more than one processor."""
    median_s: float = 240.0
    """Of the run times, log-normal with ``sigma``; at most ``longest_s``."""
    sigma: float = 1.0
    longest_s: float = 3600.0
    burst_median: float = 4.0
    """Of the numbers of jobs that a user submits at once, log-normal with ``burst_sigma``; at most
    ``largest_burst``."""
    burst_sigma: float = 1.0
    largest_burst: int = 1000


_SIZES, _SIZE_WEIGHTS = (2, 4, 8, 16), (35, 30, 20, 15)

WARM_UP_S = 24 * 3600.0
"""Time for which the background runs alone before workflows arrive, in seconds."""
HORIZON_S = 24 * 3600.0
"""Length of the background after that, in seconds; every run of the study is shorter."""


def background(
    sites: Sequence[SiteSpec], seed: int, load: Load | None = None
) -> Mapping[str, list[SimulatedJob]]:
    """Other users' jobs by cluster, over WARM_UP_S + HORIZON_S, in order of submission.

    The thesis replays four months of the DAS-3's log of 2008 (section 6.2.3), which is not part of
    this project. This load is generated instead, with the properties that the thesis gives:

    - about 30% overall (Table 7.5), different in every cluster (Figure 6.2, whose bars have no
      numbers in the text). Delft and MultimediaN are the busy ones: Table 7.2 has them as the
      DAS-3's sites FS3 and FS4, where most jobs are submitted and 80% and 70% of them wait.
    - 15% of the jobs are parallel (Table 7.1), of 2 to 16 processors in powers of two.
    - 2 million jobs in 18 months on 272 nodes (Table 7.1) at the 10% to 30% of research grids
      (section 7.1) are 640 to 1,900 processor seconds a job: with 1.7 processors a job, run times
      with a mean of some six minutes. They are log-normal, as run times in logs are, and at most
      an hour, since the rules of the DAS keep jobs short (section 1.4.1: 15 minutes by day).
    - arrivals come in bursts, of up to a thousand jobs in five minutes (Figure 7.1), which are
      alike in size and nearly so in run time (section 7.2.3).

    The spread of the run times and the number of jobs in a burst, which the thesis leaves open, are
    fitted: among five settings this one comes nearest to Round Robin's queue waits with background
    load in Table 6.3, the only information on the length of queues there. Longer run times and
    larger bursts make them two to ten times as long.

    Bursts arrive as a Poisson process whose rate gives the utilization.
    """
    load = load or Load()
    return {
        site.name: list(_jobs(site, Random(f"das3/{seed}/{site.name}"), load)) for site in sites
    }


def total_utilization() -> float:
    """UTILIZATION of the whole system."""
    sites = das3().sites
    work = sum(UTILIZATION[site.name] * site.slots for site in sites)
    return work / sum(site.slots for site in sites)


@cache
def utilizations(repetitions: int) -> Mapping[str, Sequence[float]]:
    """By cluster, and ``all`` of them: the share of its capacity that the background of each
    repetition submits. The seeds are the numbers of the repetitions."""
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


def _jobs(site: SiteSpec, random: Random, load: Load) -> Iterator[SimulatedJob]:
    work_s = _mean_burst(load) * _mean_cores(load) * _mean_runtime_s(load)
    rate_per_s = UTILIZATION[site.name] * site.slots / work_s
    now_s = random.expovariate(rate_per_s)
    while now_s < WARM_UP_S + HORIZON_S:
        count = _burst(random, load)
        cores = 1
        if random.random() < load.parallel:
            cores = min(random.choices(_SIZES, _SIZE_WEIGHTS)[0], site.slots)
        typical_s = random.lognormvariate(log(load.median_s), load.sigma)
        for _ in range(count):
            runtime_s = min(load.longest_s, typical_s * random.uniform(0.8, 1.2))
            yield SimulatedJob(now_s, runtime_s, cores, runtime_s)
        now_s += random.expovariate(rate_per_s)


def _burst(random: Random, load: Load) -> int:
    drawn = random.lognormvariate(log(load.burst_median), load.burst_sigma)
    return max(1, min(load.largest_burst, round(drawn)))


def _mean_burst(load: Load) -> float:
    return _mean_lognormal(load.burst_median, load.burst_sigma, load.largest_burst)


def _mean_runtime_s(load: Load) -> float:
    return _mean_lognormal(load.median_s, load.sigma, load.longest_s)


def _mean_lognormal(median: float, sigma: float, most: float) -> float:
    """E[min(X, most)] of a log-normal X."""
    normal = NormalDist()
    z = log(most / median) / sigma
    below = median * exp(sigma**2 / 2) * normal.cdf(z - sigma)
    return below + most * (1 - normal.cdf(z))


def _mean_cores(load: Load) -> float:
    parallel = sum(s * w for s, w in zip(_SIZES, _SIZE_WEIGHTS, strict=True)) / sum(_SIZE_WEIGHTS)
    return 1 + load.parallel * (parallel - 1)
