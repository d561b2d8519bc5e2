"""Refusals of sbatch. Source: slurm_errno.c, sbatch.c and the names of reasons in
job_reason_codes.c and acct_policy.c of version 22.05."""

from __future__ import annotations

import re

from wfrun.engine.errors import WfrunError
from wfrun.sites.batch.refusals import Refusals

_JOBS = Refusals(
    limits=re.compile(
        r"MaxSubmit|GrpSubmit|MaxJobs|GrpJobs|MaxJobCount|temporarily unable to accept job"
        r"|Resource temporarily unavailable|Job violates accounting/QOS policy"
        r"|[Tt]oo many (pending )?jobs|[Mm]aximum number of jobs"
    ),
    never=re.compile(
        r"[Ii]nvalid (partition|account|qos|wckey|license|feature|generic resource|Trackable"
        r"|node name|user id|--\w)"
        r"|Requested (node configuration is not available|time limit is invalid"
        r"|partition configuration not available now|reservation is invalid"
        r"|operation not supported)"
        r"|Memory (specification can not be satisfied|required by task is not available)"
        r"|CPU count (specification invalid|per node can not be satisfied)"
        r"|Node count specification invalid|More processors requested than permitted"
        r"|group not permitted to use this partition|Access/permission denied"
        r"|unrecognized option|requires an argument|invalid option"
    ),
    too_large=re.compile(r"Invalid job array specification"),
)
_SIZE_LIMIT = re.compile(r"\b(QOS|Assoc)(?!\w*(Submit|Jobs))\w*(Max|Min|Grp)\w+")
"""Reasons for which a job is too wide or too long, printed before the same text as a limit on
jobs."""
_SIZE = Refusals(limits=re.compile(r"(?!)"), never=_SIZE_LIMIT)


def refusal(exit_code: int | None, output: str, errors: str) -> WfrunError:
    """The error for a submission that returned no id."""
    refusals = _SIZE if _SIZE_LIMIT.search(errors) else _JOBS
    return refusals.error("sbatch", exit_code, output, errors)
