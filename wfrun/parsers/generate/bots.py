"""Workloads of bags of tasks, drawn from the model of the thesis's section 5.2.

Every cluster receives an independent stream of bags (section 5.3.3). As the thesis specifies, users
are drawn by Zipf ranks. Gaps between arrivals follow the fit of the peak hours, stretched at other
hours by the daily cycle. Sizes, mean run times (ART) and their variability (RTV) come from the fits
of one row of Table 5.3 (`wfrun.parsers.generate.bots_model`). The thesis leaves some choices open.
They are made as follows:

- ART and RTV of a bag are the same quantile of their fits. Logs show a correlation: the correlation
  of their logarithms is 0.92 in LPC-EGEE-2004 and 0.71 in HPC2N-2002. If they were drawn
  independently, a third of the bags would have a variance that no positive run times of that mean
  can have.
- Each user has a few applications. By default their bags are independent, as in the thesis. With a
  ``likeness`` the bags of an application are alike: their quantiles come from normal deviates with
  that correlation. Both logs show about `LIKENESS`. The distribution over all bags remains that of
  the fits.
- A run time within a bag is 1 s plus a log-normal share of ART - 1 s, scaled such that the bag's
  own mean and variance are ART and RTV. The shares are log-normal because run times are skewed and
  none is 0. The variance within a bag of n tasks is at most n - 1 squared means; a bag of one task
  has none.
- No task runs longer than `LONGEST_S`. Some fits (T4's) have no finite mean in seconds, so that a
  few tasks would be most of the work. The remarks of the workload state what was cut.
"""

from __future__ import annotations

import difflib
import heapq
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from random import Random
from statistics import NormalDist
from typing import Literal, NamedTuple

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.bot_workload import BotWorkload, SubmittedBag
from wfrun.parsers.generate.bots_model import LEAST, MOST, ROWS, Fit, TraceFits

LONGEST_S = 6 * 3600.0
LIKENESS = 0.5
"""Correlation of any two bags of an application in logs: 0.50 in LPC-EGEE-2004 and 0.41 in
HPC2N-2002, for the logarithm of the mean run time."""
APPLICATIONS = 3
"""Number of applications of each user."""
MAX_TASKS = 1_000_000
_LONGEST_MEAN_S = 1000 * 86400.0
_MOST_WRONG = 1_000_000.0
PEAK = range(16, 34)
"""Half hours from 8 to 17 o'clock."""
_HALF_HOUR_S = 1800.0
_STEEPEST = 20.0
"""Maximum standard deviation of the natural logarithms of a bag's run times."""
_NORMAL = NormalDist()

Arrival = Literal["realistic", "at-once", "even"]
Streams = Literal["equal", "slots"]


