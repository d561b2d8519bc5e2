"""What a batch system offers to a user: its queues, and how much it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


class Queue(msgspec.Struct, frozen=True):
    """A queue, or a partition, as far as this user may see it."""

    name: str
    is_default: bool = False
    is_open: bool = True
    """It takes jobs and starts them."""
    cores: int = 0
    """Of all its nodes; 0: not known."""
    down_cores: int = 0
    """Of nodes that are out of service."""
    idle_cores: int = 0
    node_cores: int = 0
    """Of its largest node; 0: not known."""
    node_memory_bytes: int = 0
    """The most that one task can get; 0: not known."""
    node_gpus: int | None = None
    """Of its node with most; None: not known."""
    walltime_s: float | None = None
    """The longest that it grants; None: no limit is known."""
    choices: Mapping[str, tuple[str, ...]] = {}
    """By catalog key of this batch system alone: the values that can be used, the best first. A key
    is absent where they are not known."""
    notes: tuple[str, ...] = ()
    """What else a user should know before choosing it."""


class Offer(msgspec.Struct, frozen=True):
    """What a batch system told of itself."""

    queues: tuple[Queue, ...]
    """In the system's order."""
    max_array: int | None = None
    """Most elements of one array; None: not known."""
    max_jobs: int | None = None
    """Most jobs that one user should have there, elements of arrays counted one by one."""
    max_jobs_why: str = ""
    """Where that number comes from."""
    picks_queue: bool = False
    """The scheduler picks a queue for a job that names none, also without a default."""

    def queue(self, name: str | None) -> Queue | None:
        """The queue of this name, or the one that jobs go to which name none; None: there is no
        such."""
        if name is not None:
            return next((queue for queue in self.queues if queue.name == name), None)
        return next((queue for queue in self.queues if queue.is_default), None)

    def best(self) -> Queue:
        """The one to begin with: the default if it is open, else the largest that is; of equally
        large ones the one that grants most time."""
        return max(self.queues, key=_worth)


def _worth(queue: Queue) -> tuple[bool, bool, int, float]:
    granted_s = float("inf") if queue.walltime_s is None else queue.walltime_s
    usable = queue.is_open and queue.cores > queue.down_cores
    return usable, queue.is_default, queue.cores - queue.down_cores, granted_s


def size_bytes(text: str) -> int:
    """Bytes of ``24684096kb``, ``8G``, ``23.541G`` or ``100mb``, units in powers of 1024; 0 where
    it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgtp]?)b?", text.strip().lower(), re.ASCII)
    return round(float(match[1]) * _UNITS[match[2]]) if match else 0


def clock_s(text: str) -> float | None:
    """Seconds of ``1-00:00:00``, ``10:00``, ``24:00:00`` or a number of seconds; None where it is
    none, as UNLIMITED and INFINITY."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+(?::\d+){0,2})", text.strip(), re.ASCII)
    if match is None:
        return None
    seconds = 0.0
    for part in match[2].split(":"):
        seconds = seconds * 60 + int(part)
    return seconds + 86400 * int(match[1] or 0)


def blocks(text: str, first: str) -> list[dict[str, str]]:
    """Records of lines ``name value``, each beginning with a line that has the name ``first``;
    lines that end with a backslash go on in the next."""
    found: list[dict[str, str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        name, _, value = line.strip().partition(" ")
        if name == first:
            found.append({})
        if found and name:
            found[-1][name] = " ".join(value.split())
    return found


def least(numbers: Sequence[int]) -> int | None:
    """The smallest of those that are limits, that is above 0."""
    return min((number for number in numbers if number > 0), default=None)
