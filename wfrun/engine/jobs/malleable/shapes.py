"""The sizes that a malleable job accepts.

The scheduler does not know them: it learns them from answers (thesis section 3.3.1)."""

from __future__ import annotations

from bisect import bisect_right

from wfrun.engine.jobs.malleable.policies import SizedJob

SHAPES = ("any", "power-of-two")
"""``any``: any number of processors from minimum to maximum; ``power-of-two``: powers of two among
these."""

Shape = str | tuple[int, ...]
"""One of `SHAPES`, or the accepted sizes, ascending."""


def fitting(shape: Shape, job: SizedJob, processors: int) -> int:
    """The largest accepted size of at most ``processors``, or the minimum size of the job if there
    is none."""
    processors = min(processors, job.most)
    if isinstance(shape, tuple):
        processors = shape[max(bisect_right(shape, processors) - 1, 0)]
    elif shape == "power-of-two" and processors > 0:
        processors = 1 << (processors.bit_length() - 1)
    return max(processors, job.least)


def taken(shape: Shape, job: SizedJob, offered: int) -> int:
    """Processors of an offer that the job takes."""
    return max(0, fitting(shape, job, job.size + offered) - job.size)


def given_back(shape: Shape, job: SizedJob, asked: int) -> int:
    """Number of processors that the job gives back when ``asked`` are reclaimed: at least as many,
    unless its minimum forbids it."""
    return job.size - min(job.size, fitting(shape, job, job.size - asked))
