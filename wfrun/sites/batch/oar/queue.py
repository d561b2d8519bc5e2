"""The parser of ``oarstat -J``. Source: oarstat(1) and "Job states" of the OAR 2.5 documentation,
and recordings of version 2.5.9."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from wfrun.engine.exchange import Cause
from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.elements import check_count
from wfrun.sites.batch.jobs import Ending, JobInQueue, QueueUnknownError, State
from wfrun.sites.batch.offers import clock_s

_VERSION = re.compile(r"OAR version : [^\n]*\n\Z")
_REQUEST = re.compile(r"\bR=(\d{1,9}),W=([\d:]+)", re.ASCII)
_STATES: dict[str, State | None] = {
    "Waiting": "queued",
    "toAckReservation": "queued",
    "Hold": "held",
    "toLaunch": "running",
    "Launching": "running",
    "Running": "running",
    "Suspended": "suspended",
    "Resuming": "suspended",
    "Finishing": "ending",
    "toError": "ending",
    "Error": None,
    "Terminated": None,
}


def read_queue(output: str) -> list[JobInQueue]:
    """The jobs that have not ended. Raises QueueUnknownError."""
    jobs = []
    for job in read_json(output):
        # A state of a newer version: the job exists, nothing else is known.
        state = _STATES.get(_text(job, "state"), "queued")
        if state is None:
            continue
        ident, element = _key(job)
        message = _text(job, "message")
        request = _REQUEST.search(message)
        started_s = number_of(str(job.get("startTime")), 0)
        resources = job.get("assigned_resources")
        assigned = len(resources) if isinstance(resources, list) else 0
        jobs.append(
            JobInQueue(
                id=ident,
                element=element,
                name=_text(job, "name"),
                user=_text(job, "owner"),
                state=state,
                cores=assigned or (number_of(request[1], 1) if request else 1),
                reason="" if request or state not in ("queued", "held") else message,
                nodes=_nodes(job),
                started_s=started_s if started_s and state != "queued" else None,
                requested_s=clock_s(request[2]) if request else None,
            )
        )
    check_count(len(jobs))
    return jobs


def read_endings(output: str) -> dict[tuple[str, int], Ending]:
    """The outcomes of the ended jobs in the output of ``oarstat -J -f``, by array id and element.
    Raises QueueUnknownError."""
    endings = {}
    # A job that OAR has submitted again comes after the one that could not be started.
    for job in sorted(read_json(output), key=lambda job: number_of(str(job.get("Job_Id")), 0)):
        state = _text(job, "state")
        if state in ("Terminated", "Error"):
            endings[_key(job)] = _ending(job, state)
        else:
            endings.pop(_key(job), None)
    return endings


def _ending(job: Mapping[str, Any], state: str) -> Ending:
    node = next(iter(_nodes(job)), None)
    status = number_of(str(job.get("exit_code")))
    if state == "Terminated" and status is not None:
        # As of wait(2).
        code, signal = status >> 8, status & 127
        if signal:
            return Ending(cause="signal", message=f"{state}: signal {signal}", node=node)
        cause: Cause = "exit" if code else "done"
        return Ending(cause=cause, exit_code=code, message=f"{state}: exit code {code}", node=node)
    found = job.get("events")
    events = [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []
    types = [_text(event, "type") for event in events]
    said = [_text(event, "description") for event in events if "SWITCH" not in _text(event, "type")]
    message = "; ".join([f"{state} ({', '.join(types)})", *said[:1]])
    if "WALLTIME" in types:
        return Ending(cause="walltime", message=message, node=node)
    if "FRAG_JOB_REQUEST" in types:
        return Ending(cause="cancelled", message=message, node=node)
    return Ending(cause="node", message=message, node=node)


def read_json(output: str) -> list[Mapping[str, Any]]:
    """The objects of the JSON document that precedes OAR's version; none if there is no document.
    Raises QueueUnknownError for an invalid document, and if the version is missing."""
    match = _VERSION.search(output)
    if match is None:
        raise QueueUnknownError(f"no whole answer of OAR: {output[:200]!r}")
    text = output[: match.start()]
    try:
        found = json.loads(text, strict=False) if text.strip() else {}
        return [dict(each) for each in found.values()]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise QueueUnknownError(f"not a document of OAR: {output[:200]!r}: {error!r}") from error


def _key(job: Mapping[str, Any]) -> tuple[str, int]:
    array, index = (number_of(str(job.get(name))) for name in ("array_id", "array_index"))
    if array is None or index is None:
        raise QueueUnknownError(f"oarstat shows a job without its array: {str(job)[:200]}")
    return str(array), index


def _nodes(job: Mapping[str, Any]) -> tuple[str, ...]:
    found = job.get("assigned_network_address")
    return tuple(dict.fromkeys(map(str, found))) if isinstance(found, list) else ()


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return "" if value is None else str(value)
