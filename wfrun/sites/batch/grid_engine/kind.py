"""The kind ``grid-engine``."""

from __future__ import annotations

from wfrun.engine.model import Access
from wfrun.parsers.catalog.access import resource_name
from wfrun.sites.batch.kind import batch_kind
from wfrun.sites.batch.survey import Survey
from wfrun.sites.batch.system import BatchSystem


def _system(access: Access) -> BatchSystem:
    from wfrun.sites.batch.grid_engine.system import GridEngine

    return GridEngine(access.max_array, **access.batch_settings)


def _survey() -> Survey:
    from wfrun.sites.batch.grid_engine.survey import SURVEY

    return SURVEY


GRID_ENGINE = batch_kind(
    "grid-engine",
    "Grid Engine",
    _system,
    _survey,
    login_variables=(
        "SGE_ROOT",
        "SGE_CELL",
        "SGE_CLUSTER_NAME",
        "SGE_QMASTER_PORT",
        "SGE_EXECD_PORT",
    ),
    own_keys={"parallel_environment": resource_name, "memory_resource": resource_name},
)
