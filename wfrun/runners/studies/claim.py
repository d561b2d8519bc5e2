"""Claims of the thesis, and their tests on our simulations.

Claims are in our words. Words such as "slightly" and "similar" have
no number there; the bounds that stand for them here are constants below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from wfrun.runners.studies.workflows import paper
from wfrun.runners.studies.workflows.samples import Samples, number

SIMILAR = 1.25
"""Ratio of the largest to the smallest mean up to which results are called similar."""
IDENTICAL = 1.02
MUCH = 1.5
"""Minimum ratio of *much* worse, or of a *substantial* increase."""

SMALL = ("wf-small1", "wf-small2")
LARGE = ("wf-large1", "wf-large2")

Finding = tuple[bool, str]
"""Whether a claim holds, and the numbers."""


SamplesT = TypeVar("SamplesT")
"""The results of a study."""


@dataclass(frozen=True)
class Claim(Generic[SamplesT]):
    """A statement of the thesis."""

    where: str
    text: str
    test: Callable[[SamplesT], Finding]


class Claims(list[Claim[SamplesT]]):
    """Claims in the order of the text; ``add`` registers the test that it decorates."""

    def add(self, where: str, text: str) -> Callable[[Callable[[SamplesT], Finding]], None]:
        return lambda test: self.append(Claim(where, text, test))


class Answer(NamedTuple):
    """A claim, and whether it holds here."""

    number: int
    claim: Claim[Any]
    holds: bool
    """Whether it holds by the means over the repetitions."""
    evidence: str
    """The means."""
    usually: bool
    """Whether it holds by the medians, which a few repetitions with full queues do not change."""


def answer(claims: Iterable[Claim[SamplesT]], means: SamplesT, medians: SamplesT) -> list[Answer]:
    """Test every claim by means and by medians."""
    return [
        Answer(number, claim, *claim.test(means), claim.test(medians)[0])
        for number, claim in enumerate(claims, 1)
    ]


# Values, and how they are listed


def means(
    s: Samples, workload: str, measure: str, *, loaded: bool, policies: Iterable[str] = ()
) -> dict[str, float]:
    """Means of single workflows by policy; by default all policies of Table 6.3."""
    chosen = tuple(policies) or tuple(paper.TABLE_6_3[workload, loaded])
    return {p: s.single(workload, p, measure, loaded=loaded).mean for p in chosen}


def listed(values: dict[str, float]) -> str:
    """The values by name, as a text."""
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def spread(values: Iterable[float]) -> float:
    """Ratio of the largest to the smallest value."""
    known = list(values)
    return max(known) / min(known)


def ranked(values: dict[str, float]) -> list[str]:
    """The names in the order of their values, smallest first."""
    return sorted(values, key=lambda name: values[name])


def both(findings: Iterable[tuple[str, Finding]]) -> Finding:
    """Holds if all findings do; has the numbers of each."""
    known = list(findings)
    return all(f[0] for _, f in known), "; ".join(f"{name}: {f[1]}" for name, f in known)


def without(values: dict[str, float], *names: str) -> dict[str, float]:
    """The values of the other names."""
    return {name: value for name, value in values.items() if name not in names}
