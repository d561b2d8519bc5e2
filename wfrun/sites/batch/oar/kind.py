"""The kind ``oar``."""

from __future__ import annotations

from wfrun.engine.model import Access
from wfrun.parsers.catalog.access import resource_name
from wfrun.sites.batch.kind import batch_kind
from wfrun.sites.batch.survey import Survey
from wfrun.sites.batch.system import BatchSystem


def _system(access: Access) -> BatchSystem:
    from wfrun.sites.batch.oar.system import Oar

    return Oar(access.max_array, **access.batch_settings)


def _survey() -> Survey:
    from wfrun.sites.batch.oar.survey import SURVEY

    return SURVEY


OAR = batch_kind("oar", "OAR", _system, _survey, own_keys={"core_resource": resource_name})
