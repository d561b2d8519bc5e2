"""Tasks of a run as jobs of predictors."""

from __future__ import annotations

from wfrun.engine.core.state import WorkflowState
from wfrun.engine.prediction.job import Job


def job_of(w: WorkflowState, task: int, site: str) -> Job:
    """A task at a site as its predictor sees it. The estimate is the walltime of the document.

    Cost: the number of its inputs.
    """
    record = w.workflow.tasks[task]
    asked = record.resources
    return Job(
        site, w.workflow.owner, record.name, asked.cores, asked.walltime_s, _input_bytes(w, task)
    )


def _input_bytes(w: WorkflowState, task: int) -> float | None:
    """Size of all inputs of a task; None if it has none, or one of unknown size."""
    size_bytes = 0
    inputs = w.workflow.tasks[task].inputs
    for file in inputs:
        one = w.sizes[file]
        if one < 0:
            return None
        size_bytes += one
    return float(size_bytes) if inputs else None
