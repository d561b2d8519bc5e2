"""Verdicts on statements about means, by paired differences over repetitions.

All values of a repetition come from the same workload, background and random choices, so that two
of them differ only by what is compared. A comparison of two means is decided by Student's
confidence interval of the mean difference (the paired t test), which is exact for normally
distributed differences and approximate for others. The statement holds if the interval is on its
side of zero, fails if the interval is on the other side, and is otherwise not distinguishable from
chance. If the differences of all repetitions are equal, or there is one repetition, there is no
interval, and the difference itself decides.

The t test does not suit measures with a floor or a long tail, such as waits. For these `Usual`
applies the exact sign test to the statement that the difference has the right sign in most
repetitions.

A statement of several comparisons divides its probability of error among them (Bonferroni), so that
the confidence is that of the whole statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import comb
from typing import Protocol

from wfrun.runners.metrics.samples import Summary, summarize

ERROR = 0.05
"""Maximum probability of error of a verdict: the confidence is 95%."""


class Verdict(Enum):
    """The verdict of the repetitions on a statement."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNCLEAR = "not distinguishable"


@dataclass(frozen=True)
class Sample:
    """The values of a measure, by the number of the repetition."""

    values: Mapping[int, float]

    @property
    def summary(self) -> Summary:
        """The mean with its 95% confidence interval."""
        return summarize(self.values.values())

    @property
    def mean(self) -> float:
        return self.summary.mean


def combine(function: Callable[..., float], *samples: Sample) -> Sample:
    """Apply the function to the values of each repetition that all samples have. Raises ValueError
    if they have no repetition in common."""
    common = [r for r in samples[0].values if all(r in s.values for s in samples)]
    if not common:
        raise ValueError("the samples have no repetition in common")
    return Sample({r: function(*(s.values[r] for s in samples)) for r in common})


def mean_of(samples: Iterable[Sample]) -> Sample:
    """The mean of several measures, taken in each repetition."""
    known = list(samples)
    return combine(lambda *values: sum(values) / len(values), *known)


class Statement(Protocol):
    """Something that repetitions can confirm or refute."""

    def verdict(self, error: float) -> Verdict:
        """The verdict. HOLDS and FAILS are each wrong with a probability of at most ``error``."""
        ...


@dataclass(frozen=True)
class Decided:
    """A statement that needs no repetitions."""

    holds: bool

    def verdict(self, error: float) -> Verdict:
        return Verdict.HOLDS if self.holds else Verdict.FAILS


@dataclass(frozen=True)
class MeanComparison:
    """The statement that the mean of ``difference`` over the repetitions is negative, or, if not
    ``strict``, at most zero. Student's confidence interval of the mean decides."""

    difference: Sample
    strict: bool = True

    def verdict(self, error: float) -> Verdict:
        summary = summarize(self.difference.values.values(), 1 - error)
        width = summary.half_width or 0.0
        low, high = summary.mean - width, summary.mean + width
        if high < 0 or (high == 0 and not self.strict):
            return Verdict.HOLDS
        if low > 0 or (low == 0 and self.strict):
            return Verdict.FAILS
        return Verdict.UNCLEAR


@dataclass(frozen=True)
class Usual:
    """The statement that the difference is negative (or, if not ``strict``, at most zero) in more
    than half of all repetitions. It is decided by the exact sign test, which assumes no
    distribution."""

    difference: Sample
    strict: bool = True

    def verdict(self, error: float) -> Verdict:
        values = self.difference.values.values()
        held = sum(value < 0 or (value == 0 and not self.strict) for value in values)
        if _half_or_more(held, len(values)) <= error / 2:
            return Verdict.HOLDS
        if _half_or_more(len(values) - held, len(values)) <= error / 2:
            return Verdict.FAILS
        return Verdict.UNCLEAR


def _half_or_more(count: int, of: int) -> float:
    """Probability of at least ``count`` heads when ``of`` coins are tossed."""
    return float(sum(comb(of, k) for k in range(count, of + 1))) / 2.0**of


