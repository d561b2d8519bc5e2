"""A comparison of a workload of bags with a row of the model."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import pvariance

from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.parsers.generate.bots import PEAK
from wfrun.parsers.generate.bots_model import Fit, TraceFits, Zipf

QUANTILES = (0.1, 0.5, 0.9)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Smallest number of tasks of each size class. The first class has bags of one task; the others are
those of section 5.2.4."""
_STEEPEST_ZIPF = 8.0


@dataclass(frozen=True, slots=True)
class Characteristic:
    """One characteristic of bags, in the model and in a workload. Values are in ``unit``, not
    logarithms."""

    name: str
    unit: str
    """``s``, ``s²``, ``tasks``, ``rank`` or ``half hour``."""
    fit: str
    """The fitted distribution, written as in Table 5.3."""
    model: tuple[float, ...]
    """Values of the fitted distribution at `QUANTILES`."""
    found: tuple[float, ...]
    """Values of the workload at `QUANTILES`."""
    distance: float
    """Kolmogorov-Smirnov distance: the largest difference between the distribution functions of the
    fit and of the workload."""
    values: int
    """Number of values of the workload that were compared."""


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The bags whose number of tasks is in one range."""

    name: str
    model: float
    """Share of the class among all bags of the model."""
    bags: float
    """Share of the class among all bags of the workload."""
    tasks: float
    """Share of the class among all tasks of the workload."""


@dataclass(frozen=True, slots=True)
class BotStatistics:
    characteristics: tuple[Characteristic, ...]
    """The characteristics of which the workload has values."""
    sizes: tuple[SizeClass, ...]
    alpha: float
    """The parameter of the Zipf distribution that fits the ranks of users best, by maximum
    likelihood."""
    users: int


def statistics_of(workload: BotWorkload, row: TraceFits) -> BotStatistics:
    """Compare the workload with the row.

    Users are ranked in each cluster by their numbers of bags, and counted by rank. Gaps are times
    between arrivals at one cluster within the peak hours of one day. Gaps and times of day are left
    out if arrivals were moved. Variances are taken from bags of two or more tasks whose run times
    differ.
    """
    users = Counter((bag.cluster, bag.user) for bag in workload.bags)
    ranks = _ranks(users)
    sizes = [len(bag) for bag in workload.bags]
    found = [_of_ranks(row.users, ranks)]
    if workload.pace > 0:
        found += _of_logs("gap at peak", "s", row.gap, list(_peak_gaps(workload)))
        found.append(_of_cycle(row.cycle, [_half_hour(workload, bag.arrival_s)
                                           for bag in workload.bags]))  # fmt: skip
    found.append(_of_sizes(row.size, sizes))
    means = [sum(bag.runtime_s) / len(bag) for bag in workload.bags]
    found += _of_logs("ART", "s", row.runtime, means)
    variances = (pvariance(bag.runtime_s) for bag in workload.bags if len(bag) > 1)
    found += _of_logs("RTV", "s²", row.variance, [v for v in variances if v > 0])
    return BotStatistics(tuple(found), tuple(_classes(row.size, sizes)), _alpha(ranks), len(users))


def _of_logs(name: str, unit: str, fit: Fit, values: list[float]) -> list[Characteristic]:
    """Compare values with a fit of their logarithms to the base 2. The result is empty without
    values."""
    if not values:
        return []
    logs = sorted(map(math.log2, values))
    expected = tuple(2 ** fit.quantile(q) for q in QUANTILES)
    found = tuple(2**x for x in _quantiles(logs))
    return [
        Characteristic(name, unit, str(fit), expected, found, _distance(logs, fit.cdf), len(logs))
    ]


def _of_cycle(fit: Fit, slots: list[float]) -> Characteristic:
    day = fit.cdf(48)
    expected = tuple(fit.quantile(q * day) for q in QUANTILES)
    slots.sort()
    distance = _distance(slots, lambda slot: fit.cdf(slot) / day)
    found = _quantiles(slots)
    return Characteristic(
        "time of day", "half hour", str(fit), expected, found, distance, len(slots)
    )


def _of_sizes(fit: Fit, sizes: list[int]) -> Characteristic:
    def at_most(size: float) -> float:
        return fit.cdf(math.log2(size + 0.5))

    expected = tuple(float(max(1, round(2 ** fit.quantile(q)))) for q in QUANTILES)
    found = _quantiles(sorted(sizes))
    distance = _distance_of_counts(Counter(sizes), at_most)
    return Characteristic("size", "tasks", str(fit), expected, found, distance, len(sizes))


def _of_ranks(zipf: Zipf, ranks: Sequence[int]) -> Characteristic:
    cumulated = zipf.cumulated()

    def at_most(rank: float) -> float:
        return cumulated[min(int(rank), len(cumulated)) - 1]

    expected = tuple(float(bisect_left(cumulated, q) + 1) for q in QUANTILES)
    counts = Counter(dict(enumerate(ranks, 1)))
    found = _quantiles(sorted(counts.elements()))
    distance = _distance_of_counts(counts, at_most)
    return Characteristic("user", "rank", str(zipf), expected, found, distance, sum(ranks))


def _quantiles(ordered: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(ordered[min(int(q * len(ordered)), len(ordered) - 1)]) for q in QUANTILES)


def _distance(ordered: Sequence[float], cdf: Callable[[float], float]) -> float:
    count = len(ordered)
    expected = map(cdf, ordered)
    return max(max(p - i / count, (i + 1) / count - p) for i, p in enumerate(expected))


def _distance_of_counts(counts: Counter[int], at_most: Callable[[float], float]) -> float:
    """The Kolmogorov-Smirnov distance of a distribution over whole numbers."""
    total, below, largest = sum(counts.values()), 0, 0.0
    for value in sorted(counts):
        below += counts[value]
        largest = max(largest, abs(below / total - at_most(value)))
    return largest


def _ranks(users: Counter[tuple[int, str]]) -> list[int]:
    """The number of bags of the users of rank 1, 2, …, summed over the clusters."""
    of_cluster: defaultdict[int, list[int]] = defaultdict(list)
    for (cluster, _), bags in users.items():
        of_cluster[cluster].append(bags)
    ranks = [0] * max(map(len, of_cluster.values()))
    for counts in of_cluster.values():
        for rank, bags in enumerate(sorted(counts, reverse=True)):
            ranks[rank] += bags
    return ranks


def _alpha(ranks: Sequence[int]) -> float:
    """The maximum likelihood estimate of Zipf's exponent. With this exponent the mean logarithm of
    the rank is that of the bags' users."""
    logs = [math.log(rank) for rank in range(1, len(ranks) + 1)]
    mean = sum(count * log for count, log in zip(ranks, logs, strict=True)) / sum(ranks)
    low, high = 0.0, _STEEPEST_ZIPF
    for _ in range(40):
        alpha = (low + high) / 2
        weights = [math.exp(-alpha * log) for log in logs]
        expected = sum(w * log for w, log in zip(weights, logs, strict=True)) / sum(weights)
        low, high = (alpha, high) if expected > mean else (low, alpha)
    return (low + high) / 2


