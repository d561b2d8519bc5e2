"""The claims that attempts run in."""

from __future__ import annotations

from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.capabilities.scavenging.scavenging import Scavenging
from wfrun.engine.core.state import RunState


def attempt_claim(state: RunState, workflow: int, task: int) -> str:
    """The key of the claim that the next attempt of a task runs in: the claim of its job, or of its
    owner in a run with scavenging owners. Empty if any launcher may run the attempt."""
    scavenging = state.find(Scavenging)
    if scavenging is not None:
        return scavenging.claim_of(workflow)
    claims = state.find(ProcessorClaims)
    claim = None if claims is None else claims.by_job.get((workflow, task))
    return "" if claim is None else claim.key
