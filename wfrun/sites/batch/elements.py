"""Which elements of an array are meant: ``1-7:2,9``."""

from __future__ import annotations

import re

from wfrun.sites.batch.jobs import QueueUnknownError

MAX_ELEMENTS = 1_000_000
"""More in one expression is an error of the sender: no batch system has arrays so large."""

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


def expand(text: str) -> list[int]:
    """The numbers that ``1-7:2,9`` stands for: Slurm, Grid Engine and PBS write so. What follows
    ``%`` (how many may run at once) is left out, and so is a last ``...``, with which Slurm cuts
    off what is too long. Raises QueueUnknownError for anything else."""
    numbers: list[int] = []
    for part in text.partition("%")[0].split(","):
        if part == "...":
            continue
        match = _RANGE.fullmatch(part)
        if match is None:
            raise QueueUnknownError(f"{text[:80]!r} names no elements of an array")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        chosen = range(first, last + 1, max(step, 1))
        if len(numbers) + len(chosen) > MAX_ELEMENTS:
            raise QueueUnknownError(f"{text[:80]!r} names more elements than an array can have")
        numbers += chosen
    return numbers


def compress(numbers: list[int]) -> str:
    """``1-3,7`` for sorted numbers without duplicates 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
