"""Logs of grids with bursts of similar jobs, for studies whose traces are not public.

A user submits jobs in bursts: jobs of one application and size, with similar run times, one shortly
after the other (thesis section 7.2.3: "burst submissions", figure 7.1). Each user has a few
applications, so that earlier bursts help to predict later ones.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp, fsum, log, sqrt
from random import Random

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs.workload_log import COMPLETED, LoggedJob

DAY_S = 86_400.0
_SIZES, _SIZE_WEIGHTS = (2, 4, 8, 16, 32), (35, 30, 20, 10, 5)


class GridLogModel(msgspec.Struct, frozen=True):
    """The parameters of a generated log."""

    jobs: int
    span_s: float
    """Length in seconds of the period in which jobs are submitted."""
    mean_runtime_s: float
    """Mean run time of all jobs, in seconds."""
    sigma: float
    """Standard deviation of the logarithms of the run times of all bursts. Half of the variance is
    between applications."""
    spread: float
    """Standard deviation of the logarithms of the run times within a burst."""
    longest_s: float
    users: int
    parallel: float = 0.0
    """Share of the applications that use more than one processor."""
    applications: int = 3
    """Number of applications of each user."""
    user_alpha: float = 1.3
    """Users submit bursts by Zipf's law with this exponent."""
    burst_median: float = 5.0
    burst_sigma: float = 1.5
    largest_burst: int = 1500
    gap_s: float = 0.2
    """Mean time in seconds between the submissions of a burst."""


def generate_grid_log(model: GridLogModel, seed: int = 0) -> tuple[LoggedJob, ...]:
    """A log of exactly ``model.jobs`` jobs, in order of submission. The submission rate follows the
    hours of the day: half of the mean by night, one and a half times the mean by day. Equal
    arguments give equal logs. Raises InvalidError for a model without jobs or time."""
    if model.jobs < 1 or not model.span_s > 0:
        raise InvalidError(
            f"a log of {model.jobs} jobs in {model.span_s} s cannot be generated",
            hint="ask for at least one job, and a positive time",
        )
    random = Random(f"grid-log/{seed}")
    users = _users(model, random)
    weights = list(accumulate((rank + 1) ** -model.user_alpha for rank in range(model.users)))
    drawn: list[tuple[float, float, int, int, int]] = []
    while len(drawn) < model.jobs:
        user = random.choices(range(model.users), cum_weights=weights)[0]
        application = random.randrange(model.applications)
        typical_s, cores = users[user][application]
        drawn += _burst(model, random, user, application, typical_s, cores)
    del drawn[model.jobs :]
    drawn.sort()
    scale = _scale([job[1] for job in drawn], model)
    return tuple(
        LoggedJob(
            id=number,
            submit_s=submit_s,
            runtime_s=min(model.longest_s, max(1.0, runtime_s * scale)),
            processors=cores,
            requested_processors=cores,
            status=COMPLETED,
            user=user + 1,
            application=user * model.applications + application + 1,
        )
        for number, (submit_s, runtime_s, cores, user, application) in enumerate(drawn, 1)
    )


def _scale(lengths: list[float], model: GridLogModel) -> float:
    """The factor that gives the run times the model's mean. Each run time is first multiplied by
    the factor, then cut at the model's longest run time."""
    low, high = 0.0, model.longest_s / min(lengths)
    for _ in range(60):
        middle = (low + high) / 2
        mean_s = fsum(min(model.longest_s, x * middle) for x in lengths) / len(lengths)
        low, high = (middle, high) if mean_s < model.mean_runtime_s else (low, middle)
    return high


def _users(model: GridLogModel, random: Random) -> list[list[tuple[float, int]]]:
    """By user and application: the typical run time in seconds before scaling, and the number of
    processors."""
    sigma = model.sigma / sqrt(2)
    return [
        [
            (random.lognormvariate(0.0, sigma), _cores(model, random))
            for _ in range(model.applications)
        ]
        for _ in range(model.users)
    ]


def _cores(model: GridLogModel, random: Random) -> int:
    if random.random() >= model.parallel:
        return 1
    return random.choices(_SIZES, _SIZE_WEIGHTS)[0]


def _burst(
    model: GridLogModel, random: Random, user: int, application: int, typical_s: float, cores: int
) -> list[tuple[float, float, int, int, int]]:
    """The jobs of a burst as (submission in seconds, run time in seconds before scaling,
    processors, user, application)."""
    size = random.lognormvariate(log(model.burst_median), model.burst_sigma)
    count = max(1, min(model.largest_burst, round(size)))
    own_s = typical_s * random.lognormvariate(0.0, model.sigma / sqrt(2))
    now_s = _arrival_s(model, random)
    found = []
    for _ in range(count):
        runtime_s = own_s * exp(random.gauss(0.0, model.spread))
        found.append((now_s, runtime_s, cores, user, application))
        now_s = min(model.span_s, now_s + random.expovariate(1 / model.gap_s))
    return found


def _arrival_s(model: GridLogModel, random: Random) -> float:
    """The time of a burst in seconds. Times from 8 to 20 o'clock are three times as likely as
    others."""
    while True:
        at_s = random.random() * model.span_s
        by_day = 8 <= at_s % DAY_S / 3600 < 20
        if by_day or random.random() < 1 / 3:
            return at_s
