"""A workflow in the making: tasks are added in order, and files imply most edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

from wfrun.engine.model import File, Task, Workflow

_INITIAL = -1
_SHORTEST_S = 0.001
_ID_DIGITS = 5

Shape = TypeVar("Shape")


class Sketch:
    """Collects files and tasks, and makes the `Workflow`. A file is added before the first task
    that reads it.

    Files are numbered in the order in which they are added. A family adds an initial file just
    before the first task that reads it. The numbers are then those that a reader of the written
    document gives.
    """

    def __init__(self, name: str, tasks: int, rng: Random) -> None:
        self.rng = rng
        self._name = name
        self._digits = max(_ID_DIGITS, len(str(tasks - 1)))
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._producers: list[int] = []
        self._read = bytearray()
        self._tasks: list[Task] = []
        self._parents: list[tuple[int, ...]] = []

    def initial(self, name: str, size_bytes: float) -> int:
        """Add a file that exists before the workflow starts. Return its index."""
        return self._file(name, size_bytes, _INITIAL)

    def task(
        self,
        name: str,
        runtime_s: float,
        inputs: Sequence[int],
        outputs: Iterable[tuple[str, float]],
        after: Iterable[int] = (),
    ) -> range:
        """Add a task of the transformation ``name``. Return the indices of its outputs.

        ``outputs`` are pairs (file name, size in bytes). Sizes are rounded to whole bytes, run
        times to milliseconds, with a minimum of 1 ms. The task also waits for the producers of the
        files ``after``, which it does not read.
        """
        index = len(self._tasks)
        parents = {self._producers[file] for file in after}
        producers, read = self._producers, self._read
        for file in inputs:
            parents.add(producers[file])
            read[file] = 1
        parents.discard(_INITIAL)
        first = len(self._names)
        for file_name, size_bytes in outputs:
            self._file(file_name, size_bytes, index)
        written = range(first, len(self._names))
        self._tasks.append(
            Task(
                id=f"ID{index:0{self._digits}d}",
                name=name,
                executable=name,
                inputs=tuple(inputs),
                outputs=tuple(written),
                runtime_s=max(_SHORTEST_S, round(runtime_s, 3)),
            )
        )
        self._parents.append(tuple(sorted(parents)))
        return written

    def size_bytes(self, files: Iterable[int]) -> int:
        """Total size of ``files`` in bytes."""
        return sum(self._sizes[file] for file in files)

    def workflow(self) -> Workflow:
        """Make the workflow. Outputs that no task reads are the final outputs."""
        files = [
            File(
                name=name,
                size_bytes=size,
                producer=None if producer == _INITIAL else producer,
                collect=producer != _INITIAL and not read,
            )
            for name, size, producer, read in zip(
                self._names, self._sizes, self._producers, self._read, strict=True
            )
        ]
        return Workflow(
            name=self._name,
            source=f"{self._name} generator",
            tasks=self._tasks,
            files=files,
            parents=self._parents,
        )

    def _file(self, name: str, size_bytes: float, producer: int) -> int:
        self._names.append(name)
        self._sizes.append(max(0, round(size_bytes)))
        self._producers.append(producer)
        self._read.append(0)
        return len(self._names) - 1


def nearest(tasks: int, smallest: int, fit: Callable[[int], Shape | None]) -> Shape:
    """The shape of the workflow whose possible number of tasks is nearest to ``tasks``. Of two
    numbers equally near, the smaller one is taken."""
    for distance in range(tasks + smallest):
        for candidate in (tasks - distance, tasks + distance):
            shape = fit(candidate) if candidate >= smallest else None
            if shape is not None:
                return shape
    raise AssertionError(f"no size near {tasks} is possible")


def shares(total: int, parts: int) -> list[int]:
    """Split ``total`` into ``parts`` whole numbers that differ by at most one, large ones first."""
    quotient, rest = divmod(total, parts)
    return [quotient + (part < rest) for part in range(parts)]