def generate_workload(
    sites: Sequence[SiteSpec],
    *,
    row: str = "average",
    load: float = 0.6,
    tasks: int = 60_000,
    seed: int = 0,
    arrival: Arrival = "realistic",
    median_size: float | None = None,
    mean_runtime_s: float | None = None,
    inaccuracy: float = 0.0,
    likeness: float = 0.0,
    streams: Streams = "equal",
    rate: float = 1.0,
) -> BotWorkload:
    """A workload of exactly ``tasks`` tasks for these clusters, one stream for each.

    All times between arrivals are multiplied by one factor. It is chosen such that the work, in
    seconds on the reference processor, is ``load`` times what all slots can do at their speeds from
    the first to the last arrival. Days become shorter or longer by this factor, as for logs
    (`wfrun.parsers.logs.scale_load`). The last bag is cut to the number of tasks.

    With ``arrival`` "at-once" all bags arrive at 0, with "even" at equal distances within the same
    span. Sizes are multiplied such that their fit has the median ``median_size``. The part of each
    run time above 1 s is multiplied such that the mean over all tasks is ``mean_runtime_s``.
    ``inaccuracy`` is the I of section 5.4.3, in percent: estimates are max(R + E/100 R, 1) with E
    uniform in [-I, I]. ``likeness`` is the correlation of any two bags of an application, from 0
    (independent) to 1. With ``streams`` "equal" all clusters get streams of the same rate, with
    "slots" rates in proportion to their slots. Bags arrive ``rate`` times as often as in the model;
    days keep their length, so that a day has more bags.

    The same arguments give the same workload; workloads that differ in load, arrival or inaccuracy
    alone have the same bags. Raises InvalidError for an unknown row, no cluster, or a number out of
    its range.
    """
    fits = row_called(row)
    _check(sites, tasks, median_size, mean_runtime_s)
    _check_likeness(likeness)
    longer = 0.0
    if median_size is not None:
        longer = math.log2(median_size) - fits.size.quantile(0.5)
    slots = sum(site.slots for site in sites) / len(sites)
    arriving = [
        _stream(
            _Stream(fits, site.name, place, seed, longer, tasks, likeness),
            rate * (site.slots / slots if streams == "slots" else 1.0),
        )
        for place, site in enumerate(sites)
    ]
    bags, remarks = _first(heapq.merge(*arriving, key=lambda bag: bag.arrival_s), tasks)
    if len(bags) < 2:
        raise InvalidError(
            f"so few tasks ({tasks}) are a single bag, which has no load",
            hint="Ask for more tasks.",
        )
    if mean_runtime_s is not None:
        bags = _with_mean(bags, mean_runtime_s)
    workload = BotWorkload(
        row,
        tuple(site.name for site in sites),
        tuple(bags),
        sum(site.slots * site.speed_ratio for site in sites),
        bags[-1].arrival_s - bags[0].arrival_s,
        remarks=remarks,
    )
    return with_estimates(at_load(workload, load, arrival), inaccuracy, seed)


def row_called(name: str) -> TraceFits:
    """The row of Table 5.3 with that name. Raises InvalidError for an unknown name."""
    if name in ROWS:
        return ROWS[name]
    close = difflib.get_close_matches(name.lower(), ROWS, n=1)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    raise InvalidError(
        f"there is no row {name!r} of the workload model",
        hint=f"{guess}Rows: {', '.join(ROWS)}.",
    )


def at_load(workload: BotWorkload, load: float, arrival: Arrival = "realistic") -> BotWorkload:
    """Multiply the times between arrivals by one factor, such that the workload offers ``load`` to
    the clusters. The first bag arrives at 0.

    ``arrival`` "even" then spreads the bags evenly over the same span, and "at-once" lets all bags
    arrive at 0. Raises InvalidError if the span of ``workload`` is 0 or its capacity is unknown,
    and for a load that is not positive.
    """
    if not 0 < load < math.inf:
        raise InvalidError(
            f"a load of {load} cannot be reached",
            hint="Give one above 0; 0.6 keeps 60% of the processors busy.",
        )
    if not workload.load > 0:
        raise InvalidError(
            "a workload without a span or processors has no load to change",
            source=workload.source,
            hint="Take one of several bags.",
        )
    factor, first_s = workload.load / load, workload.bags[0].arrival_s
    last = len(workload.bags) - 1
    span_s = workload.span_s * factor
    bags = []
    for number, bag in enumerate(workload.bags):
        at_s = (bag.arrival_s - first_s) * factor
        if arrival != "realistic":
            at_s = span_s * number / last if arrival == "even" else 0.0
        delay_s = bag.delay_s
        if delay_s is not None:
            delay_s = array("d", [round(s * factor, 3) for s in delay_s])
        bags.append(replace(bag, arrival_s=round(at_s, 3), delay_s=delay_s))
    midnight_s = workload.midnight_s + (first_s / workload.pace if workload.pace else 0.0)
    return replace(
        workload,
        bags=tuple(bags),
        span_s=span_s,
        midnight_s=midnight_s % 86400,
        pace=workload.pace * factor if arrival == "realistic" else 0.0,
    )


