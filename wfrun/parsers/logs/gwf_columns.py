"""The columns of the Grid Workload Format, for its reader and its writer.

Source: "The Grid Workload Format" of the Grid Workloads Archive: 29 columns separated by blanks, -1
for what is unknown, comments after ``#``. Ids of users, groups, sites and so on are words.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from wfrun.parsers.logs.workload_log import Name

Kind = Literal["id", "count", "submit", "decimal", "name", "word", "ids"]


class GwfColumn(NamedTuple):
    name: str
    field: str
    """The field of `LoggedJob`, or of `GridFields` if ``of_grid``."""
    kind: Kind
    of_grid: bool = False


COLUMNS = (
    GwfColumn("JobID", "id", "id"),
    GwfColumn("SubmitTime", "submit_s", "submit"),
    GwfColumn("WaitTime", "wait_s", "decimal"),
    GwfColumn("RunTime", "runtime_s", "decimal"),
    GwfColumn("NProcs", "processors", "count"),
    GwfColumn("AverageCPUTimeUsed", "cpu_s", "decimal"),
    GwfColumn("UsedMemory", "memory_kb", "decimal"),
    GwfColumn("ReqNProcs", "requested_processors", "count"),
    GwfColumn("ReqTime", "requested_s", "decimal"),
    GwfColumn("ReqMemory", "requested_memory_kb", "decimal"),
    GwfColumn("Status", "status", "count"),
    GwfColumn("UserID", "user", "name"),
    GwfColumn("GroupID", "group", "name"),
    GwfColumn("ExecutableID", "application", "name"),
    GwfColumn("QueueID", "queue", "name"),
    GwfColumn("PartitionID", "partition", "name"),
    GwfColumn("OrigSiteID", "site", "word"),
    GwfColumn("LastRunSiteID", "run_site", "word", True),
    GwfColumn("JobStructure", "structure", "word", True),
    GwfColumn("JobStructureParams", "structure_id", "word", True),
    GwfColumn("UsedNetwork", "network_kb_per_s", "decimal", True),
    GwfColumn("UsedLocalDiskSpace", "disk_mb", "decimal", True),
    GwfColumn("UsedResources", "resources", "word", True),
    GwfColumn("ReqPlatform", "requested_platform", "word", True),
    GwfColumn("ReqNetwork", "requested_network_kb_per_s", "decimal", True),
    GwfColumn("ReqLocalDiskSpace", "requested_disk_mb", "decimal", True),
    GwfColumn("ReqResources", "requested_resources", "word", True),
    GwfColumn("VOID", "virtual_organization", "word", True),
    GwfColumn("ProjectID", "project", "word", True),
)
"""The columns of the format, in its order."""

WORKFLOW = GwfColumn("WorkflowID", "workflow", "count", True)
PARENTS = GwfColumn("Dependencies", "parents", "ids", True)
"""The columns that only the comma variant has."""

OTHER_NAMES = {
    "nproc": "NProcs",
    "usedcputime": "AverageCPUTimeUsed",
    "requestedlocaldiskspace": "ReqLocalDiskSpace",
    "requestedresources": "ReqResources",
    "virtualorganizationid": "VOID",
}

_BY_NAME = {column.name.lower(): column for column in (*COLUMNS, WORKFLOW, PARENTS)}


def column_called(name: str) -> GwfColumn | None:
    """The column with this name; for some columns published logs use a second name, which is
    accepted, too. None for an unknown name."""
    lower = name.lower()
    return _BY_NAME.get(OTHER_NAMES.get(lower, lower).lower())


def name_of(text: str) -> Name:
    """Convert to a number if the text is written like one (``7``, not ``007``), else keep the
    text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        return text
    return int(text) if str(int(text)) == text else text
