"""Studies: experiments of papers, simulated again, with their figures and tables beside ours."""

from __future__ import annotations

from collections.abc import Callable

from wfrun.studies.allocation.command import study_allocation
from wfrun.studies.bags.command import study_bags
from wfrun.studies.brokers.command import study_brokers
from wfrun.studies.coallocation.command import study_coallocation
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.demt.command import study_demt
from wfrun.studies.malleability.command import study_malleability
from wfrun.studies.optional.command import study_optional
from wfrun.studies.predictions.command import study_predictions
from wfrun.studies.reallocation.command import study_reallocation
from wfrun.studies.scavenging.command import study_scavenging
from wfrun.studies.workflows.command import study_workflows

STUDIES: dict[str, Callable[[StudyOptions], None]] = {
    "allocation": study_allocation,
    "bags": study_bags,
    "brokers": study_brokers,
    "coallocation": study_coallocation,
    "demt": study_demt,
    "malleability": study_malleability,
    "optional": study_optional,
    "predictions": study_predictions,
    "reallocation": study_reallocation,
    "scavenging": study_scavenging,
    "workflows": study_workflows,
}
"""The studies by their names on the command line."""
