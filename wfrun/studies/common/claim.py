"""Claims of papers, and their tests on our simulations.

The claims are paraphrased. The papers give no numbers for words such as "slightly" and "similar";
the constants below set bounds for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from wfrun.studies.common.numbers import number
from wfrun.studies.common.verdict import ERROR, Decided, Sample, Statement, Verdict, all_of

SIMILAR = 1.25
"""Ratio of the largest to the smallest mean up to which results are called similar."""
IDENTICAL = 1.02
MUCH = 1.5
"""Minimum ratio of *much* worse, or of a *substantial* increase."""

Finding = tuple[Statement | bool, str]
"""(statement that must be true for the claim to hold, text with the means that decide it). In a
study without repetitions the statement is True or False."""


SamplesT = TypeVar("SamplesT")
"""The results of a study."""


@dataclass(frozen=True)
class Claim(Generic[SamplesT]):
    """A claim of a paper, with the test whether it holds here."""

    where: str
    text: str
    test: Callable[[SamplesT], Finding]
    """Makes the statement to test from the results, and the text of the evidence. The docstring of
    the test, if it has one, quotes the words of the paper that decide what is tested."""
    always: str = ""
    """The reason why the claim cannot fail. Such claims are not counted. Empty if the claim can
    fail."""
    main: bool = False
    """Whether the claim is in the paper's abstract or conclusions; otherwise it is a detail."""
    cause: str = ""
    """Why the claim does not hold here, with the numbers that show the cause. Empty if
    unexplained."""


class Claims(list[Claim[SamplesT]]):
    """Claims in the order of the text; ``add`` registers the test that it decorates."""

    def add(
        self, where: str, text: str, *, always: str = "", main: bool = False, cause: str = ""
    ) -> Callable[[Callable[[SamplesT], Finding]], None]:
        return lambda test: self.append(Claim(where, text, test, always, main, cause))


class Answer(NamedTuple):
    """A claim, and the verdict on it."""

    number: int
    claim: Claim[Any]
    verdict: Verdict
    evidence: str
    """The means on which the answer rests, as text."""
    usually: bool = False
    """Whether the claim holds in a weaker sense (on most workloads). False in studies without a
    weaker sense."""

    @property
    def holds(self) -> bool:
        return self.verdict is Verdict.HOLDS


def answer(
    claims: Iterable[Claim[SamplesT]], samples: SamplesT, weaker: SamplesT | None = None
) -> list[Answer]:
    """Test every claim on ``samples``. ``weaker`` are the samples for the weaker sense
    (`Answer.usually`); None: the study has no weaker sense."""
    found = []
    for place, claim in enumerate(claims, 1):
        statement, evidence = claim.test(samples)
        usually = weaker is not None and verdict_on(claim.test(weaker)[0]) is Verdict.HOLDS
        found.append(Answer(place, claim, verdict_on(statement), evidence, usually))
    return found


def verdict_on(statement: Statement | bool) -> Verdict:
    """The verdict on the statement of one claim, wrong with a probability of at most `ERROR` in
    each direction."""
    return as_statement(statement).verdict(ERROR)


def as_statement(statement: Statement | bool) -> Statement:
    """The statement itself; for True and False a statement that is already decided."""
    return Decided(statement) if isinstance(statement, bool) else statement


def tally(found: Sequence[Answer]) -> str:
    """The counts of verdicts as text, such as ``20 of 42 claims hold, 12 do not hold, 10 are not
    distinguishable; 2 that cannot fail are not counted``."""
    counted = [one for one in found if not one.claim.always]
    held, failed, unclear = (
        sum(one.verdict is verdict for one in counted)
        for verdict in (Verdict.HOLDS, Verdict.FAILS, Verdict.UNCLEAR)
    )
    text = f"{held} of {len(counted)} claims hold, {failed} do not hold"
    if unclear:
        text += f", {unclear} are not distinguishable"
    left = len(found) - len(counted)
    return text + (f"; {left} that cannot fail are not counted" if left else "")


def tally_by_kind(found: Sequence[Answer]) -> str:
    """The counts of verdicts by kind of claim as text, such as ``3 of 5 main claims hold, …; of the
    details 10 of 17 claims hold, …``."""
    main = tally([one for one in found if one.claim.main]).replace(" claims", " main claims", 1)
    return f"{main}; of the details {tally([one for one in found if not one.claim.main])}"


# Values, and how they are listed


def listed(values: Mapping[str, Sample | float]) -> str:
    """The values by name, as a text. A sample is shown by its mean."""
    return ", ".join(f"{name} {number(mean(value))}" for name, value in values.items())


def mean(value: Sample | float) -> float:
    """The mean of a sample; a plain number is returned unchanged."""
    return value.mean if isinstance(value, Sample) else value


def spread(values: Iterable[Sample | float]) -> float:
    """Ratio of the largest to the smallest value. For a sample its mean is taken."""
    known = [mean(value) for value in values]
    return max(known) / min(known)


def ranked(values: Mapping[str, Sample | float]) -> list[str]:
    """The names in the order of their values, smallest first."""
    return sorted(values, key=lambda name: mean(values[name]))


def both(findings: Iterable[tuple[str, Finding]]) -> Finding:
    """A finding that holds if all ``findings`` hold. Its text has the numbers of each of them, by
    name."""
    known = list(findings)
    numbers = "; ".join(f"{name}: {f[1]}" for name, f in known)
    return all_of(as_statement(f[0]) for _, f in known), numbers


ValueT = TypeVar("ValueT")


def without(values: Mapping[str, ValueT], *names: str) -> dict[str, ValueT]:
    """The values, except those of ``names``."""
    return {name: value for name, value in values.items() if name not in names}
