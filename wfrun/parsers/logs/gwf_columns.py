"""The columns of the Grid Workload Format, for its reader and its writer.

Source: "The Grid Workload Format" of the Grid Workloads Archive: 29 columns separated by blanks, -1
for what is unknown, comments after ``#``. Ids of users, groups, sites and so on are words.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from wfrun.parsers.logs.workload_log import Name

Kind = Literal["id", "count", "submit", "decimal", "name", "word", "ids"]


class Column(NamedTuple):
    name: str
    field: str
    """The field of `LoggedJob`, or of `GridFields` where ``of_grid``."""
    kind: Kind
    of_grid: bool = False


COLUMNS = (
    Column("JobID", "id", "id"),
    Column("SubmitTime", "submit_s", "submit"),
    Column("WaitTime", "wait_s", "decimal"),
    Column("RunTime", "runtime_s", "decimal"),
    Column("NProcs", "processors", "count"),
    Column("AverageCPUTimeUsed", "cpu_s", "decimal"),
    Column("UsedMemory", "memory_kb", "decimal"),
    Column("ReqNProcs", "requested_processors", "count"),
    Column("ReqTime", "requested_s", "decimal"),
    Column("ReqMemory", "requested_memory_kb", "decimal"),
    Column("Status", "status", "count"),
    Column("UserID", "user", "name"),
    Column("GroupID", "group", "name"),
    Column("ExecutableID", "application", "name"),
    Column("QueueID", "queue", "name"),
    Column("PartitionID", "partition", "name"),
    Column("OrigSiteID", "site", "word"),
    Column("LastRunSiteID", "run_site", "word", True),
    Column("JobStructure", "structure", "word", True),
    Column("JobStructureParams", "structure_id", "word", True),
    Column("UsedNetwork", "network_kb_per_s", "decimal", True),
    Column("UsedLocalDiskSpace", "disk_mb", "decimal", True),
    Column("UsedResources", "resources", "word", True),
    Column("ReqPlatform", "requested_platform", "word", True),
    Column("ReqNetwork", "requested_network_kb_per_s", "decimal", True),
    Column("ReqLocalDiskSpace", "requested_disk_mb", "decimal", True),
    Column("ReqResources", "requested_resources", "word", True),
    Column("VOID", "virtual_organization", "word", True),
    Column("ProjectID", "project", "word", True),
)
"""The columns of the format, in its order."""

WORKFLOW = Column("WorkflowID", "workflow", "count", True)
PARENTS = Column("Dependencies", "parents", "ids", True)
"""The columns that only the comma variant has."""

OTHER_NAMES = {
    "nproc": "NProcs",
    "usedcputime": "AverageCPUTimeUsed",
    "requestedlocaldiskspace": "ReqLocalDiskSpace",
    "requestedresources": "ReqResources",
    "virtualorganizationid": "VOID",
}

_BY_NAME = {column.name.lower(): column for column in (*COLUMNS, WORKFLOW, PARENTS)}


def column_called(name: str) -> Column | None:
    """The column of this name, or of the other name that published logs use for it."""
    lower = name.lower()
    return _BY_NAME.get(OTHER_NAMES.get(lower, lower).lower())


def name_of(text: str) -> Name:
    """Convert to a number if the text is written like one (``7``, not ``007``), else keep the
    text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        return text
    return int(text) if str(int(text)) == text else text
