"""The jobs of the experiments (thesis section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from wfrun.engine.jobs.malleable.manager import SizeBounds
from wfrun.engine.jobs.malleable.simulation import ScaledJob

JOBS = 300
LEAST = 2
"""Minimum size, and the size of rigid jobs."""
NODES = (85, 41, 68, 46, 32)
"""Nodes of the clusters of the DAS-3 (Table 1.2)."""


class MalleableProgram(msgspec.Struct, frozen=True):
    """A program of section 3.3.1."""

    most: int
    two_s: float
    """Run time with 2 processors, in seconds."""
    best_s: float
    """The shortest run time of all sizes, in seconds."""
    shape: str


GADGET = MalleableProgram(46, 600.0, 240.0, "any")
FT = MalleableProgram(32, 120.0, 60.0, "power-of-two")
PROGRAMS = (GADGET, FT)

ALL_MALLEABLE, HALF_RIGID = "m", "mr"
MIXES = (ALL_MALLEABLE, HALF_RIGID)


def run_times(program: MalleableProgram, optimum: float) -> Callable[[int], float]:
    """The run time T(n) = a/n + b + c·n in seconds on n processors. T(2) is the program's run time
    with 2 processors. The minimum of T is the program's shortest run time, at n = ``optimum``."""
    a = (program.two_s - program.best_s) / (0.5 - 2 / optimum + 2 / optimum**2)
    c = a / optimum**2
    return partial(_time, a, program.best_s - 2 * a / optimum, c)


def _time(a: float, b: float, c: float, processors: int) -> float:
    return a / processors + b + c * processors


class MalleableLoad(msgspec.Struct, frozen=True):
    """A workload, and the program of each job."""

    jobs: tuple[ScaledJob, ...]
    gadget: tuple[bool, ...]
    """Whether each job is GADGET; otherwise it is FT."""
    malleable: tuple[bool, ...]


def make_load(
    mix: str, interval_s: float, optimum_share: float, seed: int, *, random_arrivals: bool = False
) -> MalleableLoad:
    """A workload of 300 jobs. Run times are shortest at ``optimum_share`` of a program's maximum
    size. Workloads with equal seeds have the same programs.

    Jobs arrive every ``interval_s`` seconds, or at random with this mean interval
    (``random_arrivals``).
    """
    random = Random(f"malleability {seed}")
    times = [run_times(program, program.most * optimum_share) for program in PROGRAMS]
    jobs, gadget, malleable = [], [], []
    arrival_s = 0.0
    for _ in range(JOBS):
        place, rigid = random.randrange(2), random.random() < 0.5
        gap_s = random.expovariate(1 / interval_s)
        program = PROGRAMS[place]
        grows = mix == ALL_MALLEABLE or not rigid
        bounds = SizeBounds(LEAST, program.most if grows else LEAST)
        jobs.append(ScaledJob(arrival_s, bounds, times[place], program.shape))
        gadget.append(program is GADGET)
        malleable.append(grows)
        arrival_s += gap_s if random_arrivals else interval_s
    return MalleableLoad(tuple(jobs), tuple(gadget), tuple(malleable))


def sites_of(processors: int) -> list[int]:
    """Number of processors that KOALA may use in each of the five clusters: ``processors`` divided
    in proportion to the sizes of the clusters."""
    shares = [processors * nodes / sum(NODES) for nodes in NODES]
    sizes = [int(share) for share in shares]
    rest = sorted(range(len(NODES)), key=lambda n: sizes[n] - shares[n])
    for n in rest[: processors - sum(sizes)]:
        sizes[n] += 1
    return sizes