def _clock_s(workload: BotWorkload, arrival_s: float) -> float:
    return workload.midnight_s + arrival_s / workload.pace


def _half_hour(workload: BotWorkload, arrival_s: float) -> float:
    return _clock_s(workload, arrival_s) % 86400 / 1800


def _peak_gaps(workload: BotWorkload) -> Iterator[float]:
    start_s, end_s = PEAK.start * 1800.0, PEAK.stop * 1800.0
    latest: dict[int, float] = {}
    for bag in workload.bags:
        now_s = _clock_s(workload, bag.arrival_s)
        before_s = latest.get(bag.cluster)
        latest[bag.cluster] = now_s
        if before_s is None or now_s <= before_s or now_s // 86400 != before_s // 86400:
            continue
        if start_s <= before_s % 86400 and now_s % 86400 < end_s:
            yield now_s - before_s


def _classes(fit: Fit, sizes: Sequence[int]) -> Iterator[SizeClass]:
    tasks = sum(sizes)
    for start, stop in zip(_SIZES, (*_SIZES[1:], math.inf), strict=True):
        inside = [size for size in sizes if start <= size < stop]
        below = fit.cdf(math.log2(start - 0.5)) if start > 1 else 0.0
        within = (fit.cdf(math.log2(stop - 0.5)) if stop < math.inf else 1.0) - below
        name = str(start) if stop == start + 1 else f"{start}-{stop - 1}"
        if stop == math.inf:
            name = f"{start} and over"
        yield SizeClass(name, within, len(inside) / len(sizes), sum(inside) / tasks)
