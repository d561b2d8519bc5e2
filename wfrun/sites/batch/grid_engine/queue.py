"""The parsers of ``qstat -xml`` and qacct. Source: qstat(1), accounting(5) and sge_status(5) of
version 8.1.9, and recordings of that version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

from wfrun.engine.exchange import Cause
from wfrun.parsers.foreign import decimal_of, number_of
from wfrun.sites.batch.elements import check_count, expand
from wfrun.sites.batch.jobs import Ending, JobInQueue, QueueUnknownError, State

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_BEFORE_JOB = frozenset({*range(1, 15), 21, 24, 25, 27, 28, 29, 38})
"""Values of the field ``failed`` of jobs that never started, through no fault of their own."""
_NO_OUTPUT = 26
_LIMIT = 37
_KILLED = 100
"""Value of the field ``failed`` if a signal ended the job after its start."""
_UNITS = {
    "": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2, "g": 1000**3, "G": 1024**3,
    "t": 1000**4, "T": 1024**4,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)B?", re.ASCII)
_CLOCK = re.compile(r"(\d+):(\d+):(\d+)", re.ASCII)
_REQUEST = re.compile(r"\b(h_rt|h_vmem)=([\w.:]+)", re.ASCII)


def read_queue(output: str) -> list[JobInQueue]:
    """The jobs in ``qstat -xml``. Start times are left out: they are local times. Raises
    QueueUnknownError."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    # A job's name may have bytes of any encoding. They must not hide the other jobs.
    data = _NO_XML.sub("?", output).encode(errors="replace")
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise QueueUnknownError(
            f"not a complete document of qstat: {output[:200]!r}: {error}"
        ) from None
    if root.tag != "job_info" or root.find("queue_info") is None or root.find("job_info") is None:
        raise QueueUnknownError(f"no queue in the output of qstat: {output[:200]!r}")
    jobs: list[JobInQueue] = []
    for entry in root.iter("job_list"):
        jobs += _jobs(entry)
        check_count(len(jobs))
    return jobs


def _jobs(entry: etree._Element) -> list[JobInQueue]:
    def text(tag: str) -> str:
        return (entry.findtext(tag) or "").strip()

    number, slots, code, tasks = (text(tag) for tag in ("JB_job_number", "slots", "state", "tasks"))
    cores = number_of(slots)
    if number_of(number) is None or cores is None or not code:
        raise QueueUnknownError(f"qstat shows a job without number, slots or state: {number!r}")
    state = _state(code)
    host = text("queue_name").partition("@")[2]
    reason = ""
    if state == "refused":
        reason = f"in error state {code}: 'qstat -j {number}' says why"
    return [
        JobInQueue(
            id=number,
            element=element,
            name=text("JB_name"),
            user=text("JB_owner"),
            state=state,
            cores=cores,
            reason=reason,
            nodes=(host,) if host else (),
        )
        for element in (expand(tasks) if tasks else [1])
    ]


def _state(code: str) -> State:
    """The state for a code of qstat(1), which has letters for d(eletion), E(rror), h(old),
    r(unning), R(estarted), s(uspended), S (queue suspended), t(ransferring), T(hreshold),
    w(aiting). Unknown letters are ignored."""
    if "d" in code:
        return "ending"
    if "E" in code:
        return "refused"
    if any(letter in code for letter in "sST"):
        return "suspended"
    if "r" in code or "t" in code:
        return "running"
    return "held" if "h" in code else "queued"


def read_accounting(output: str) -> dict[tuple[str, int], Ending]:
    """The outcomes of the jobs in ``qacct -j``, by job id and element. Incomplete records are left
    out. An element has several records if it was restarted or if its number was reused; the last
    one counts."""
    endings = {}
    for record in _records(output):
        number, task = record.get("jobnumber", ""), record.get("taskid", "")
        element = 1 if task == "undefined" else number_of(task)
        if number_of(number) is None or element is None:
            continue
        ending = _ending(record)
        if ending is not None:
            endings[number, element] = ending
    return endings


def _records(output: str) -> Iterator[dict[str, str]]:
    for block in re.split(r"^={10,}\n", output, flags=re.MULTILINE)[1:]:
        # The part after the last line break is truncated or empty.
        pairs = (line.partition(" ") for line in block.split("\n")[:-1])
        yield {key: value.strip() for key, _, value in pairs}


def _ending(record: dict[str, str]) -> Ending | None:
    failed = re.match(r"\d{1,9}(?!\d)", record.get("failed", ""), re.ASCII)
    status = re.match(r"-?\d{1,9}(?!\d)", record.get("exit_status", ""), re.ASCII)
    if failed is None or status is None:
        return None
    code = number_of(failed[0], 0)
    exit_code = number_of(status[0], 0, signed=True)
    node = record.get("hostname") or None
    if code == 0 and exit_code == 0:
        return Ending(cause="done", exit_code=0, message="exit status 0", node=node)
    message = f"exit status {_joined(record['exit_status'])}"
    if code:
        message = f"failed {_joined(record['failed'])}; {message}"
    cause = _cause(code, exit_code, record)
    return Ending(
        cause=cause, exit_code=exit_code if cause == "exit" else None, message=message, node=node
    )


def _cause(code: int, exit_code: int, record: dict[str, str]) -> Cause:
    if code in _BEFORE_JOB:
        return "node"
    if code == _NO_OUTPUT:
        return "disk-full"
    if exit_code <= 128 and code not in (_LIMIT, _KILLED):
        return "exit"
    # Killed. The record does not say by whom, but has the limits and the usage.
    limits = dict(_REQUEST.findall(record.get("category", "")))
    walltime = _seconds(limits.get("h_rt", ""))
    memory = _bytes(limits.get("h_vmem", ""))
    slots = number_of(record.get("slots"), 1)
    elapsed = _seconds(record.get("ru_wallclock", ""))
    if walltime is not None and elapsed is not None and elapsed >= walltime:
        return "walltime"
    peak = _bytes(record.get("maxvmem", ""))
    # The peak is sampled, so it may miss the allocation that exceeded the limit.
    if memory is not None and (code == _LIMIT or (peak is not None and peak >= memory * slots)):
        return "memory"
    return "signal"


def _joined(padded: str) -> str:
    return " ".join(padded.split())


def _seconds(text: str) -> float | None:
    """Seconds of ``3600``, ``5s``, ``5.12`` or ``1:00:00``."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        hours, minutes, seconds = (number_of(part, 0) for part in clock.groups())
        return hours * 3600.0 + minutes * 60 + seconds
    plain = re.fullmatch(r"(\d+(?:\.\d+)?)s?", text, re.ASCII)
    return None if plain is None else decimal_of(plain[1])


def _bytes(text: str) -> float | None:
    match = _SIZE.fullmatch(text)
    number = None if match is None else decimal_of(match[1])
    return None if match is None or number is None else number * _UNITS[match[2]]
