"""Studies: experiments of papers, simulated again, with their figures and tables beside ours."""

from __future__ import annotations

from collections.abc import Callable

from wfrun.runners.studies.allocation.command import study_allocation
from wfrun.runners.studies.bags.command import study_bags
from wfrun.runners.studies.brokers.command import study_brokers
from wfrun.runners.studies.options import StudyOptions
from wfrun.runners.studies.predictions.command import study_predictions
from wfrun.runners.studies.reallocation.command import study_reallocation
from wfrun.runners.studies.workflows.command import study_workflows

STUDIES: dict[str, Callable[[StudyOptions], None]] = {
    "allocation": study_allocation,
    "bags": study_bags,
    "brokers": study_brokers,
    "predictions": study_predictions,
    "reallocation": study_reallocation,
    "workflows": study_workflows,
}
"""By the name on the command line."""
