"""Jobs of PBS and Torque from their attributes, printed as JSON or as text. Source: the OpenPBS
23.06 reference guide, "Job States" and "Job Exit Status", and recordings of that version; for
Torque the 6.1 administrator's guide and qstat(1B)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from wfrun.engine.exchange import Cause
from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.elements import check_count, expand
from wfrun.sites.batch.jobs import Ending, JobInQueue, QueueUnknownError, State

Attributes: TypeAlias = Mapping[str, Mapping[str, str]]
"""Attributes by job id. An attribute of a group is named ``group.name``, as in
``Resource_List.ncpus``."""

_ID = re.compile(r"(\d+)(?:\[(\d*)\])?((?:\.[\w.-]+)?)", re.ASCII)
_STATES: dict[str, State | None] = {
    "Q": "queued",
    "W": "queued",
    "T": "queued",
    "B": "queued",
    "H": "held",
    "R": "running",
    "E": "ending",
    "S": "suspended",
    "U": "suspended",
    "F": None,
    "X": None,
    "C": None,
    "M": None,
}
_KILLED_BY_PBS: dict[int, Cause] = {
    -26: "memory",  # virtual memory
    -27: "memory",
    -28: "walltime",  # CPU time
    -29: "walltime",
}
_KILLED_BY_TORQUE: dict[int, Cause] = {
    -9: "disk-full",  # its output cannot be opened
    -10: "memory",
    -11: "walltime",
    -12: "walltime",  # CPU time
}
_NEVER = "can never run"
_STOPPED = "queue not started"
_BEGAN = "Job Array Began"
"""Comment of an array that has begun. The scheduler keeps this comment, whatever the waiting
elements wait for (``update_job_can_not_run`` of OpenPBS)."""
_MEMORY = frozenset({"mem", "vmem", "pmem", "pvmem"})
_TIME = frozenset({"walltime", "cput", "pcput"})
_KILLED = re.compile(r"^=>> PBS: job killed: ((\w+) .*)$", re.MULTILINE | re.ASCII)
"""What pbs_mom appends to the output of a job that it kills; ``message_job`` in mom_main.c."""


def jobs_of(jobs: Attributes) -> list[JobInQueue]:
    """The jobs that have not ended, arrays element by element. Raises QueueUnknownError."""
    arrays = {job: _state(jobs[job]) for job in jobs if _parts(job)[1] is None}
    found = []
    listed: set[tuple[str, int]] = set()
    for ident, attributes in jobs.items():
        job, element = _parts(ident)
        if element is None:
            continue
        listed.add((job, element))
        state = _state(attributes)
        if state == "queued" and arrays.get(job) == "held":
            state = "held"  # of a held array PBS shows the waiting elements as Q
        if state is not None:
            found.append(_job(job, element, state, attributes))
    with_elements = {job for job, _ in listed}
    for job, state in arrays.items():
        attributes = jobs[job]
        # Of Torque's arrays all elements are listed.
        if state is None or (listed and "job_array_request" in attributes):
            continue
        waiting = _waiting(attributes)
        begun = _Begun([], 0)
        if job not in with_elements and "job_array_request" not in attributes:
            begun = _begun(job, attributes, set(waiting))
        check_count(len(found) + len(waiting) + len(begun.elements))
        for number in waiting:
            if (job, number) not in listed:
                found.append(_job(job, number, state, attributes))
        for number in begun.elements:
            found.append(_job(job, number, "begun", attributes, begun.running))
    return found


class _Begun(NamedTuple):
    """Elements of an array that no longer wait."""

    elements: list[int]
    running: int
    """Number of elements that run or end now."""


def _waiting(attributes: Mapping[str, str]) -> list[int]:
    """Numbers of the waiting elements of an array."""
    waiting = attributes.get("array_indices_remaining") or attributes.get("job_array_request")
    return [] if waiting in (None, "-") else expand(waiting)


def _begun(job: str, attributes: Mapping[str, str], waiting: set[int]) -> _Begun:
    """The elements that no longer wait. qstat shows only the array, not its elements. Raises
    QueueUnknownError if the attributes of the array do not determine the elements."""
    counts = dict(
        re.findall(r"(\w+):(\d{1,9})\b", attributes.get("array_state_count", ""), re.ASCII)
    )
    submitted = attributes.get("array_indices_submitted")
    if submitted is None or not {"Running", "Exiting"} <= counts.keys():
        raise QueueUnknownError(f"qstat shows array {job} without its elements and their number")
    elements = [number for number in expand(submitted) if number not in waiting]
    return _Begun(elements, number_of(counts["Running"], 0) + number_of(counts["Exiting"], 0))


def endings_of(jobs: Attributes, torque: bool) -> dict[tuple[str, int], Ending]:
    """The outcomes, by job id and element, of the jobs that have ended with an exit status.
    ``torque`` selects the meanings of negative exit statuses."""
    endings = {}
    for ident, attributes in jobs.items():
        job, element = _parts(ident)
        status = attributes.get("Exit_status", attributes.get("exit_status", ""))
        if element is None or _state(attributes) is not None:
            continue
        code = number_of(status, signed=True)
        if code is not None:
            endings[job, element] = _ending(code, attributes, torque)
    return endings


def killed(printed: str) -> Ending | None:
    """Why PBS killed a job, from PBS's message in the job's output, such as ``=>> PBS: job killed:
    walltime 79 exceeded limit 60``; None if the output has no such message."""
    match = _KILLED.search(printed)
    if match is None:
        return None
    cause: Cause = "signal"
    if match[2] in _MEMORY:
        cause = "memory"
    elif match[2] in _TIME:
        cause = "walltime"
    return Ending(cause=cause, message=f"PBS killed the job: {match[1].strip()}")


def _job(
    job: str, element: int, state: State, attributes: Mapping[str, str], running_elements: int = 0
) -> JobInQueue:
    name = attributes.get("Job_Name", "")
    if "job_array_id" in attributes:
        # Torque appends the number of the element to the name.
        name = name.removesuffix(f"-{element}")
    return JobInQueue(
        id=job,
        element=element,
        name=name,
        user=attributes.get("Job_Owner", "").partition("@")[0],
        state=state,
        cores=_cores(attributes),
        reason=_reason(state, attributes),
        nodes=_nodes(attributes),
        requested_s=_seconds(attributes.get("Resource_List.walltime", "")),
        running_elements=running_elements,
    )


def _reason(state: State, attributes: Mapping[str, str]) -> str:
    """Why a job waits: the scheduler's comment, or a held job's hold types. Empty if unknown."""
    comment = attributes.get("comment", "")
    holds = attributes.get("Hold_Types", "n")
    if state not in ("queued", "held", "refused"):
        return ""
    if state == "held" and holds != "n" and _STOPPED not in comment.lower():
        return f"Hold_Types = {holds}"
    return "" if comment.startswith(_BEGAN) else comment


def _state(attributes: Mapping[str, str]) -> State | None:
    letter = attributes.get("job_state")
    if letter is None:
        raise QueueUnknownError("qstat shows a job without a state")
    # A state of a newer version: the job exists, nothing else is known.
    state = _STATES.get(letter, "queued")
    comment = attributes.get("comment", "").lower()
    if state == "queued" and _NEVER in comment:
        return "refused"
    if state == "queued" and _STOPPED in comment:
        return "held"
    return state


def _ending(status: int, attributes: Mapping[str, str], torque: bool) -> Ending:
    comment = attributes.get("comment", "")
    nodes = _nodes(attributes)
    cause = _cause(status, comment, attributes, torque)
    message = f"exit status {status}"
    return Ending(
        cause=cause,
        exit_code=status if cause in ("done", "exit") else None,
        message=f"{message}: {comment}" if comment else message,
        node=nodes[0] if nodes else None,
    )


def _cause(status: int, comment: str, attributes: Mapping[str, str], torque: bool) -> Cause:
    if status < 0:
        return (_KILLED_BY_TORQUE if torque else _KILLED_BY_PBS).get(status, "node")
    limit = re.search(r"exceeded resource (\w+)", comment)
    if limit is not None:
        return "memory" if limit[1] in _MEMORY else "walltime"
    granted = _seconds(attributes.get("Resource_List.walltime", ""))
    elapsed = _seconds(attributes.get("resources_used.walltime", ""))
    if status > 256 and granted is not None and elapsed is not None and elapsed >= granted:
        return "walltime"
    if "terminated by" in comment:
        return "cancelled"  # with any exit status: it may have caught the signal
    if status == 0:
        return "done"
    return "exit" if status <= 256 else "signal"


def _parts(ident: str) -> tuple[str, int | None]:
    """Job and element of ``7.host`` or ``7[3].host``; None for ``7[].host``, the whole array."""
    match = _ID.fullmatch(ident)
    if match is None:
        raise QueueUnknownError(f"{ident[:80]!r} is not the id of a job")
    if match[2] is None:
        return ident, 1
    element = number_of(match[2])
    if match[2] and element is None:
        raise QueueUnknownError(f"{ident[:80]!r} is not the id of a job")
    return f"{match[1]}[]{match[3]}", element


def _cores(attributes: Mapping[str, str]) -> int:
    cores = attributes.get("Resource_List.ncpus", "")
    if (count := number_of(cores)) is not None:
        return count
    ppn = re.search(r"ppn=(\d{1,9})", attributes.get("Resource_List.nodes", ""), re.ASCII)
    return 1 if ppn is None else number_of(ppn[1], 1)


def _nodes(attributes: Mapping[str, str]) -> tuple[str, ...]:
    """Nodes of ``node1/0*2+node2/1``."""
    chunks = attributes.get("exec_host", "").split("+")
    return tuple(dict.fromkeys(host for chunk in chunks if (host := chunk.partition("/")[0])))


def _seconds(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,9}):(\d\d):(\d\d)", text, re.ASCII)
    if match is None:
        return None
    hours, minutes, seconds = (number_of(part, 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds
