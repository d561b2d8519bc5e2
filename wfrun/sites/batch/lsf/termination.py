"""LSF's reasons for an end, such as ``TERM_RUNLIMIT: job killed after reaching LSF run time
limit.``. Source: "Termination reasons displayed by bacct, bhist, and bjobs", LSF 10.1."""

from __future__ import annotations

import re

from wfrun.engine.exchange import Cause
from wfrun.sites.batch.jobs import Ending

_REASON = re.compile(r"\bTERM_([A-Z_]+)\b(:[^\n;]*)?", re.ASCII)
_CAUSES: dict[str, Cause] = {
    "MEMLIMIT": "memory",
    "SWAP": "memory",
    "RUNLIMIT": "walltime",
    "CPULIMIT": "walltime",
    "DEADLINE": "walltime",
    "WINDOW": "walltime",
    "OWNER": "cancelled",
    "ADMIN": "cancelled",
    "FORCE_OWNER": "cancelled",
    "FORCE_ADMIN": "cancelled",
    "BUCKET_KILL": "cancelled",
    "REMOVE_HUNG_JOB": "node",
    "CWD_NOTEXIST": "node",
    "PRE_EXEC_FAIL": "node",
    "ZOMBIE": "node",
    "RMS": "node",
    "RC": "node",
    "REQUEUE_RC": "node",
    "CSM_ALLOC": "node",
    "KUBE": "node",
}
"""Cause for each reason. Other reasons stand for a signal: LSF or another program has ended the
job."""
_SAYS_NOTHING = frozenset({"UNKNOWN"})


def reason_of(text: str, node: str | None = None) -> Ending | None:
    """The outcome for the last reason in a text; None if the text has none."""
    found = [match for match in _REASON.finditer(text) if match[1] not in _SAYS_NOTHING]
    if not found:
        return None
    cause = _CAUSES.get(found[-1][1], "signal")
    return Ending(cause=cause, message=" ".join(found[-1][0].rstrip(".").split()), node=node)