@dataclass(frozen=True)
class AtLeast:
    """The statement that at least ``count`` (1 or more) of n statements are true.

    The error is divided such that the verdict is wrong with a probability of at most ``error``.
    HOLDS is wrong only if an untrue statement is confirmed. At worst count - 1 statements are true
    and n - count + 1 are untrue, so each of the n statements is tested with error / (n - count +
    1). For FAILS each statement is tested with error / ``count``.
    """

    count: int
    statements: Sequence[Statement]

    def verdict(self, error: float) -> Verdict:
        spare = len(self.statements) - self.count
        held = [s.verdict(error / (spare + 1)) for s in self.statements]
        if held.count(Verdict.HOLDS) >= self.count:
            return Verdict.HOLDS
        failed = [s.verdict(error / self.count) for s in self.statements]
        return Verdict.FAILS if failed.count(Verdict.FAILS) > spare else Verdict.UNCLEAR


def all_of(statements: Iterable[Statement]) -> AtLeast:
    """The statement that all of ``statements`` are true."""
    known = list(statements)
    return AtLeast(len(known), known)


def any_of(statements: Iterable[Statement]) -> AtLeast:
    """The statement that at least one of ``statements`` is true."""
    return AtLeast(1, list(statements))


def most_of(statements: Iterable[Statement]) -> AtLeast:
    """The statement that more than half of ``statements`` are true."""
    known = list(statements)
    return AtLeast(len(known) // 2 + 1, known)


Value = Sample | float


def less(one: Value, other: Value, *, times: float = 1.0, strict: bool = True) -> MeanComparison:
    """The statement that the mean of ``one`` is less than ``times`` that of ``other`` (or equal, if
    not ``strict``). At least one of ``one`` and ``other`` must be a sample."""
    if isinstance(one, Sample) and isinstance(other, Sample):
        return MeanComparison(combine(lambda a, b: a - times * b, one, other), strict)
    if isinstance(one, Sample):
        bound = times * float(other)  # type: ignore[arg-type]
        return MeanComparison(combine(lambda a: a - bound, one), strict)
    assert isinstance(other, Sample)
    return MeanComparison(combine(lambda b: one - times * b, other), strict)


def usually_less(one: Sample, other: Sample, *, times: float = 1.0, strict: bool = True) -> Usual:
    """The statement that in most repetitions ``one`` is less than ``times`` ``other`` (or equal, if
    not ``strict``)."""
    return Usual(combine(lambda a, b: a - times * b, one, other), strict)


def similar(values: Iterable[Sample], ratio: float) -> AtLeast:
    """The statement that the largest mean is at most ``ratio`` times the smallest."""
    known = list(values)
    return all_of(less(a, b, times=ratio, strict=False) for a in known for b in known if a is not b)


def near(value: Sample, claimed: float, ratio: float = 2.0) -> AtLeast:
    """The statement that a mean is between ``claimed`` / ``ratio`` and ``ratio`` times ``claimed``.
    ``claimed`` must be positive."""
    return all_of((
        less(claimed / ratio, value, strict=False),
        less(value, claimed * ratio, strict=False),
    ))  # fmt: skip


def all_less(
    values: Mapping[str, Sample], smaller: Iterable[str], *, than: Iterable[str] | None = None
) -> AtLeast:
    """The statement that each mean of ``smaller`` is less than each mean of ``than``, by default of
    all other names."""
    few = list(smaller)
    rest = [name for name in values if name not in few] if than is None else list(than)
    return all_of(less(values[a], values[b]) for a in few for b in rest)


def all_more(
    values: Mapping[str, Sample], larger: Iterable[str], *, than: Iterable[str] | None = None
) -> AtLeast:
    """The statement that each mean of ``larger`` is more than each mean of ``than``, by default of
    all other names."""
    few = list(larger)
    rest = [name for name in values if name not in few] if than is None else list(than)
    return all_of(less(values[b], values[a]) for a in few for b in rest)


def upper_half(values: Mapping[str, Sample], name: str) -> AtLeast:
    """The statement that the mean of ``name`` is more than the means of at least half of the other
    names. The size of an extreme mean does not matter."""
    others = [other for other in values if other != name]
    return AtLeast((len(others) + 1) // 2, [less(values[other], values[name]) for other in others])


def lower_half(values: Mapping[str, Sample], name: str) -> AtLeast:
    """The statement that the mean of ``name`` is less than the means of at least half of the other
    names."""
    others = [other for other in values if other != name]
    return AtLeast((len(others) + 1) // 2, [less(values[name], values[other]) for other in others])
