"""The pace of a site without launchers: latency, run times and throughput, as observed, and the
number of tasks to prefetch there."""

from __future__ import annotations

from math import ceil, sqrt

from wfrun.engine.tasks.prefetch import (
    MAX_PREFETCH_PER_SLOT,
    MAX_RUNTIME_RATIO,
    MIN_WAIT_RATIO,
)

WINDOW = 20
"""Number of observations after which each further observation has the constant weight 1/`WINDOW` in
a moving mean. Also the minimum number of cores whose ends determine the throughput."""

DEVIATIONS = 2
"""Number of standard deviations above the mean in upper estimates of latency and of starts."""

MAX_GROWTH = 1.5
"""Maximum ratio of the throughput that prefetching assumes to the observed throughput. Too few
prefetched tasks limit the observed throughput, so prefetching must exceed it to find a higher
one."""


class Moments:
    """Moving mean and standard deviation of observed values."""

    __slots__ = ("_count", "_variance", "mean")

    def __init__(self) -> None:
        self.mean: float | None = None
        self._count = 0
        self._variance = 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation; 0 before the second value."""
        return sqrt(self._variance)

    @property
    def upper(self) -> float:
        """The mean plus `DEVIATIONS` standard deviations; 0 before the first value."""
        return (self.mean or 0.0) + DEVIATIONS * self.deviation

    def observe(self, value: float) -> None:
        """Observe a value."""
        if self._count < WINDOW:
            self._count += 1
        mean = self.mean or 0.0
        difference, weight = value - mean, 1 / self._count
        self.mean = mean + weight * difference
        self._variance = (1 - weight) * (self._variance + weight * difference * difference)

    def restart(self, value: float) -> None:
        """Forget all values but this one."""
        self.mean, self._count, self._variance = value, 1, 0.0


class Pace:
    """The pace of one site. ``assumed_latency_s`` is its latency until one is observed."""

    __slots__ = ("_assumed_latency_s", "_busy_cores", "_busy_s", "_busy_squares", "_cost",
                 "_ended_cores", "_last_end_s", "_latency", "_runtime")  # fmt: skip

    def __init__(self, assumed_latency_s: float) -> None:
        self._assumed_latency_s = assumed_latency_s
        self._latency = Moments()
        """Time that an attempt takes beside its run time if it finds idle slots: staging,
        submission, start, and the report of its end."""
        self._cost = Moments()
        """The latency without staging."""
        self._runtime = Moments()
        self._ended_cores = 0
        self._busy_cores = 0.0
        self._busy_s = 0.0
        self._busy_squares = 0.0
        """``_busy_cores``, ``_busy_s`` and ``_busy_squares``, for attempts that ended while others
        waited: their cores, the time between their ends in seconds, and the sum of the squares of
        these times. All decay with every end."""
        self._last_end_s: float | None = None
        """Time of the last end of an attempt; None if no other attempt waited then."""

    @property
    def latency_s(self) -> float:
        """Mean latency in seconds, or the assumed latency before the first observation."""
        return self._assumed_latency_s if self._latency.mean is None else self._latency.mean

    @property
    def runtime_s(self) -> float | None:
        """Mean run time of tasks in seconds; None before the first success."""
        return self._runtime.mean

    @property
    def cost_s(self) -> float | None:
        """Mean overhead of a task without its staging, such as that of its batch job, in seconds;
        None before the first observation."""
        return self._cost.mean

    def on_success(
        self, runtime_s: float, overhead_s: float, staging_s: float = 0.0, *, found_idle: bool
    ) -> None:
        """Observe an attempt that succeeded. ``overhead_s``: time for which it was dispatched,
        without its run time; ``staging_s``: part of this time in which inputs were staged;
        ``found_idle``: whether a slot was idle when it was placed. If not, ``overhead_s`` includes
        the wait for a slot, and is an upper bound of the latency."""
        self._runtime.observe(runtime_s)
        if found_idle or overhead_s < self.latency_s:
            self._latency.observe(overhead_s)
            self._cost.observe(max(0.0, overhead_s - staging_s))

    def on_end(self, now_s: float, cores: int, slots: int, *, others_wait: bool) -> None:
        """Observe the end of an attempt that ran. ``others_wait``: more cores were dispatched than
        there are slots."""
        self._ended_cores += cores
        last_s, self._last_end_s = self._last_end_s, now_s if others_wait else None
        if others_wait and last_s is not None:
            kept = max(0.0, 1 - cores / max(WINDOW, 2 * slots))
            between_s = now_s - last_s
            self._busy_s = kept * self._busy_s + between_s
            self._busy_squares = kept * self._busy_squares + between_s * between_s
            self._busy_cores = kept * self._busy_cores + cores

    def on_waited(self, waited_s: float) -> None:
        """Observe that an attempt has waited for this time, although it should have found an idle
        slot. If the time exceeds the mean latency, it replaces the mean."""
        if waited_s > self.latency_s:
            self._latency.restart(waited_s)

    def on_interruption(self) -> None:
        """Exclude the time since the last end from the throughput: the site was not observed."""
        self._last_end_s = None

    def cores_per_s(self, slots: int) -> float | None:
        """Cores that become free each second while attempts wait; None before the first success.
        The rate is not bounded by run times alone: a batch system may start jobs more slowly than
        they end."""
        if slots <= 0:
            return 0.0
        runtime_s = self._runtime.mean
        return None if runtime_s is None else self._bounded_rate(slots, runtime_s, 1.0)

    def _bounded_rate(self, slots: int, runtime_s: float, growth: float) -> float:
        rate = slots / runtime_s if runtime_s > 0 else float("inf")
        return min(rate, growth * self._busy_cores / self._busy_s) if self._busy_s > 0 else rate

    def _variation_between_ends(self) -> float:
        """Coefficient of variation of the times between ends; 1, that of a Poisson process, before
        they were observed."""
        if self._busy_s <= 0:
            return 1.0
        square = self._busy_squares * self._busy_cores / self._busy_s**2
        return sqrt(max(0.0, square - 1))

    def prefetched_cores(self, slots: int) -> int:
        """Number of cores of attempts to dispatch beyond the slots, so that slots do not wait for
        the engine: as many as start during the latency. The number is 0 if the run time exceeds
        `MAX_RUNTIME_RATIO` times the latency, unless a core becomes free within `MIN_WAIT_RATIO`
        times ``cost_s``: a task that waits so briefly would not be moved to another site.

        Latency and run times vary. The latency is taken two standard deviations above its mean. The
        number n of starts during it varies as in a renewal process, with a standard deviation of √n
        times the coefficient of variation of the times between ends: tasks that started together
        end together. Two standard deviations are added, but at most one core for each slot.
        Prefetching begins slowly, with no more cores than have ended here.
        """
        runtime_s = self._runtime.mean
        if runtime_s is None or slots <= 0:
            return 0
        latency_s = self._latency.upper
        if latency_s <= 0:
            return 0
        rate = self._bounded_rate(slots, runtime_s, MAX_GROWTH)
        is_long = runtime_s > MAX_RUNTIME_RATIO * latency_s
        if is_long and MIN_WAIT_RATIO * self._cost.upper * rate < 1:
            return 0
        started = min(rate * latency_s, float(MAX_PREFETCH_PER_SLOT * slots))
        more = DEVIATIONS * self._variation_between_ends() * sqrt(started)
        wanted = started + min(more, float(slots))
        return min(ceil(wanted), self._ended_cores, MAX_PREFETCH_PER_SLOT * slots)
