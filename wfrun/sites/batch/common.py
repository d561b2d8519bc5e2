"""Functions that several batch systems use."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Sequence

from wfrun.sites.batch.system import BatchJob, QueueUnknownError

MIB = 1 << 20
MAX_ARGUMENTS = 200
"""Maximum number of jobs named on one command line."""

_SHOWN = 500
"""Maximum number of characters of a program's output in a message."""
_SCRIPT = """\
#!/bin/sh
# Made by wfrun for {name}. The command line of the submission has the requested resources.
{before}exec {command} {element}
"""


def script(job: BatchJob, variable: str, before: str = "") -> str:
    """The batch script. ``variable`` names the environment variable that has the number of an array
    element. A job that is not an array passes 1 instead, since it may inherit this variable from
    the job that submitted it. ``before`` has lines to run before the command."""
    element = f'"${variable}"' if job.count > 1 else "1"
    return _SCRIPT.format(
        name=job.name, before=before, command=shlex.join(job.command), element=element
    )


def tell_walltime(job: BatchJob, walltime_s: int, overriding: str) -> str:
    """Lines of a batch script that pass the walltime of the job to ``job.py``, which suspects the
    batch system if the job ends near its walltime. Empty if one of the user's options may request
    another walltime: if the option matches the regular expression ``overriding``."""
    if any(re.match(overriding, word) for word in job.options):
        return ""
    return f"WFRUN_JOB_WALLTIME_S={walltime_s}\nexport WFRUN_JOB_WALLTIME_S\n"


def whole_minutes(walltime_s: float) -> int:
    """Minutes, rounded up, at least 1: some systems read 0 as no limit."""
    return max(1, math.ceil(walltime_s / 60))


def whole_seconds(walltime_s: float) -> int:
    """Seconds, rounded up, at least 1."""
    return max(1, math.ceil(walltime_s))


def clock(walltime_s: float) -> str:
    """``HH:MM:SS``, rounded up to whole seconds."""
    seconds = whole_seconds(walltime_s)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def check_answer(program: str, exit_code: int | None, errors: str) -> None:
    """Raise QueueUnknownError if the command failed."""
    if exit_code != 0:
        raise QueueUnknownError(f"{program} {how_it_ended(exit_code)}: {errors.strip()[-_SHOWN:]}")


def how_it_ended(exit_code: int | None) -> str:
    """How a command ended, for messages."""
    return "timed out" if exit_code is None else f"ended with exit code {exit_code}"


def grouped(jobs: Sequence[tuple[str, int | None]]) -> list[tuple[str, list[int]]]:
    """The jobs in the order of their first mention, each with its elements, sorted. An empty list
    of elements means the whole job."""
    groups: dict[str, set[int]] = {}
    whole = {job for job, element in jobs if element is None}
    for job, element in jobs:
        groups.setdefault(job, set())
        if element is not None and job not in whole:
            groups[job].add(element)
    return [(job, sorted(elements)) for job, elements in groups.items()]


def chunks(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Parts of ``arguments`` of at most ``MAX_ARGUMENTS`` each."""
    for start in range(0, len(arguments), MAX_ARGUMENTS):
        yield list(arguments[start : start + MAX_ARGUMENTS])
