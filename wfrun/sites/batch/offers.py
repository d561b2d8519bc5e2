"""Records of what a batch system offers to a user: its queues, and its limits on jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from wfrun.parsers.foreign import decimal_of, number_of

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


class BatchQueue(msgspec.Struct, frozen=True):
    """A queue or partition, as far as this user can see it."""

    name: str
    is_default: bool = False
    is_open: bool = True
    """Whether it accepts and starts jobs."""
    cores: int = 0
    """Cores of all its nodes; 0: unknown."""
    down_cores: int = 0
    """Cores of nodes that are out of service."""
    idle_cores: int = 0
    node_cores: int = 0
    """Cores of its largest node; 0: unknown."""
    node_memory_bytes: int = 0
    """Maximum memory of one task; 0: unknown."""
    node_gpus: int | None = None
    """Maximum number of GPUs of a node; None: unknown."""
    walltime_s: float | None = None
    """Maximum walltime of a job; None: no limit is known."""
    max_array: int | None = None
    """Maximum number of elements of an array in this queue; None: the system's limit applies."""
    choices: Mapping[str, tuple[str, ...]] = {}
    """Usable values, best first, of each catalog key that only this batch system has. A key is
    absent if its values are unknown."""
    notes: tuple[str, ...] = ()
    """Further facts, in sentences, that matter for choosing this queue."""


class Offer(msgspec.Struct, frozen=True):
    """Queues and limits of a batch system."""

    queues: tuple[BatchQueue, ...]
    """In the system's order."""
    max_array: int | None = None
    """Maximum number of elements of an array; None: unknown."""
    max_jobs: int | None = None
    """Maximum number of jobs that one user should have in the queue; each element of an array
    counts. None: unknown."""
    max_jobs_why: str = ""
    """Setting from which ``max_jobs`` comes, in words for the user."""
    picks_queue: bool = False
    """Whether the scheduler picks a queue for a job that names none, even without a default."""
    notes: tuple[str, ...] = ()
    """Further facts about the system, in sentences, that its users should know."""

    def queue(self, name: str | None) -> BatchQueue | None:
        """The queue ``name``, or the default queue if ``name`` is None; None if there is no such
        queue."""
        if name is not None:
            return next((queue for queue in self.queues if queue.name == name), None)
        return next((queue for queue in self.queues if queue.is_default), None)

    def max_array_in(self, queue: BatchQueue | None) -> int | None:
        """Maximum number of elements of an array in a queue; None: unknown."""
        limits = [self.max_array or 0, (queue.max_array or 0) if queue else 0]
        return smallest_limit(limits)

    def best(self) -> BatchQueue:
        """The queue to propose. Usable queues come before others, then the default queue before
        others, then queues with more cores in service, then queues with a longer walltime."""
        return max(self.queues, key=_worth)


def _worth(queue: BatchQueue) -> tuple[bool, bool, int, float]:
    granted_s = float("inf") if queue.walltime_s is None else queue.walltime_s
    usable = queue.is_open and queue.cores > queue.down_cores
    return usable, queue.is_default, queue.cores - queue.down_cores, granted_s


def size_bytes(text: str) -> int:
    """Bytes of a size such as ``24684096kb``, ``8G``, ``23.541G`` or ``100mb``, with units in
    powers of 1024; 0 for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgtp]?)b?", text.strip().lower(), re.ASCII)
    number = decimal_of(match[1]) if match else None
    return 0 if match is None or number is None else round(number * _UNITS[match[2]])


def clock_s(text: str) -> float | None:
    """Seconds of a time such as ``1-00:00:00``, ``10:00``, ``24:00:00`` or ``90``; None for
    anything else, such as UNLIMITED and INFINITY."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9}(?::\d{1,9}){0,2})", text.strip(), re.ASCII)
    if match is None:
        return None
    seconds = 0.0
    for part in match[2].split(":"):
        seconds = seconds * 60 + number_of(part, 0)
    return seconds + 86400 * number_of(match[1], 0)


def blocks(text: str, first: str) -> list[dict[str, str]]:
    """Records of lines ``name value``. A line with the name ``first`` begins a record; a backslash
    at the end of a line joins it with the next."""
    found: list[dict[str, str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        name, _, value = line.strip().partition(" ")
        if name == first:
            found.append({})
        if found and name:
            found[-1][name] = " ".join(value.split())
    return found


def smallest_limit(numbers: Sequence[int]) -> int | None:
    """The smallest number above 0, since 0 means no limit; None if no number is above 0."""
    return min((number for number in numbers if number > 0), default=None)
