"""The claims of thesis section 6.3 about its simulations, and their tests."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.studies.common.claim import Answer, Claim, answer
from wfrun.studies.workflows import claims_rest, claims_single
from wfrun.studies.workflows.experiments import WorkflowsOutcome
from wfrun.studies.workflows.samples import Samples

CLAIMS: tuple[Claim[Samples], ...] = (*claims_single.CLAIMS, *claims_rest.CLAIMS)
"""The claims in the order of the text."""


def answers(rows: Sequence[WorkflowsOutcome]) -> list[Answer]:
    """Test every claim."""
    return answer(CLAIMS, Samples(rows))
