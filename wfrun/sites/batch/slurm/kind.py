"""The kind ``slurm``."""

from __future__ import annotations

from wfrun.engine.model import Access
from wfrun.sites.batch.kind import batch_kind
from wfrun.sites.batch.survey import Survey
from wfrun.sites.batch.system import BatchSystem


def _system(access: Access) -> BatchSystem:
    from wfrun.sites.batch.slurm.system import Slurm

    return Slurm(access.max_array)


def _survey() -> Survey:
    from wfrun.sites.batch.slurm.survey import SURVEY

    return SURVEY


SLURM = batch_kind("slurm", "Slurm", _system, _survey, login_variables=("SLURM_CONF",))
