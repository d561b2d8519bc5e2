"""Run times of a moldable job by its number of processors.

The run time falls with further processors up to the largest size: "strictly increasing speedups
until a known number of processors" (RR-7365, section 3.2.1). Larger sizes are not offered. Equal
times are allowed; the searches prefer the smaller one of equally good sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from wfrun.engine.errors import InvalidError


class MoldableRunTimes(Protocol):
    """Run times of a moldable job by size, on processors of speed 1."""

    @property
    def sizes(self) -> Sequence[int]:
        """The possible numbers of processors, ascending, at least one."""

    def runtime_s(self, size: int) -> float:
        """The run time in seconds with ``size`` processors, which is one of ``sizes``."""


class Amdahl(msgspec.Struct, frozen=True):
    """Run times by Amdahl's law. A job runs for ``serial_s`` seconds on one processor; the share
    ``parallel`` of this time is divided by the number of processors. ``limit`` is the maximum
    number of processors, beyond which communication makes the job slower.

    Raises InvalidError unless ``serial_s`` is positive and finite, ``parallel`` is from 0 to 1, and
    ``limit`` is at least 1.
    """

    serial_s: float
    parallel: float
    limit: int

    def __post_init__(self) -> None:
        if not 0 < self.serial_s < math.inf:
            raise InvalidError(
                f"serial_s is {self.serial_s:g}", hint="give the seconds on one processor, above 0"
            )
        if not 0 <= self.parallel <= 1:
            raise InvalidError(
                f"parallel is {self.parallel:g}",
                hint="give the share of the work that is parallel, from 0 to 1",
            )
        if self.limit < 1:
            raise InvalidError(
                f"limit is {self.limit}", hint="give the largest number of processors, at least 1"
            )

    @property
    def sizes(self) -> Sequence[int]:
        return range(1, self.limit + 1) if self.parallel else range(1, 2)

    def runtime_s(self, size: int) -> float:
        return self.serial_s * (1.0 - self.parallel + self.parallel / size)


class RunTimeTable:
    """Measured run times, in seconds by number of processors.

    Raises InvalidError for an empty table, for sizes below 1, for times that are not positive and
    finite, and for times that grow with the size: binary search assumes that more processors take
    no more time.
    """

    def __init__(self, runtimes_s: Mapping[int, float]) -> None:
        if not runtimes_s:
            raise InvalidError(
                "the table of run times is empty", hint="give the seconds of at least one size"
            )
        self._runtimes_s = dict(sorted(runtimes_s.items()))
        self.sizes: Sequence[int] = tuple(self._runtimes_s)
        if self.sizes[0] < 1:
            raise InvalidError(
                f"the table of run times has the size {self.sizes[0]}",
                hint="sizes are numbers of processors, from 1",
            )
        before: tuple[int, float] | None = None
        for size, runtime_s in self._runtimes_s.items():
            if not 0 < runtime_s < math.inf:
                raise InvalidError(
                    f"the run time of size {size} is {runtime_s:g}", hint="give seconds above 0"
                )
            if before is not None and runtime_s > before[1]:
                raise InvalidError(
                    f"the table of run times is not monotonic: {before[1]:g} s with {before[0]} "
                    f"processors, {runtime_s:g} s with {size}",
                    hint=f"leave out the sizes from {size}, which lose time, or measure again",
                )
            before = size, runtime_s

    def runtime_s(self, size: int) -> float:
        return self._runtimes_s[size]


def fixed(size: int, runtime_s: float) -> MoldableRunTimes:
    """The run times of a rigid job, which has one size."""
    return RunTimeTable({size: runtime_s})


def amdahl_speedup(parallel: float, size: int) -> float:
    """Return the speedup on ``size`` processors over one processor if the share ``parallel`` of the
    work is parallel."""
    return 1.0 / (1.0 - parallel + parallel / size)
