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
"""The CCR for which the thesis finds that the model matches Wave."""
FOUR = (WAVE_S[4] / WAVE_S[1] * (1 + WAVE_CCR) - 1) / WAVE_CCR
"""Factor of the communication time over four clusters, 4.44. It is chosen such that Wave has the
run times of the thesis."""
Slowdown = Literal["number", "slowest", "slowest alone"]
"""What the factor of the communication time depends on. ``number``: the number of clusters;
``slowest``: this number and the slowest link between them; ``slowest alone``: that link only."""


class Application(msgspec.Struct, frozen=True):
    """A parallel program."""

    single_s: float
    """Run time on one cluster."""
    ccr: float
    """Communication time over computation time, on one cluster."""

    def run_time_s(self, factor: float) -> float:
        """The run time in seconds if the communication time is multiplied by ``factor``."""
        return self.single_s * (1 + self.ccr * factor) / (1 + self.ccr)


WAVE = Application(WAVE_S[1], WAVE_CCR)


def synthetic(ccr: float) -> Application:
    """The synthetic application with this ratio of communication to computation time."""
    return Application(SYNTHETIC_S, ccr)


def links_of(clusters: Sequence[str]) -> NodeLinks:
    """The latencies of Table 2.1 between these clusters."""
    return NodeLinks(
        [[LATENCIES_MS[frozenset((one, other))] for other in clusters] for one in clusters],
        "latency",
    )


def factors(
    clusters: Sequence[str], two: float, three: float, slowdown: Slowdown
) -> dict[frozenset[int], float]:
    """The factor of the communication time for each combination of clusters, given by their
    indices.

    With ``slowdown`` "number" the factor is 1, ``two``, ``three`` or `FOUR`, by the number of
    clusters. With "slowest" the part above 1 is multiplied by a ratio of excess latencies (above
    the latency within a cluster): that of the combination, over the mean of all combinations of as
    many clusters without Delft (Figure 2.4). So the mean over these combinations is the factor by
    number. With "slowest alone" the ratio is relative to all four clusters without Delft and
    multiplies `FOUR` - 1; ``two`` and ``three`` have no effect.
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
    """Latency of the slowest link between clusters in ms, less the smallest latency within a
    cluster."""
    slowest_ms = max(LATENCIES_MS[frozenset(pair)] for pair in combinations(clusters, 2))
    return slowest_ms - min(LATENCIES_MS.values())


def arrivals(
    sizes: Sequence[int], rate: float, until_s: float, random: Random
) -> list[tuple[float, int]]:
    """(time, size) of jobs that arrive as a Poisson process, ``rate`` a second. For equal seeds,
    the sizes, and the times in units of the mean interval, are the same for all rates."""
    found = []
    unit = random.expovariate(1.0)
    while unit / rate < until_s:
        found.append((unit / rate, random.choice(sizes)))
        unit += random.expovariate(1.0)
    return found


def mean_rate(sizes: Sequence[int], nodes: int, utilization: float, run_time_s: float) -> float:
    """Number of jobs a second that use this share of the nodes."""
    return utilization * nodes / (fmean(sizes) * run_time_s)


def request_maker(policy: str) -> Callable[[int], PlacementRequest]:
    """The function that makes the request of a job of a given size under a policy of the study
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
    """Jobs of other users, each of one cluster, with their run times: sizes of `LOCAL_SIZES`,
    exponential run times with the mean `LOCAL_S`."""
    found = []
    for site, count in enumerate(nodes):
        rate = mean_rate(LOCAL_SIZES, count, load, LOCAL_S)
        for at_s, size in arrivals(LOCAL_SIZES, rate, until_s, random):
            job = CoallocatedJob(at_s, PlacementRequest(size, (((size, site),),)))
            found.append((job, random.expovariate(1 / LOCAL_S)))
    return sorted(found, key=lambda each: each[0].arrival_s)
