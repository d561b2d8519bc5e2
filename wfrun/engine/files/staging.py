"""Expected time to stage the inputs of a task."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.core.state import RunState, WorkflowState


def transfer_s(state: RunState, w: WorkflowState, task: int, site: int) -> float:
    """Expected seconds to transfer all inputs that are not at the site, one after another, each
    from the place with the fastest link. Cost: the number of inputs."""
    network, presents, sizes = state.network, w.present, w.sizes
    best = network.best[site]
    bit = 1 << site
    total_s = 0.0
    for file in w.workflow.tasks[task].inputs:
        present = presents[file]
        if present & bit or not present:
            continue
        _, seconds_per_byte, latency_s = best.get(present) or network.best_source(present, site)
        size_bytes = sizes[file]
        if size_bytes < 0 and file in w.originals:
            size_bytes = 1  # so that the sites that have it come first
        total_s += latency_s + size_bytes * seconds_per_byte if size_bytes > 0 else latency_s
    return total_s


def transfers_s(state: RunState, w: WorkflowState, task: int, sites: Sequence[int]) -> list[float]:
    """Return `transfer_s` for each of ``sites``. Cost: the number of inputs times the number of
    sites."""
    network, presents, sizes = state.network, w.present, w.sizes
    totals_s = [0.0] * len(sites)
    for file in w.workflow.tasks[task].inputs:
        present = presents[file]
        if not present:
            continue
        links = network.links.get(present) or network.best_links(present)
        size_bytes = sizes[file]
        if size_bytes < 0:
            size_bytes = 1 if file in w.originals else 0
        for place, site in enumerate(sites):
            seconds_per_byte, latency_s = links[site]
            totals_s[place] += latency_s + size_bytes * seconds_per_byte
    return totals_s
