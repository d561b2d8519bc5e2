"""What thesis section 6.3 says about its simulations, and whether it is so here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wfrun.runners.study import claims_rest, claims_single
from wfrun.runners.study.claim import Claim
from wfrun.runners.study.samples import Samples
from wfrun.runners.study.workflows import Outcome

CLAIMS: tuple[Claim, ...] = (*claims_single.CLAIMS, *claims_rest.CLAIMS)
"""In the order of the text."""


class Answer(NamedTuple):
    """A claim, and what came out here."""

    number: int
    claim: Claim
    holds: bool
    """By the means over the repetitions."""
    evidence: str
    """The means."""
    usually: bool
    """By the medians: a few repetitions with full queues, which can make a mean, don't count."""


def answers(rows: Sequence[Outcome]) -> list[Answer]:
    """Every claim, tested."""
    means, medians = Samples(rows), Samples(rows, medians=True)
    return [
        Answer(number, claim, *claim.test(means), claim.test(medians)[0])
        for number, claim in enumerate(CLAIMS, 1)
    ]