def with_estimates(workload: BotWorkload, inaccuracy: float, seed: int = 0) -> BotWorkload:
    """Give the bags estimates that are wrong by up to ``inaccuracy`` percent (section 5.4.3). With
    0 the bags keep their estimates."""
    if not 0 <= inaccuracy <= _MOST_WRONG:
        raise InvalidError(
            f"estimates cannot be inaccurate by {inaccuracy}%",
            hint=f"Give 0 for the run times themselves, or a percentage up to {_MOST_WRONG:.0f}.",
        )
    if inaccuracy == 0:
        return workload
    rng, most = Random(f"{seed}/estimates"), inaccuracy / 100
    bags = []
    for bag in workload.bags:
        wrong = (max(x + rng.uniform(-most, most) * x, 1.0) for x in bag.runtime_s)
        bags.append(replace(bag, estimate_s=array("d", (round(x, 2) for x in wrong))))
    return replace(workload, bags=tuple(bags))


def _check(
    sites: Sequence[SiteSpec],
    tasks: int,
    median_size: float | None,
    mean_runtime_s: float | None,
) -> None:
    if not sites:
        raise InvalidError("a workload needs a cluster", hint="Give a catalog with sites.")
    if not 1 <= tasks <= MAX_TASKS:
        raise InvalidError(
            f"a workload cannot have {tasks} tasks", hint=f"Ask for 1 to {MAX_TASKS:,} tasks."
        )
    if median_size is not None and not 1 <= median_size <= tasks:
        raise InvalidError(
            f"bags of a workload of {tasks} tasks cannot have a median of {median_size}",
            hint="Give 1 to the number of tasks; the thesis has 10 to 50.",
        )
    if mean_runtime_s is not None and not 1 <= mean_runtime_s <= _LONGEST_MEAN_S:
        raise InvalidError(
            f"tasks cannot run for {mean_runtime_s} s on average",
            hint="Give 1 s to 1000 d; the thesis has 3 min to 3 h.",
        )


def _check_likeness(likeness: float) -> None:
    if not 0 <= likeness <= 1:
        raise InvalidError(
            f"bags of an application cannot have a correlation of {likeness}",
            hint=f"Give 0 (independent) to 1; logs have about {LIKENESS}.",
        )


def _first(bags: Iterator[SubmittedBag], tasks: int) -> tuple[list[SubmittedBag], tuple[str, ...]]:
    """Take bags until they have exactly ``tasks`` tasks, and cut run times to `LONGEST_S`. Return
    the bags, and remarks on what was cut."""
    chosen = []
    left, cut, cut_s, work_s = tasks, 0, 0.0, 0.0
    while left > 0:
        bag = next(bags)
        long_s = bag.runtime_s[:left]
        left -= len(long_s)
        work_s += sum(long_s)
        cut += sum(1 for x in long_s if x > LONGEST_S)
        cut_s += sum(x - LONGEST_S for x in long_s if x > LONGEST_S)
        chosen.append(_with_runtimes(bag, (min(x, LONGEST_S) for x in long_s)))
    if not cut:
        return chosen, ()
    return chosen, (
        f"{cut} of {tasks} tasks are cut to {LONGEST_S / 3600:g} h, "
        f"{cut_s / work_s:.1%} of the work that was drawn",
    )


def _with_mean(bags: Sequence[SubmittedBag], mean_s: float) -> list[SubmittedBag]:
    above_s = sum(sum(bag.runtime_s) - len(bag) for bag in bags)
    factor = (mean_s - 1) * sum(map(len, bags)) / above_s if above_s > 0 else 0.0
    return [_with_runtimes(bag, (1 + (x - 1) * factor for x in bag.runtime_s)) for bag in bags]


def _with_runtimes(bag: SubmittedBag, runtimes: Iterator[float]) -> SubmittedBag:
    rounded = array("d", (max(round(x, 2), 1.0) for x in runtimes))
    return replace(bag, runtime_s=rounded, estimate_s=rounded)


class _Stream(NamedTuple):
    """Parameters of the stream of bags of one cluster."""

    row: TraceFits
    site: str
    place: int
    seed: int
    longer: float
    """Number added to the base-2 logarithm of the size of each bag."""
    most: int
    """Maximum number of tasks of a bag."""
    likeness: float


