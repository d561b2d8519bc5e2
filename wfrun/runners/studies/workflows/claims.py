"""What thesis section 6.3 says about its simulations, and whether it is so here."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.runners.studies.claim import Answer, Claim, answer
from wfrun.runners.studies.workflows import claims_rest, claims_single
from wfrun.runners.studies.workflows.experiments import Outcome
from wfrun.runners.studies.workflows.samples import Samples

CLAIMS: tuple[Claim[Samples], ...] = (*claims_single.CLAIMS, *claims_rest.CLAIMS)
"""In the order of the text."""


def answers(rows: Sequence[Outcome]) -> list[Answer]:
    """Every claim, tested."""
    return answer(CLAIMS, Samples(rows), Samples(rows, medians=True))
