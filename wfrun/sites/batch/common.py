"""What the batch systems have in common."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Sequence

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.batch.system import BackPressureError, BatchJob, QueueUnknownError

MIB = 1 << 20
MAX_ARGUMENTS = 200
"""Most jobs that are named on one command line."""

_SHOWN = 500
_SCRIPT = """\
#!/bin/sh
# Made by wfrun for {name}. What was asked for is on the command line of the submission.
{before}exec {command} {element}
"""


def script(job: BatchJob, variable: str, before: str = "") -> str:
    """The batch script. ``variable`` holds the element's number in an array; in the environment of
    a job that is no array it may be left over from another, so it is not looked at."""
    element = f'"${variable}"' if job.count > 1 else "1"
    return _SCRIPT.format(
        name=job.name, before=before, command=shlex.join(job.command), element=element
    )


def whole_minutes(walltime_s: float) -> int:
    """Rounded up, and at least one: 0 means no limit to some."""
    return max(1, math.ceil(walltime_s / 60))


def clock(walltime_s: float) -> str:
    """``HH:MM:SS``, rounded up to seconds."""
    seconds = max(1, math.ceil(walltime_s))
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def refusal(
    program: str,
    exit_code: int | None,
    output: str,
    errors: str,
    *,
    limits: re.Pattern[str],
    never: re.Pattern[str],
) -> WfrunError:
    """The error for a submission that gave no id: what its words mean."""
    words = f"{errors.strip()}\n{output.strip()}".strip()
    shown = words if len(words) <= _SHOWN else f"… {words[-_SHOWN:]}"
    ended = "took too long" if exit_code is None else f"ended with exit code {exit_code}"
    message = f"{program} {ended}: {shown or 'it printed nothing'}"
    if limits.search(words):
        return BackPressureError(message)
    if exit_code is not None and never.search(words):
        return InfeasibleError(
            message, hint="Change the site's queue, account or options in the catalog, or the task."
        )
    return TransientError(message)


def check_answer(program: str, exit_code: int | None, errors: str) -> None:
    """Raise QueueUnknownError where the command failed."""
    if exit_code != 0:
        ended = "took too long" if exit_code is None else f"ended with exit code {exit_code}"
        raise QueueUnknownError(f"{program} {ended}: {errors.strip()[-_SHOWN:]}")


def grouped(jobs: Sequence[tuple[str, int | None]]) -> list[tuple[str, list[int]]]:
    """Jobs in order with their elements sorted; none: the whole job."""
    groups: dict[str, set[int]] = {}
    whole = {job for job, element in jobs if element is None}
    for job, element in jobs:
        groups.setdefault(job, set())
        if element is not None and job not in whole:
            groups[job].add(element)
    return [(job, sorted(elements)) for job, elements in groups.items()]


def chunks(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Of as many as fit one command line."""
    for start in range(0, len(arguments), MAX_ARGUMENTS):
        yield list(arguments[start : start + MAX_ARGUMENTS])
