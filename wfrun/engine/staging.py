"""Expected time to stage the inputs of a task."""

from __future__ import annotations

from wfrun.engine.state import RunState, WorkflowState


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
