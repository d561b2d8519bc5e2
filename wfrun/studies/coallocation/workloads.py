"""The clusters, applications and jobs of the experiments (thesis sections 2.5 and 2.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random
from statistics import fmean
from typing import Literal

import msgspec

from wfrun.engine.jobs.coallocation import NodeLinks, PlacementRequest
from wfrun.runners.simulate.grid.coallocated import CoallocatedJob
from wfrun.studies.coallocation.paper import LATENCIES_MS, NODES, SYNTHETIC_S, WAVE_S

WITHOUT_DELFT = tuple(name for name in NODES if name != "Delft")
WITHOUT_LEIDEN = tuple(name for name in NODES if name != "Leiden")

WAVE_CCR = 4.0
"""The ratio of communication to computation time (CCR) with which, as the thesis finds, the model
matches Wave."""
FOUR = (WAVE_S[4] / WAVE_S[1] * (1 + WAVE_CCR) - 1) / WAVE_CCR
"""Factor by which the communication time grows over four clusters, 4.44. With this factor and
`WAVE_CCR` Wave has the run times of the thesis."""
Slowdown = Literal["number", "slowest", "slowest alone"]
"""What the factor of the communication time depends on. ``number``: the number of clusters;
``slowest``: the number of clusters and the slowest link between them; ``slowest alone``: the
slowest link only."""


class Application(msgspec.Struct, frozen=True):
    """A parallel program, described by its run time on one cluster and its share of
    communication."""

    single_s: float
    """Run time on one cluster."""
    ccr: float
    """Ratio of communication time to computation time on one cluster."""

    def run_time_s(self, factor: float) -> float:
        """The run time in seconds if the communication time is multiplied by ``factor``."""
        return self.single_s * (1 + self.ccr * factor) / (1 + self.ccr)


WAVE = Application(WAVE_S[1], WAVE_CCR)


def synthetic(ccr: float) -> Application:
    """The synthetic application with this ratio of communication to computation time."""
    return Application(SYNTHETIC_S, ccr)


def links_of(clusters: Sequence[str]) -> NodeLinks:
    """The latencies of Table 2.1 between ``clusters``."""
    return NodeLinks(
        [[LATENCIES_MS[frozenset((one, other))] for other in clusters] for one in clusters],
        "latency",
    )


def factors(
    clusters: Sequence[str], two: float, three: float, slowdown: Slowdown
) -> dict[frozenset[int], float]:
    """The factor of the communication time for each combination of clusters, given by their
    indices.

    - With ``slowdown`` "number" the factor is 1, ``two``, ``three`` or `FOUR`, by the number of
      clusters.
    - With "slowest" the part of this factor above 1 is multiplied by a ratio. The ratio is the
      excess latency of the combination (`_excess_ms`), divided by the mean excess latency of all
      combinations of as many clusters without Delft (Figure 2.4). Hence the mean factor of these
      combinations is the factor by number.
    - With "slowest alone" the factor is 1 + (`FOUR` - 1) · r. The ratio r is the excess latency of
      the combination, divided by that of all four clusters without Delft. ``two`` and ``three``
      have no effect.
    """
    by_number = (1.0, two, three, FOUR)
    if slowdown == "slowest alone":
        by_number = (1.0, FOUR, FOUR, FOUR)
    means = [0.0] + [
        fmean(_excess_ms(chosen) for chosen in combinations(WITHOUT_DELFT, count))
        for count in range(2, 5)
    ]
    if slowdown == "slowest alone":
        means = [means[3]] * 4
    found = {}
    for count in range(1, len(clusters) + 1):
        for chosen in combinations(range(len(clusters)), count):
            ratio = 1.0
            if count > 1 and slowdown != "number":
                ratio = _excess_ms([clusters[n] for n in chosen]) / means[count - 1]
            found[frozenset(chosen)] = 1 + (by_number[count - 1] - 1) * ratio
    return found


def _excess_ms(clusters: Sequence[str]) -> float:
    """Excess latency of a combination of clusters in ms: the latency of the slowest link between
    them, less the smallest latency within a cluster."""
    slowest_ms = max(LATENCIES_MS[frozenset(pair)] for pair in combinations(clusters, 2))
    return slowest_ms - min(LATENCIES_MS.values())


def arrivals(
    sizes: Sequence[int], rate: float, until_s: float, random: Random
) -> list[tuple[float, int]]:
    """(arrival time in seconds, size) of jobs that arrive as a Poisson process, ``rate`` a second,
    before ``until_s``. Runs with equal seeds and different rates have the same sizes, and arrival
    times in proportion."""
    found = []
    unit = random.expovariate(1.0)
    while unit / rate < until_s:
        found.append((unit / rate, random.choice(sizes)))
        unit += random.expovariate(1.0)
    return found


def mean_rate(sizes: Sequence[int], nodes: int, utilization: float, run_time_s: float) -> float:
    """The arrival rate in jobs a second at which jobs use the share ``utilization`` of the
    nodes."""
    return utilization * nodes / (fmean(sizes) * run_time_s)


def request_maker(policy: str) -> Callable[[int], PlacementRequest]:
    """The function from the size of a job to its request under a policy of the study
    (`POLICIES`)."""
    if policy == "wf":
        return lambda size: PlacementRequest(size, (((size, None),),))
    most = 2 if policy == "fcm2" else None
    return lambda size: PlacementRequest(size, most=most)


POLICIES = {"wf": "WF, no co-allocation", "fcm": "FCM", "fcm2": "FCM [Limit:2]", "ca": "CA"}


LOCAL_SIZES = (1, 2, 4, 8, 16)
LOCAL_S = 600.0


def local_jobs(
    nodes: Sequence[int], load: float, until_s: float, random: Random
) -> list[tuple[CoallocatedJob, float]]:
    """Jobs of other users in the order of arrival, as (job, run time in seconds). Each runs on one
    cluster, has one of `LOCAL_SIZES`, and an exponential run time with the mean `LOCAL_S`."""
    found = []
    for site, count in enumerate(nodes):
        rate = mean_rate(LOCAL_SIZES, count, load, LOCAL_S)
        for at_s, size in arrivals(LOCAL_SIZES, rate, until_s, random):
            job = CoallocatedJob(at_s, PlacementRequest(size, (((size, site),),)))
            found.append((job, random.expovariate(1 / LOCAL_S)))
    return sorted(found, key=lambda each: each[0].arrival_s)
