"""Explanation of the size of a malleable job."""

from __future__ import annotations

from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.capabilities.growing.grown import GrownJob
from wfrun.engine.core.state import RunState


def size_reason(state: RunState, job: GrownJob) -> str:
    """The reason why a running malleable job has its size, as text for the user: what its resizing
    waits for, or what bounds its size."""
    claims, site = state.get(ProcessorClaims), state.sites[job.site].spec.name
    asked, threshold = job.question, state.settings.threshold
    if asked is not None and asked.offered:
        return f"its program has not answered the offer of {len(asked.offered) * job.unit} more yet"
    if asked is not None:
        return f"its program has not given {asked.reclaimed} processors back yet"
    if job.spares:
        return f"{sum(part.processors for part in job.spares)} more have been asked for at {site}"
    if not job.has_joined:
        return "its program has not joined the protocol of malleable jobs, so it is offered nothing"
    if not job.can_join:
        return "its program has left the protocol of malleable jobs, so it is offered nothing"
    if job.size >= job.bounds.sizes[-1]:
        return "that is its largest"
    if claims.foreign_at(job.site)[1]:
        return f"jobs of other users wait at {site}, which come first"
    idle = claims.idle_at(job.site)
    if idle <= threshold:
        kept = f", of which {threshold} are kept for other users" if threshold else ""
        return f"{site} has {idle} idle processors{kept}"
    if job.refused:
        return f"it was offered {job.refused} more, and its program did not take them"
    return f"none of its sizes is possible with the {idle - threshold} processors idle at {site}"
