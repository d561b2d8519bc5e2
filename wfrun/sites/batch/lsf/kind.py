"""The kind ``lsf``."""

from __future__ import annotations

from wfrun.engine.model import Access
from wfrun.sites.batch.kind import batch_kind
from wfrun.sites.batch.survey import Survey
from wfrun.sites.batch.system import BatchSystem


def _system(access: Access) -> BatchSystem:
    from wfrun.sites.batch.lsf.system import Lsf

    return Lsf(access.max_array)


def _survey() -> Survey:
    from wfrun.sites.batch.lsf.survey import SURVEY

    return SURVEY


LSF = batch_kind(
    "lsf",
    "LSF",
    _system,
    _survey,
    login_variables=("LSF_ENVDIR", "LSF_BINDIR", "LSF_SERVERDIR", "LSF_LIBDIR"),
)
