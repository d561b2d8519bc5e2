"""The kinds ``pbs`` (PBS Professional, OpenPBS) and ``torque``."""

from __future__ import annotations

from wfrun.engine.model import Access
from wfrun.sites.batch.kind import batch_kind
from wfrun.sites.batch.survey import Survey
from wfrun.sites.batch.system import BatchSystem


def _pbs(access: Access) -> BatchSystem:
    from wfrun.sites.batch.pbs.system import Pbs

    return Pbs(access.max_array)


def _pbs_survey() -> Survey:
    from wfrun.sites.batch.pbs import survey

    return survey.PBS


def _torque(access: Access) -> BatchSystem:
    from wfrun.sites.batch.pbs.system import Torque

    return Torque(access.max_array)


def _torque_survey() -> Survey:
    from wfrun.sites.batch.pbs import survey

    return survey.TORQUE


PBS = batch_kind(
    "pbs",
    "PBS",
    _pbs,
    _pbs_survey,
    login_variables=("PBS_CONF_FILE", "PBS_EXEC", "PBS_SERVER", "PBS_DEFAULT"),
)
TORQUE = batch_kind(
    "torque", "Torque", _torque, _torque_survey, login_variables=("PBS_DEFAULT", "PBS_SERVER")
)
