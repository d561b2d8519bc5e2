"""Parallel jobs with a number of processors: their nodes, request and command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from wfrun.engine.model import Resources
from wfrun.engine.tasks.templates import filled


class Growth(NamedTuple):
    """What retries have added to the request of a moldable job, whatever its size."""

    walltimes: float = 1.0
    """Factor on its walltimes."""
    memory_bytes: int = 0
    """Minimum memory on each node."""


def shaped(size: int, ppn: int | None) -> tuple[int, int] | None:
    """The number of nodes of a job and of its cores on each; None for a size that cannot be spread
    evenly over nodes with ``ppn`` processes each. ``ppn`` None: all are on one node."""
    if ppn is None or size <= ppn:
        return 1, size
    return (size // ppn, ppn) if size % ppn == 0 else None


def sized(asked: Resources, size: int, ppn: int | None, walltime_s: float | None) -> Resources:
    """The request of a job with this number of processors, which must suit its nodes."""
    shape = shaped(size, ppn)
    assert shape is not None, "the reader keeps sizes that nodes can have"
    return msgspec.structs.replace(asked, cores=size, nodes=shape[0], walltime_s=walltime_s)


def at_speed(asked: Resources, speed_ratio: float) -> Resources:
    """The request of a parallel job at a site: its document states the walltime on processors of
    speed 1. Other tasks have the same request at all sites."""
    if not asked.parallel or asked.walltime_s is None or speed_ratio == 1.0:
        return asked
    return msgspec.structs.replace(asked, walltime_s=asked.walltime_s / speed_ratio)


def sized_words(words: Iterable[str], name: str, cores: int, nodes: int) -> tuple[str, ...]:
    """The command of a job of this name with a number of cores in all, spread over its nodes."""
    values = {"size": str(cores), "nodes": str(nodes), "ppn": str(cores // nodes), "job": name}
    return tuple(filled(word, values) for word in words)
