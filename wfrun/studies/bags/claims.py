"""The claims of thesis section 5.4 about its simulations, and their tests."""

from __future__ import annotations

from wfrun.studies.bags import claims_policies, claims_selection
from wfrun.studies.bags.experiments import BagSamples
from wfrun.studies.common.claim import Claim

CLAIMS: tuple[Claim[BagSamples], ...] = (*claims_policies.CLAIMS, *claims_selection.CLAIMS)
"""The claims in the order of the text."""
