"""The parser of ``qstat -f -F json`` of OpenPBS and PBS Professional. Source: qstat(1B) of OpenPBS
23.06, and recordings of that version."""

from __future__ import annotations

import json
import re

from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.pbs.attributes import Attributes

_JOB = re.compile(r'^[ \t]+"(\d+(?:\[\d*\])?(?:\.[\w.-]+)?)":\s*\{[ \t]*$', re.MULTILINE | re.ASCII)
_WANTED = re.compile(
    r'^[ \t]+"(Job_Name|Job_Owner|job_state|comment|Exit_status|exec_host|walltime|ncpus'
    r"|Hold_Types|array_indices_remaining|array_indices_submitted|array_state_count|resources_used"
    r'|Resource_List)":\s*'
    r'(?:"(.*)"|(-?\d+)|\{),?[ \t\r]*$',
    re.MULTILINE,
)


def read_json(output: str) -> Attributes:
    """The attributes of all jobs. Older versions do not escape the environment of jobs, which makes
    the document invalid. Such a document is read line by line. Raises QueueUnknownError for an
    incomplete document."""
    try:
        root = json.loads(output, strict=False)
    except (ValueError, RecursionError):
        return _read_lines(output)
    jobs = root.get("Jobs", {}) if isinstance(root, dict) else None
    if not isinstance(jobs, dict) or "pbs_version" not in root:
        raise QueueUnknownError(f"no queue in the output of qstat: {output[:200]!r}")
    if not all(isinstance(job, dict) for job in jobs.values()):
        raise QueueUnknownError(f"not jobs of qstat: {output[:200]!r}")
    return {ident: _flat(job) for ident, job in jobs.items()}


def _flat(job: dict[str, object]) -> dict[str, str]:
    flat = {}
    for key, value in job.items():
        if isinstance(value, dict):
            flat.update({f"{key}.{inner}": str(each) for inner, each in value.items()})
        else:
            flat[key] = str(value)
    return flat


def _read_lines(output: str) -> Attributes:
    starts = list(_JOB.finditer(output))
    whole = '"pbs_version"' in output and re.search(r"^\}\s*\Z", output, re.MULTILINE)
    if not starts or not whole:
        raise QueueUnknownError(f"not a complete document of qstat: {output[:200]!r}")
    jobs = {}
    ends = [*(start.start() for start in starts[1:]), len(output)]
    for start, end in zip(starts, ends, strict=True):
        block = output[start.end() : end]
        attributes: dict[str, str] = {}
        group = ""
        for match in _WANTED.finditer(block):
            key, text, number = match.groups()
            if key in ("resources_used", "Resource_List"):
                group = f"{key}."
                continue
            if key in ("walltime", "ncpus"):
                key = group + key
            value = number if text is None else text.replace('\\"', '"')
            # The first value counts: later ones may come from the job's environment.
            attributes.setdefault(key, value or "")
        jobs[start[1]] = attributes
    return jobs