def _stream(stream: _Stream, rate: float) -> Iterator[SubmittedBag]:
    """Yield the bags of a cluster in order of arrival, without end. The arrival rate is ``rate``
    times that of the model."""
    row, site, place, seed, longer, most, likeness = stream
    gaps, choices, rest = (Random(f"{seed}/{site}/{what}") for what in ("gaps", "bags", "tasks"))
    cycle, users = DailyCycle(row.cycle), row.users.cumulated()
    levels: dict[str, float] = {}
    passed_s = 0.0
    while True:
        passed_s += 2 ** _draw(row.gap, gaps) / rate
        rank = min(bisect_left(users, choices.random()), len(users) - 1) + 1
        user = f"{site}.u{rank}"
        application = f"{user}.a{choices.randrange(APPLICATIONS) + 1}"
        if application not in levels:
            levels[application] = Random(f"{seed}/{application}").gauss(0, 1)
        deviate = math.sqrt(likeness) * levels[application]
        deviate += math.sqrt(1 - likeness) * choices.gauss(0, 1)
        probability = min(max(_NORMAL.cdf(deviate), LEAST), MOST)
        size = min(max(1, round(2 ** (_draw(row.size, choices) + longer))), most)
        mean_s = 2 ** row.runtime.quantile(probability)
        times = spread(mean_s, 2 ** row.variance.quantile(probability), size, rest)
        yield SubmittedBag(cycle.time_s(passed_s), place, user, application, times, times)


def _draw(fit: Fit, rng: Random) -> float:
    return fit.quantile(min(max(rng.random(), LEAST), MOST))


class DailyCycle:
    """The arrival rate in each half hour of the day, relative to the mean of the peak hours.

    The part of the fitted distribution beyond the 48 half hours of a day is dropped.
    """

    __slots__ = ("ends_s", "rates")

    def __init__(self, fit: Fit) -> None:
        shares = [fit.cdf(slot + 1) - fit.cdf(slot) for slot in range(48)]
        peak = sum(shares[slot] for slot in PEAK) / len(PEAK)
        self.rates = [share / peak for share in shares]
        widths_s = (rate * _HALF_HOUR_S for rate in self.rates)
        self.ends_s = list(accumulate(widths_s, initial=0.0))

    def time_s(self, passed_s: float) -> float:
        """Seconds from the first midnight until as many bags have arrived as arrive in ``passed_s``
        seconds of peak hours."""
        days, left_s = divmod(passed_s, self.ends_s[-1])
        slot = min(bisect_right(self.ends_s, left_s), 48) - 1
        within_s = (left_s - self.ends_s[slot]) / self.rates[slot]
        return days * 86400 + slot * _HALF_HOUR_S + within_s


def spread(mean_s: float, variance: float, size: int, rng: Random) -> array[float]:
    """Draw ``size`` run times of at least 1 s whose own mean is ``mean_s``. Their own variance is
    ``variance``, or the largest that ``size`` such run times can have."""
    above_s = mean_s - 1
    if size == 1 or above_s <= 0:
        return array("d", [max(mean_s, 1.0)]) * size
    deviates = [rng.gauss(0, 1) for _ in range(size)]
    target = variance / above_s**2
    low, high = 0.0, _STEEPEST
    shares = _shares(deviates, high)
    if _squares(shares) > target:
        sigma = min(math.sqrt(math.log1p(target)), high)
        while True:  # Bisection; the first guess is right for a very large number of tasks.
            shares = _shares(deviates, sigma)
            varied = _squares(shares)
            if abs(varied - target) <= 1e-3 * target or high - low < 1e-9:
                break
            low, high = (sigma, high) if varied < target else (low, sigma)
            sigma = (low + high) / 2
    return array("d", [1 + above_s * share for share in shares])


def _shares(deviates: Sequence[float], sigma: float) -> list[float]:
    """Log-normal shares with a mean of 1."""
    weights = [math.exp(sigma * deviate) for deviate in deviates]
    total = sum(weights) / len(weights)
    return [weight / total for weight in weights]


def _squares(shares: Sequence[float]) -> float:
    """The variance of shares with a mean of 1."""
    return sum(share * share for share in shares) / len(shares) - 1
