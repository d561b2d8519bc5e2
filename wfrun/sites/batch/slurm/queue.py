"""The parsers of squeue and sacct. Source: their manual pages of version 22.05, "JOB REASON CODES"
and "JOB STATE CODES", and recordings of that version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wfrun.engine.exchange import Cause
from wfrun.parsers.foreign import decimal_of, number_of
from wfrun.sites.batch.elements import check_count, expand
from wfrun.sites.batch.jobs import Ending, JobInQueue, QueueUnknownError, State
from wfrun.sites.batch.offers import clock_s

_FIELD = "\x1f"
_END = "\x1e"
SQUEUE_FORMAT = _FIELD.join(("%i", "%T", "%u", "%C", "%S", "%N", "%r", "%l", "%j")) + _END
"""Id, state, user, cores, start, nodes, reason, time limit, name. For a waiting job the start is
the time that the scheduler plans, as with ``squeue --start``; N/A: none is planned yet. The
separators are control characters because a name may contain anything else, line breaks too."""
SACCT_FORMAT = "JobID,State,ExitCode,NodeList"

_FIELDS = 9
_LIMIT = 7
"""Index of the time limit among the fields of SQUEUE_FORMAT."""
_ID = re.compile(r"(\d+)(?:_(?:(\d{1,9})|\[([^\]]*)\]))?(?:\+\d+)?", re.ASCII)
_EXIT = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)
"""Exit code and signal."""
_TIME = re.compile(r"\d{1,12}", re.ASCII)
"""A time in seconds since the epoch, with ``SLURM_TIME_FORMAT=%s``."""
_STATES: dict[str, State | None] = {
    "PENDING": "queued",
    "CONFIGURING": "queued",
    "REQUEUED": "queued",
    "REQUEUE_FED": "queued",
    "REQUEUE_HOLD": "held",
    "SPECIAL_EXIT": "held",
    "RESV_DEL_HOLD": "held",
    "RUNNING": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "COMPLETING": "ending",
    "STAGE_OUT": "ending",
    "STOPPED": "suspended",
    "SUSPENDED": "suspended",
    "COMPLETED": None,
    "REVOKED": None,
}
_CAUSES: dict[str, Cause] = {
    "COMPLETED": "done",
    "FAILED": "exit",
    "CANCELLED": "cancelled",
    "TIMEOUT": "walltime",
    "DEADLINE": "walltime",
    "OUT_OF_MEMORY": "memory",
    "NODE_FAIL": "node",
    "BOOT_FAIL": "node",
    "PREEMPTED": "preempted",
}
_NEVER = re.compile(
    r"PartitionTimeLimit|AssociationTimeLimit|QOSTimeLimit|BadConstraints|DependencyNeverSatisfied"
    r"|AccountNotAllowed|QOSNotAllowed|InvalidAccount|InvalidQOS"
    r"|(Assoc|QOS)Max\w*Per(Job|Node)(Limit)?|QOSMin\w*"
)
"""Reasons for which a job never starts. A reason that can also mean that nodes are out of service
is not in the list."""
_STOPPED = re.compile(r"\w*(held|hold)\w*|Partition(Down|Inactive)", re.IGNORECASE)
"""Reasons for which a job does not start until somebody acts."""
_SIGNALLED = "JobLaunchFailure"
"""squeue's reason for an end by any signal, even one that the task sent to itself."""
_NO_OUTPUT = 53
"""The "signal" with which slurmstepd ends if it cannot open the job's output file."""


def read_queue(output: str) -> list[JobInQueue]:
    """The jobs in ``squeue --array --format SQUEUE_FORMAT``. Raises QueueUnknownError."""
    jobs: list[JobInQueue] = []
    for ident, state_name, user, cores, start, nodes, reason, limit, name in _rows(output):
        state = _STATES.get(state_name)
        if state is None:
            if state_name in _STATES or state_name in _CAUSES:
                continue
            # A state of a newer Slurm: the job exists, nothing else is known.
            state, reason = "queued", f"in state {state_name}"
        elif state == "queued":
            state = _waiting(reason)
        shown_s = decimal_of(start)
        waits = state in ("queued", "held")
        job, elements = _parts(ident)
        check_count(len(jobs) + len(elements))
        jobs += [
            JobInQueue(
                id=job,
                element=element,
                name=name,
                user=user,
                state=state,
                cores=_number(cores),
                reason="" if reason == "None" else reason,
                nodes=(nodes,) if nodes else (),
                started_s=None if waits else shown_s,
                planned_s=shown_s if state == "queued" else None,
                requested_s=clock_s(limit),
            )
            for element in elements
        ]
    return jobs


