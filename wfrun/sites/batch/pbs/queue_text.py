"""The parser of ``qstat -f`` of Torque. Source: qstat(1B) of Torque 6.1, and recordings of OpenPBS
23.06, which prints the same form."""

from __future__ import annotations

from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.pbs.attributes import Attributes

_JOB = "Job Id:"


def read_text(output: str) -> Attributes:
    """The attributes of all jobs. Long values are wrapped with a line break and a tab. Empty output
    means no jobs. Raises QueueUnknownError for incomplete output."""
    if output and not output.endswith("\n\n"):
        raise QueueUnknownError(f"the output of qstat is truncated: {output[-200:]!r}")
    jobs: dict[str, dict[str, str]] = {}
    attributes: dict[str, str] = {}
    key = ""
    # Not splitlines: values may contain other line separators.
    for line in output.split("\n"):
        if line.startswith(_JOB):
            attributes = jobs.setdefault(line.removeprefix(_JOB).strip(), {})
            key = ""
        elif line.startswith("\t") and key:
            attributes[key] += line[1:]
        elif line.startswith("    ") and " = " in line and jobs:
            key, _, value = line.strip().partition(" = ")
            attributes[key] = value
        elif line.strip() and not key:
            raise QueueUnknownError(f"not a line of qstat: {line[:200]!r}")
    return jobs


def after_header(output: str) -> str:
    """The output after the table of ``qstat -B``; the table shows that the server answered. Raises
    QueueUnknownError if the table is missing."""
    head, separator, rest = output.partition(_JOB)
    lines = head.splitlines()
    if len(lines) < 3 or not lines[0].startswith("Server") or not lines[1].startswith("---"):
        raise QueueUnknownError(f"no table of qstat -B: {output[:200]!r}")
    return separator + rest
