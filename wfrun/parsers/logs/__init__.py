"""Logs of jobs submitted to clusters and grids: read, filter, merge, scale and write them.

See docs/workload-logs.md.
"""

from wfrun.parsers.logs.align import align_to_monday
from wfrun.parsers.logs.filters import (
    JGC_RULES,
    RUNNABLE_RULES,
    Filtered,
    clip,
    drop_jobs,
    settle_overruns,
    shift,
)
from wfrun.parsers.logs.gwf import read_gwf
from wfrun.parsers.logs.load import load_of, scale_load
from wfrun.parsers.logs.merge import merge
from wfrun.parsers.logs.runnable import read_log
from wfrun.parsers.logs.swf import read_swf
from wfrun.parsers.logs.workload_log import Dropped, GridFields, LoggedJob, LogHeader, WorkloadLog
from wfrun.parsers.logs.write_gwf import write_gwf
from wfrun.parsers.logs.write_swf import write_swf

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
    "read_log",
    "read_swf",
    "scale_load",
    "settle_overruns",
    "shift",
    "write_gwf",
    "write_swf",
]
