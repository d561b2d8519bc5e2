"""The unfinished tasks of a workflow by level and kind, for estimates of the time that is left."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress
from math import frexp, fsum, sqrt
from typing import NamedTuple

from wfrun.engine.capabilities.estimates.expected import kind_of
from wfrun.engine.core.state import TaskStatus, WorkflowState
from wfrun.engine.model import Task
from wfrun.engine.tasks.bag import BagTasks
from wfrun.engine.tasks.graph import topological_order

MAX_GROUPS = 2000
"""Maximum number of groups of a workflow by kind. If there were more, for example because each task
has a name of its own, tasks are grouped by level and cores alone."""

_EXAMINED = 1000
"""Approximate number of tasks of a bag whose documented run times are examined."""

_SETTLED = (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.UNNEEDED)
_FLAGS = bytes(status not in _SETTLED for status in range(256))
"""Translation table from the status of a task to 1 (unfinished) or 0."""


class Group(NamedTuple):
    """Tasks of one level and one kind."""

    level: int
    """Number of tasks after a task of the group on the longest path from it to the end of the
    workflow. Tasks of one level do not wait for each other."""
    kind: tuple[int, str] | None
    """Kind as `kind_of` returns it; None: several kinds."""
    cores: int
    first: int
    """The number of the first task of the group."""
    documented: tuple[float, float] | None
    """Mean and standard deviation of the documented run times in seconds. None if a task of the
    group documents no run time; in a bag, if no examined task does."""


class _Key(NamedTuple):
    """The common properties of the tasks of a group."""

    level: int
    name: str | None
    cores: int
    size: int
    """Binary exponent of the documented run time in seconds; 0 if the task documents no run
    time."""


class Unfinished:
    """The unfinished tasks of a workflow. Cost of the constructor: a pass over the graph; of
    `counts`: a pass in C over the tasks."""

    def __init__(self, w: WorkflowState) -> None:
        self._w = w
        self.groups: list[Group] = []
        self._group_of: Sequence[int] = ()
        """By task: the number of its group; empty for a bag, which is one group."""
        tasks = w.workflow.tasks
        if isinstance(tasks, BagTasks):
            times = [t for n in range(0, len(tasks), _step(tasks)) if (t := tasks.runtime_s(n))]
            documented = _moments(times) if times else None
            self.groups.append(Group(0, kind_of(w, 0), tasks[0].resources.cores, 0, documented))
            return
        levels = _levels(w)
        keys = [_Key(levels[n], t.name, t.resources.cores, _size(t)) for n, t in enumerate(tasks)]
        if len(set(keys)) > MAX_GROUPS:
            keys = [_Key(key.level, None, key.cores, 0) for key in keys]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self._group_of = array("L", map(numbers.__getitem__, keys))
        members: list[list[int]] = [[] for _ in numbers]
        for task, number in enumerate(self._group_of):
            members[number].append(task)
        for key, group in zip(numbers, members, strict=True):
            kind = None if key.name is None else kind_of(w, group[0])
            times = [t for task in group if (t := tasks[task].runtime_s) is not None]
            documented = _moments(times) if len(times) == len(group) else None
            self.groups.append(Group(key.level, kind, key.cores, group[0], documented))

    def group_of(self, task: int) -> int:
        """The number of the group of a task."""
        return self._group_of[task] if self._group_of else 0

    def counts(self) -> Iterator[tuple[int, int]]:
        """(number of a group, number of its unfinished tasks) for each group with unfinished tasks.
        Tasks with open attempts count as unfinished."""
        w = self._w
        if not self._group_of:
            unfinished = len(w.status) - w.done - w.failed - w.blocked - w.unneeded
            return iter([(0, unfinished)] if unfinished else [])
        flags = w.status.translate(_FLAGS)
        return iter(Counter(compress(self._group_of, flags)).items())


def _moments(times: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation."""
    mean_s = fsum(times) / len(times)
    return mean_s, sqrt(fsum((each - mean_s) ** 2 for each in times) / len(times))


def _size(task: Task) -> int:
    return 0 if not task.runtime_s else frexp(task.runtime_s)[1]


def _step(tasks: BagTasks) -> int:
    return max(1, len(tasks) // _EXAMINED)


def _levels(w: WorkflowState) -> list[int]:
    children = w.children
    levels = [0] * len(children)
    for task in reversed(topological_order(w.workflow.parents, children)):
        below = children[task]
        if below:
            levels[task] = 1 + max([levels[child] for child in below])
    return levels