def read_queue_endings(output: str) -> dict[tuple[str, int], Ending]:
    """The ended jobs in ``squeue --states all``, which shows them for MinJobAge, 300 s by default.
    For the cancelled waiting elements of an array it prints one line without their numbers; that
    line counts as element 1, unless element 1 has a line of its own. Raises QueueUnknownError."""
    endings: dict[tuple[str, int], Ending] = {}
    rest: dict[tuple[str, int], Ending] = {}
    for ident, state, _, _, _, nodes, reason, _, _ in _rows(output):
        cause = _CAUSES.get(state)
        if cause is None:
            continue
        if cause == "exit" and reason == _SIGNALLED:
            cause = "signal"
        message = state if reason == "None" else f"{state} ({reason})"
        ending = Ending(cause=cause, message=message, node=nodes or None)
        job, elements = _parts(ident)
        check_count(len(endings) + len(rest) + len(elements))
        (endings if "_" in ident else rest).update({(job, element): ending for element in elements})
    return {**rest, **endings}


def read_accounting(output: str) -> dict[tuple[str, int], Ending]:
    """The ended jobs in ``sacct --allocations --parsable2 --format SACCT_FORMAT``. Raises
    QueueUnknownError."""
    lines = output.splitlines()
    header = SACCT_FORMAT.split(",")
    if not lines or lines[0].split("|") != header or not output.endswith("\n"):
        raise QueueUnknownError(f"no table of sacct: {output[:200]!r}")
    endings: dict[tuple[str, int], Ending] = {}
    for line in lines[1:]:
        fields = line.split("|")
        match = _EXIT.fullmatch(fields[2]) if len(fields) == 4 else None
        if match is None:
            raise QueueUnknownError(f"not a line of sacct: {line[:200]!r}")
        # A cancelled job has the state "CANCELLED by 1001".
        cause = _CAUSES.get(fields[1].partition(" ")[0])
        if cause is None:
            continue
        code, signal = number_of(match[1], 0), number_of(match[2], 0)
        node = None if fields[3] in ("", "None assigned") else fields[3]
        ending = _accounted(cause, fields[1], code, signal, node)
        job, elements = _parts(fields[0])
        check_count(len(endings) + len(elements))
        endings.update({(job, element): ending for element in elements})
    return endings


def _accounted(cause: Cause, state: str, code: int, signal: int, node: str | None) -> Ending:
    if cause == "exit" and signal == _NO_OUTPUT:
        return Ending(cause="disk-full", message=f"{state}: its log cannot be opened", node=node)
    if cause == "exit" and signal:
        return Ending(cause="signal", message=f"{state}: signal {signal}", node=node)
    message = f"{state}: exit code {code}" if cause == "exit" else state
    own = cause in ("done", "exit")
    return Ending(cause=cause, exit_code=code if own else None, message=message, node=node)


def _waiting(reason: str) -> State:
    if _NEVER.fullmatch(reason):
        return "refused"
    return "held" if _STOPPED.search(reason) else "queued"


def _rows(output: str) -> Iterator[list[str]]:
    """The fields of each job; the time limit is empty if the table has no such column. Raises
    QueueUnknownError for a table that is incomplete or has no header."""
    records = output.split(f"{_END}\n")
    header = records[0].split(_FIELD)
    shown = _FIELDS if "TIME_LIMIT" in header else _FIELDS - 1
    if records.pop() or not records or len(header) != shown:
        raise QueueUnknownError(f"no whole table of squeue: {output[:200]!r}")
    if not records[0].startswith("JOBID"):
        raise QueueUnknownError(f"no header of squeue: {output[:200]!r}")
    for record in records[1:]:
        fields = record.split(_FIELD, shown - 1)
        if len(fields) != shown:
            raise QueueUnknownError(f"not a line of squeue: {record[:200]!r}")
        if shown < _FIELDS:
            fields.insert(_LIMIT, "")
        yield fields


def _parts(ident: str) -> tuple[str, list[int]]:
    """Job and elements of ``7``, ``7_3`` or ``7_[3-5%2]``."""
    match = _ID.fullmatch(ident)
    if match is None:
        raise QueueUnknownError(f"{ident[:80]!r} is not the id of a job")
    if match[3] is not None:
        return match[1], expand(match[3])
    return match[1], [number_of(match[2], 1)]


def _number(text: str) -> int:
    """The number in ``4``, or the minimum of ``4-8``, the range of a job of variable size."""
    match = re.match(r"\d{1,9}(?!\d)", text, re.ASCII)
    if match is None:
        raise QueueUnknownError(f"{text[:80]!r} is not a number of cores")
    return number_of(match[0], 1)
