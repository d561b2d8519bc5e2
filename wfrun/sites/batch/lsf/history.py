"""The parser of ``bhist -l``. Source: bhist(1) of LSF 10.1, and the examples in "Termination
reasons displayed by bacct, bhist, and bjobs"."""

from __future__ import annotations

import re

from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.jobs import Ending
from wfrun.sites.batch.lsf.queue import exit_of
from wfrun.sites.batch.lsf.termination import reason_of

_JOB = re.compile(r"^Job <(\d{1,18})(?:\[(\d{1,18})\])?>", re.ASCII)
_EVENT = re.compile(r"^\w{3} \w{3} +\d+ [\d:]+(?: \d{4})?: ", re.MULTILINE | re.ASCII)
_HOST = re.compile(r"\bon *Host\(s\) *<([^>\s]+)>|^Dispatched *to *<([^>\s]+)>")
_CODE = re.compile(r"Exited *with *exit *code *(\d{1,9})\b", re.ASCII)


def read_history(output: str) -> dict[tuple[str, int], Ending]:
    """The outcomes of the jobs that have ended, by job id and element. A job that was queued again
    has several ends. The last one counts, unless the job started again after it."""
    endings = {}
    for block in re.split(r"^-{10,}\n", output, flags=re.MULTILINE):
        match = _JOB.match(block.lstrip())
        if match is None or not block.endswith("\n"):
            continue
        # Continued lines are indented. Lines are broken within words, and spaces there are lost.
        text = re.sub(r"\n {5,}", "", block)
        ending = _ending(_EVENT.split(text)[1:])
        if ending is not None:
            endings[match[1], number_of(match[2], 1)] = ending
    return endings


def _ending(events: list[str]) -> Ending | None:
    node, ending, code = None, None, None
    for event in events:
        host = _HOST.search(event)
        if host is not None:
            node, ending, code = host[1] or host[2], None, None
        if (found := _CODE.search(event)) is not None:
            code = number_of(found[1])
        if re.match("Exited|Completed *<exit>", event):
            ending = reason_of(event, node) or ending or exit_of(code, node)
        elif re.match("Done *successfully|Completed *<done>", event):
            ending = Ending(cause="done", exit_code=0, message="exit code 0", node=node)
    return ending
