"""Latency and bandwidth of a link, as measured by copies of files.

A copy of n bytes takes t = latency + n / bandwidth (the linear model of Hockney, *Parallel
Computing* 20(3), 1994, section 2). Small files show the first term, large ones the second. Both
estimates are medians over a window of the latest copies: up to half of them may be outliers, such
as copies that stalled, and a link that has changed is known after half a window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

WINDOW = 16
"""Maximum number of copies in an estimate, which uses the latest copies."""
MIN_COPIES = 3
"""Minimum number of copies in an estimate: the median of fewer copies is no protection against an
outlier."""
LATENCY_BYTES = 64 * 1024
"""Maximum size of a file whose copy shows the latency. Such a file crosses most links in a few
milliseconds; larger files show the bandwidth."""


class LinkSample(NamedTuple):
    """A measurement of a link by one copy: of its latency or of its bandwidth."""

    at_s: float
    """End of the copy."""
    size_bytes: int
    value: float
    """The latency in seconds, or the bandwidth in bytes per second."""

    @property
    def is_latency(self) -> bool:
        return self.size_bytes <= LATENCY_BYTES


class _Copy(NamedTuple):
    ended_s: float
    elapsed_s: float
    size_bytes: int


class LinkSamples:
    """The latest copies over one link, in one direction."""

    __slots__ = ("_large", "_small", "method")

    def __init__(self) -> None:
        self._small: deque[_Copy] = deque(maxlen=WINDOW)
        self._large: deque[_Copy] = deque(maxlen=WINDOW)
        self.method = ""
        """The transfer method of the latest large copy; without a large copy, of the latest small
        copy, which may use another method. Empty if unknown."""

    def add(self, ended_s: float, elapsed_s: float, size_bytes: int, method: str = "") -> None:
        """Add a copy, unless it took no time, as in a simulation, or sent no bytes, as for an image
        in the cache of a site."""
        if 0 < elapsed_s < inf and size_bytes > 0:
            copies = self._small if size_bytes <= LATENCY_BYTES else self._large
            copies.append(_Copy(ended_s, elapsed_s, size_bytes))
            if size_bytes > LATENCY_BYTES or not self._large:
                self.method = method

    def latencies(self) -> list[LinkSample]:
        """The durations of the small copies, which include the time for their few bytes."""
        return [LinkSample(copy.ended_s, copy.size_bytes, copy.elapsed_s) for copy in self._small]

    def bandwidths(self) -> list[LinkSample]:
        """For each large copy, the throughput of the link during it.

        Copies share the link, so the bytes that other copies moved during the copy count, too. Each
        copy is assumed to move its bytes at a steady rate after its latency. Since the latency
        varies, at least half of the duration of a copy counts as time for its bytes. Cost: the
        square of WINDOW.
        """
        latency_s = latency_of(self.latencies()) or 0.0
        spans = [
            (copy.ended_s, max(copy.elapsed_s - latency_s, copy.elapsed_s / 2), copy.size_bytes)
            for copy in self._large
        ]
        found = []
        for number, (end_s, span_s, size_bytes) in enumerate(spans):
            moved = float(size_bytes)
            for other, (other_end_s, other_s, other_bytes) in enumerate(spans):
                begin_s = max(end_s - span_s, other_end_s - other_s)
                common_s = min(end_s, other_end_s) - begin_s
                if other != number and common_s > 0:
                    moved += other_bytes * min(1.0, common_s / other_s)
            found.append(LinkSample(end_s, size_bytes, moved / span_s))
        return found


def split(samples: Sequence[LinkSample]) -> tuple[list[LinkSample], list[LinkSample]]:
    """The samples that show the latency, and the samples that show the bandwidth."""
    small = [sample for sample in samples if sample.is_latency]
    return small, [sample for sample in samples if not sample.is_latency]


def latency_of(latencies: Sequence[LinkSample]) -> float | None:
    """Median of the latencies in seconds; None if there are too few."""
    return _weighted_median((s.value, 1) for s in latencies) if _suffice(latencies) else None


def bandwidth_of(bandwidths: Sequence[LinkSample]) -> float | None:
    """Median of the bandwidths in bytes per second, weighted by the sizes of the copies, since
    short copies end before a connection is at full speed; None if there are too few."""
    weighted = ((s.value, s.size_bytes) for s in bandwidths)
    return _weighted_median(weighted) if _suffice(bandwidths) else None


def _suffice(samples: Sequence[LinkSample]) -> bool:
    return len(samples) >= MIN_COPIES


def _weighted_median(values: Iterable[tuple[float, int]]) -> float:
    """Return the smallest value for which the values up to and including it have at least half of
    the total weight."""
    ordered = sorted(values)
    half = sum(weight for _, weight in ordered) / 2
    upto = accumulate(weight for _, weight in ordered)
    return next(value for (value, _), weight in zip(ordered, upto, strict=True) if weight >= half)
