"""Expressions for elements of an array, such as ``1-7:2,9``."""

from __future__ import annotations

import re

from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.jobs import QueueUnknownError

MAX_ELEMENTS = 1_000_000
"""Maximum number of elements in one expression. No batch system has larger arrays; a longer
expression is corrupt, and would exhaust memory."""

MAX_JOBS = 1_000_000
"""Maximum number of jobs, with the elements of arrays, in one answer of a batch system."""

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


def expand(text: str) -> list[int]:
    """Numbers of an expression such as ``1-7:2,9``, in the form of Slurm, Grid Engine and PBS.
    Ignores a limit on running elements (``%5``) and a final ``...``, with which Slurm truncates
    long expressions. Raises QueueUnknownError for anything else."""
    numbers: list[int] = []
    for part in text.partition("%")[0].split(","):
        if part == "...":
            continue
        match = _RANGE.fullmatch(part)
        if match is None:
            raise QueueUnknownError(f"{text[:80]!r} is not an expression for elements of an array")
        first = number_of(match[1], 0)
        last, step = number_of(match[2], first), number_of(match[3], 1)
        chosen = range(first, last + 1, max(step, 1))
        if len(numbers) + len(chosen) > MAX_ELEMENTS:
            raise QueueUnknownError(f"{text[:80]!r} has more elements than an array can have")
        numbers += chosen
    return numbers


def check_count(count: int) -> None:
    """Raise QueueUnknownError for an answer with more than MAX_JOBS jobs, since expressions can
    state very many jobs in a few bytes."""
    if count > MAX_JOBS:
        raise QueueUnknownError(f"the answer shows more than {MAX_JOBS} jobs")


def compress(numbers: list[int]) -> str:
    """The expression, such as ``1-3,7``, for sorted numbers without duplicates."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
