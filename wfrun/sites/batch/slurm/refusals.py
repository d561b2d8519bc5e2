"""Refusals of sbatch. Source: slurm_errno.c, sbatch.c and the names of reasons in
slurm_protocol_defs.c of version 22.05."""

from __future__ import annotations

import re

from wfrun.engine.errors import WfrunError
from wfrun.sites.batch.refusals import Refusals

_JOBS = Refusals(
    limits=re.compile(
        r"MaxSubmit|GrpSubmit|MaxJobs|GrpJobs|MaxJobCount|temporarily unable to accept job"
        r"|Resource temporarily unavailable|Job violates accounting/QOS policy"
        r"|job queue full|Unable to create job record, try again|creation temporarily disabled"
        r"|[Tt]oo many (pending )?jobs|[Mm]aximum number of jobs"
    ),
    never=re.compile(
        r"[Ii]nvalid (partition|account|qos|wckey|license|feature|generic resource|Trackable"
        r"|GRES|mcs_label|node name|time-min|--\w)|Duplicate generic resource"
        r"|Requested (node configuration is not available|nodes not in this partition"
        r"|time limit is invalid|partition configuration not available now"
        r"|reservation is invalid|operation not supported|GRES option unsupported"
        r"|more tasks than available)"
        r"|Memory (specification can not be satisfied|required by task is not available)"
        r"|CPU count (specification invalid|per node can not be satisfied)"
        r"|(Node|Task) count specification invalid|More processors requested than permitted"
        r"|Job size specification needs|No partition specified or system default"
        r"|group not permitted to use this partition|Access/permission denied"
        r"|Access denied to requested reservation|Burst Buffer (permission|request)"
        r"|Multiple partition job request not supported"
        r"|unrecognized option|requires an argument|invalid option"
    ),
    too_large=re.compile(r"Invalid job array specification"),
)
_SIZE_LIMIT = re.compile(
    r"\b((QOS|Assoc)(?!\w*(Submit|Jobs))\w*(Max|Min|Grp)|Max(?!Submit|Jobs)\w+Per(Account|Limit))"
    r"|\b(Partition(Time|Node)|AssociationTime|QOSTime)Limit\b"
)
"""Reasons why a job is too wide or too long. Slurm prints such a reason before a text that it also
uses for a limit on the number of jobs."""
_SIZE = Refusals(limits=re.compile(r"(?!)"), never=_SIZE_LIMIT)


def refusal(exit_code: int | None, output: str, errors: str) -> WfrunError:
    """The error for a submission that returned no id."""
    refusals = _SIZE if _SIZE_LIMIT.search(errors) else _JOBS
    return refusals.error("sbatch", exit_code, output, errors)
