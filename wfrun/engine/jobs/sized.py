"""Parallel jobs with a number of processors: their nodes, request and command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from wfrun.engine.model import Resources
from wfrun.engine.tasks.templates import filled


class Growth(NamedTuple):
    """Growth of the request of a moldable job by retries. Applies to all its sizes."""

    walltimes: float = 1.0
    """Factor on the walltimes of the job."""
    memory_bytes: int = 0
    """Minimum memory on each node, in bytes."""


def shaped(size: int, ppn: int | None) -> tuple[int, int] | None:
    """(number of nodes, cores on each node) of a job with ``size`` cores; None if the size cannot
    be spread evenly over nodes with ``ppn`` processes each. ``ppn`` None: all cores are on one
    node."""
    if ppn is None or size <= ppn:
        return 1, size
    return (size // ppn, ppn) if size % ppn == 0 else None


def sized(asked: Resources, size: int, ppn: int | None, walltime_s: float | None) -> Resources:
    """The request ``asked`` of a job, changed to ``size`` processors and ``walltime_s``. `shaped`
    must not be None for this size."""
    shape = shaped(size, ppn)
    assert shape is not None, "the reader keeps sizes that nodes can have"
    return msgspec.structs.replace(asked, cores=size, nodes=shape[0], walltime_s=walltime_s)


def at_speed(asked: Resources, speed_ratio: float) -> Resources:
    """The request of a task at a site of this speed. The walltime of a parallel job is stated for
    speed 1, and is divided by the speed. The requests of other tasks are unchanged."""
    if not asked.parallel or asked.walltime_s is None or speed_ratio == 1.0:
        return asked
    return msgspec.structs.replace(asked, walltime_s=asked.walltime_s / speed_ratio)


def sized_words(words: Iterable[str], name: str, cores: int, nodes: int) -> tuple[str, ...]:
    """The command of the job ``name`` with the values of its size filled in. ``cores``: number of
    cores on all nodes together."""
    values = {"size": str(cores), "nodes": str(nodes), "ppn": str(cores // nodes), "job": name}
    return tuple(filled(word, values) for word in words)
