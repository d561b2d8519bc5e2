"""Logs of what was submitted to clusters and grids: read, choose from, merge, scale, write.

See docs/workload-logs.md.
"""

from wfrun.parsers.workload.align import align_to_monday
from wfrun.parsers.workload.filters import (
    JGC_RULES,
    RUNNABLE_RULES,
    Filtered,
    clip,
    drop_jobs,
    settle_overruns,
    shift,
)
from wfrun.parsers.workload.gwf import read_gwf
from wfrun.parsers.workload.load import load_of, scale_load
from wfrun.parsers.workload.merge import merge
from wfrun.parsers.workload.records import Dropped, GridFields, LoggedJob, LogHeader, WorkloadLog
from wfrun.parsers.workload.swf import read_swf
from wfrun.parsers.workload.write_gwf import write_gwf
from wfrun.parsers.workload.write_swf import write_swf

__all__ = [
    "JGC_RULES",
    "RUNNABLE_RULES",
    "Dropped",
    "Filtered",
    "GridFields",
    "LogHeader",
    "LoggedJob",
    "WorkloadLog",
    "align_to_monday",
    "clip",
    "drop_jobs",
    "load_of",
    "merge",
    "read_gwf",
    "read_swf",
    "scale_load",
    "settle_overruns",
    "shift",
    "write_gwf",
    "write_swf",
]
