"""The parser of ``bjobs -json``. Source: bjobs(1), options -o, -json and -hms, of LSF 10.1 with Fix
Pack 2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.elements import check_count
from wfrun.sites.batch.jobs import Ending, JobInQueue, QueueUnknownError, State
from wfrun.sites.batch.lsf.termination import reason_of
from wfrun.sites.batch.offers import clock_s

_FIELDS = (
    "jobid", "jobindex", "job_name", "user", "stat", "slots", "exec_host", "pend_reason",
    "runtimelimit", "exit_code", "exit_reason",
)  # fmt: skip
COMMAND = ("bjobs", "-json", "-hms", "-o", " ".join(_FIELDS))
_NO_JOBS = re.compile(r"^No (unfinished )?job found", re.MULTILINE)
_STATES: dict[str, State | None] = {
    "PEND": "queued",
    "WAIT": "queued",
    "PSUSP": "held",
    "RUN": "running",
    "PROV": "running",
    # The host cannot be reached. The job may go on there.
    "UNKWN": "running",
    "SSUSP": "suspended",
    "USUSP": "suspended",
    # It was ended while its host could not be reached.
    "ZOMBI": "ending",
    "DONE": None,
    "EXIT": None,
}


def is_empty(output: str, errors: str) -> bool:
    """Whether the answer says that there is no job. Some versions then print a message on stderr
    instead of a document."""
    return not output.strip() and _NO_JOBS.match(errors.strip()) is not None


def read_queue(output: str) -> list[JobInQueue]:
    """The jobs that have not ended, arrays element by element. Start times are left out: they are
    local times. Raises QueueUnknownError."""
    jobs = []
    for record in _records(output):
        # A state of a newer version: the job exists, nothing else is known.
        state = _STATES.get(record["STAT"], "queued")
        if state is None:
            continue
        job, element = _parts(record)
        jobs.append(
            JobInQueue(
                id=job,
                element=element,
                name=re.sub(r"\[\d+\]$", "", record["JOB_NAME"], flags=re.ASCII),
                user=record["USER"],
                state=state,
                cores=number_of(record["SLOTS"], 1),
                reason=" ".join(record["PEND_REASON"].split())
                if state in ("queued", "held")
                else "",
                nodes=_nodes(record["EXEC_HOST"]),
                requested_s=clock_s(record["RUNTIMELIMIT"]),
            )
        )
    check_count(len(jobs))
    return jobs


def read_endings(output: str) -> dict[tuple[str, int], Ending]:
    """The outcomes of the jobs that have ended. Raises QueueUnknownError."""
    endings = {}
    for record in _records(output):
        stat = record["STAT"]
        if stat not in ("DONE", "EXIT"):
            continue
        node = next(iter(_nodes(record["EXEC_HOST"])), None)
        ending = reason_of(record["EXIT_REASON"], node)
        if stat == "DONE":
            ending = Ending(cause="done", exit_code=0, message="exit code 0", node=node)
        elif ending is None:
            ending = exit_of(number_of(record["EXIT_CODE"]), node)
        endings[_parts(record)] = ending
    return endings


def exit_of(code: int | None, node: str | None) -> Ending:
    """The outcome of a job for which LSF gives no reason. An exit code above 128, or none, stands
    for a signal."""
    if code is None:
        return Ending(cause="signal", message="EXIT", node=node)
    if code > 128:
        return Ending(cause="signal", message=f"exit code {code}", node=node)
    return Ending(cause="exit", exit_code=code, message=f"exit code {code}", node=node)


def _records(output: str) -> Iterator[Mapping[str, str]]:
    """The records of a document, without those of unknown jobs. bjobs may print lines before the
    document, such as ``Cannot connect to LSF. Please wait ...``."""
    start = output.find("{")
    try:
        document = json.loads(output[start:] if start >= 0 else "", strict=False)
        records: list[dict[str, Any]] = document["RECORDS"]
        count = number_of(str(document["JOBS"]))
        if count != len(records):
            raise QueueUnknownError(f"bjobs shows {len(records)} of {count} jobs")
        for record in records:
            if "ERROR" not in record:
                yield {field.upper(): str(record[field.upper()]) for field in _FIELDS}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise QueueUnknownError(f"not a document of bjobs: {output[:200]!r}: {error!r}") from error


def _parts(record: Mapping[str, str]) -> tuple[str, int]:
    """Job id and element of a record. LSF gives index 0 to a job that is no array; its element is
    1."""
    job, index = number_of(record["JOBID"]), number_of(record["JOBINDEX"] or "0")
    if job is None or index is None:
        raise QueueUnknownError(f"{record['JOBID'][:80]!r} is not the id of a job")
    return str(job), index or 1


def _nodes(hosts: str) -> tuple[str, ...]:
    """The hosts in ``4*hostA:hostB``, each once."""
    names = (part.rpartition("*")[2] for part in hosts.split(":"))
    return tuple(dict.fromkeys(name for name in names if name and name != "-"))
