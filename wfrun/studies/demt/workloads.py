"""The jobs of the experiments (SPAA 2004, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from wfrun.engine.jobs.packing import PackedJob

PROCESSORS = 200
WEAKLY, HIGHLY, MIXED, CIRNE = "weakly", "highly", "mixed", "cirne"
WORKLOADS = (WEAKLY, HIGHLY, MIXED, CIRNE)
TITLES = {
    WEAKLY: "weakly parallel", HIGHLY: "highly parallel", MIXED: "mixed",
    CIRNE: "Downey's (in place of Cirne and Berman's)",
}  # fmt: skip
CENTRES = {WEAKLY: 0.1, HIGHLY: 0.9}
"""Mean of the random number X of the recurrence, by workload. The standard deviation is 0.2."""
SMALL_SHARE = 0.7
SIGMA = 1.0
"""Default variance of the parallelism, σ, in Downey's model."""


def make_jobs(
    workload: str, count: int, seed: int, *, as_printed: bool = False, sigma: float = SIGMA
) -> list[PackedJob]:
    """Jobs with weights U[1, 10] and a run time for each of 200 sizes.

    In the recurrence as the paper prints it, an X near 1 makes a job weakly parallel. Therefore 1 -
    X takes the place of X, so that jobs called highly parallel are highly parallel. ``as_printed``
    takes X itself. ``sigma`` is the variance of parallelism of the jobs that stand for the model of
    Cirne and Berman.
    """
    random = Random(f"{workload} {count} {seed}")

    def recurrence(kind: str, serial_s: float) -> list[float]:
        x = _normal(random, CENTRES[kind], 0.2, lambda x: 0 <= x <= 1)
        return recurrence_times(serial_s, x if as_printed else 1 - x)

    found = []
    for _ in range(count):
        if workload == MIXED:
            small = random.random() < SMALL_SHARE
            mean_s, deviation_s = (1.0, 0.5) if small else (10.0, 5.0)
            serial_s = _normal(random, mean_s, deviation_s, lambda x: x > 0)
            times_s = recurrence(WEAKLY if small else HIGHLY, serial_s)
        else:
            serial_s = random.uniform(1, 10)
            if workload == CIRNE:
                parallelism = PROCESSORS ** random.random()
                times_s = [
                    serial_s / downey_speedup(size, parallelism, sigma)
                    for size in range(1, PROCESSORS + 1)
                ]
            else:
                times_s = recurrence(workload, serial_s)
        found.append(PackedJob(range(1, PROCESSORS + 1), times_s, random.uniform(1, 10)))
    return found


def recurrence_times(serial_s: float, x: float) -> list[float]:
    """Run times in seconds on 1, 2, … processors by the recurrence p(j) = p(j-1)·(x + j)/(1 + j),
    where p(1) is ``serial_s``."""
    times_s = [serial_s]
    for size in range(2, PROCESSORS + 1):
        times_s.append(times_s[-1] * (x + size) / (1 + size))
    return times_s


def _normal(random: Random, mean: float, deviation: float, fits: Callable[[float], bool]) -> float:
    """A normally distributed value for which ``fits`` is true. Other values are drawn again."""
    while not fits(value := random.gauss(mean, deviation)):
        pass
    return value


def downey_speedup(size: int, parallelism: float, sigma: float) -> float:
    """The speedup on ``size`` processors of a job with average parallelism A (``parallelism``) and
    variance of parallelism σ (``sigma``). Source: A. B. Downey, *A Model For Speedup of Parallel
    Programs*, UCB/CSD-97-933."""
    a, n = parallelism, float(size)
    if sigma <= 1:
        if n <= a:
            return a * n / (a + sigma * (n - 1) / 2)
        if n <= 2 * a - 1:
            return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
        return a
    if n <= a + a * sigma - sigma:
        return n * a * (sigma + 1) / (sigma * (n + a - 1) + a)
    return a
