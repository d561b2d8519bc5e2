"""Bags of tasks: a template and its parameters, expanded one task at a time.

A bag of a million tasks is a document of a few hundred bytes, or the columns of a table. It runs as
a `Workflow` whose sequences create each task and file on access.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

from wfrun.engine.model import Bag, Column, DictionaryColumn, File, PackedColumn, Task, Workflow
from wfrun.engine.tasks.templates import TemplatePart, parse_template, placeholders

INDEX = "index"
"""A parameter of every bag: the number of the task, from 0."""
ESTIMATE_S = "_estimate_s"
"""Name of the column with the estimates of a bag in seconds, if its document states them with
units."""
_OURS = frozenset({INDEX, ESTIMATE_S})

T = TypeVar("T")


class _Lazy(Sequence[T], Generic[T]):
    """A sequence that creates its items on access and caches recent ones."""

    MAX_KEPT = 4096

    def __init__(self, length: int) -> None:
        self._length = length
        self._kept: dict[int, T] = {}

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        kept = self._kept.get(index)
        if kept is not None:
            return kept
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        made = self._make(index)
        if len(self._kept) >= self.MAX_KEPT:
            self._kept.clear()
        self._kept[index] = made
        return made

    def __iter__(self) -> Iterator[T]:
        return (self._make(i) for i in range(self._length))

    @abstractmethod
    def _make(self, index: int) -> T:
        """Create the item of this index, which is in range."""


class NoParents(Sequence[tuple[int, ...]]):
    """The parents of the tasks of a bag: an empty tuple for each."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, slice):
            return [()] * len(range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return ()


def values_of(column: Column) -> Callable[[int], str]:
    """A function that returns the value at a position of a column, counted from 0."""
    if isinstance(column, DictionaryColumn):
        codes, value = memoryview(column.codes).cast("I"), values_of(column.values)
        return lambda place: value(codes[place])
    if isinstance(column, PackedColumn):
        ends, text = memoryview(column.ends).cast("Q"), column.text
        return lambda place: text[ends[place - 1] if place else 0 : ends[place]].decode()
    start, step, decimals = column.start, column.step, column.decimals
    if not decimals:
        return lambda place: str(start + place * step)
    return lambda place: _decimal(start + place * step, decimals)


def _decimal(number: int, decimals: int) -> str:
    digits = str(abs(number)).rjust(decimals + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-decimals]}.{digits[-decimals:]}"


class Expansion:
    """The templates of a bag, compiled into functions of the task number."""

    def __init__(self, bag: Bag) -> None:
        self.bag = bag
        self.count = len(bag)
        self._value: dict[str, Callable[[int], str]] = {INDEX: str}
        """By parameter: its value as a function of the task number."""
        self._steps: list[tuple[int, int]] = []
        """Per axis: the number of consecutive tasks with the same value, and the length of the
        axis."""
        step = self.count
        for axis in bag.axes:
            step //= len(axis)
            self._steps.append((step, len(axis)))
            for name, column in zip(axis.names, axis.columns, strict=True):
                self._value[name] = _on_axis(values_of(column), step, len(axis))

    def parameters(self, task: int) -> dict[str, str]:
        """The values of a task, by parameter."""
        return {name: value(task) for name, value in self._value.items() if name not in _OURS}

    def fill(self, template: str) -> Callable[[int], str]:
        """A template as a function of the task number. Raises KeyError for a parameter that the bag
        lacks."""
        parts = parse_template(template)
        if all(part.name is None for part in parts):
            text = "".join(part.literal for part in parts)
            return lambda task: text
        if len(parts) == 1 and not parts[0].literal and not parts[0].spec:
            assert parts[0].name is not None
            return self._value[parts[0].name]
        pieces = [(part, self._value[part.name] if part.name else None) for part in parts]
        return lambda task: "".join([_piece(part, value, task) for part, value in pieces])

    def numbering(self, template: str) -> tuple[int, Callable[[int], int], Callable[[int], int]]:
        """The files that the template of an input names: their count, a function from a task to the
        number of its file, and a function from the number of a file to a task that reads it.

        Two tasks share a file if each axis that the template uses has the same row for both. If the
        template uses only one column of an axis, and it is a `DictionaryColumn`, an equal value in
        another row suffices.
        """
        named = set(placeholders(template))
        if INDEX in named:
            return self.count, _same, _same
        dimensions: list[_Dimension] = []
        for axis, (step, length) in zip(self.bag.axes, self._steps, strict=True):
            used = [c for n, c in zip(axis.names, axis.columns, strict=True) if n in named]
            if used:
                codes = (
                    used[0] if len(used) == 1 and isinstance(used[0], DictionaryColumn) else None
                )
                dimensions.append(_Dimension(step, length, codes))
        total = 1
        for dimension in dimensions:
            total *= dimension.size

        def number(task: int) -> int:
            result = 0
            for dimension in dimensions:
                result = result * dimension.size + dimension.place(task)
            return result

        def reader(number: int) -> int:
            task = 0
            for dimension in reversed(dimensions):
                number, place = divmod(number, dimension.size)
                task += dimension.first(place)
            return task

        return total, number, reader


def _on_axis(value: Callable[[int], str], step: int, length: int) -> Callable[[int], str]:
    if step == 1:
        return lambda task: value(task % length)
    return lambda task: value(task // step % length)


def _same(number: int) -> int:
    return number


def _piece(part: TemplatePart, value: Callable[[int], str] | None, task: int) -> str:
    return part.literal if value is None else part.literal + part.formatted(value(task))


class _Dimension:
    """The contribution of one axis to the number of an input file."""

    def __init__(self, step: int, length: int, coded: DictionaryColumn | None) -> None:
        self._step, self._length = step, length
        self._codes = None if coded is None else memoryview(coded.codes).cast("I")
        self.size = length if coded is None else len(coded.values)
        self._first: array[int] | None = None
        if self._codes is not None:
            self._first = array("Q", bytes(8 * self.size))
            for place in range(length - 1, -1, -1):
                self._first[self._codes[place]] = place

    def place(self, task: int) -> int:
        """Return the number of the row that the axis has for a task; with a `DictionaryColumn`, the
        code of the value."""
        place = task // self._step % self._length
        return place if self._codes is None else self._codes[place]

    def first(self, place: int) -> int:
        """Return the first task with the number ``place`` on this axis: the other axes have their
        first values."""
        return (place if self._first is None else self._first[place]) * self._step


class BagTasks(_Lazy[Task]):
    """The tasks of a bag."""

    def __init__(self, expansion: Expansion, files: BagFiles) -> None:
        super().__init__(expansion.count)
        bag, fill = expansion.bag, expansion.fill
        self.expansion = expansion
        self._files = files
        self._name = bag.application or bag.executable.rsplit("/", 1)[-1]
        self._stem = self._name.replace("/", "_")
        self._executable = fill(bag.executable)
        self._arguments = [fill(argument) for argument in bag.arguments]
        self._env = None if bag.env is None else {k: fill(v) for k, v in bag.env.items()}
        self._estimate = None if bag.estimate is None else fill(bag.estimate)
        inputs = [file.name for file in bag.inputs]
        outputs = [file.name for file in bag.outputs]
        self._stdin = None if bag.stdin is None else inputs.index(bag.stdin)
        self._stdout = None if bag.stdout is None else outputs.index(bag.stdout)
        self._stderr = None if bag.stderr is None else outputs.index(bag.stderr)

    def runtime_s(self, task: int) -> float | None:
        """The estimated run time of a task; None without an estimate."""
        if self._estimate is None:
            return None
        return float(self._estimate(task)) * self.expansion.bag.scale

    def runtimes_s(self) -> array[float] | None:
        """The estimated run times of all tasks; None without an estimate."""
        estimate = self.expansion.bag.estimate
        if estimate is None or self._estimate is None:
            return None
        scale = self.expansion.bag.scale
        if not placeholders(estimate):
            return array("d", [float(self._estimate(0)) * scale]) * len(self)
        return array("d", (float(self._estimate(task)) * scale for task in range(len(self))))

    def _make(self, index: int) -> Task:
        bag = self.expansion.bag
        inputs, outputs = self._files.inputs(index), self._files.outputs(index)
        optional = tuple(
            number
            for number, file in zip((*inputs, *outputs), (*bag.inputs, *bag.outputs), strict=True)
            if file.optional
        )
        return Task(
            id=f"{self._stem}-{index}",
            name=self._name,
            executable=self._executable(index),
            arguments=tuple([argument(index) for argument in self._arguments]),
            inputs=inputs,
            outputs=outputs,
            optional=optional,
            stdin=None if self._stdin is None else inputs[self._stdin],
            stdout=None if self._stdout is None else outputs[self._stdout],
            stderr=None if self._stderr is None else outputs[self._stderr],
            env=None if self._env is None else {k: v(index) for k, v in self._env.items()},
            resources=bag.resources,
            runtime_s=self.runtime_s(index),
            priority=bag.priority,
        )


class BagFiles(_Lazy[File]):
    """The files of a bag: the inputs of each template, then the outputs of each task."""

    def __init__(self, expansion: Expansion) -> None:
        bag = expansion.bag
        self._bag = bag
        self._inputs: list[tuple[int, int, Callable[[int], int], Callable[[int], int]]] = []
        first = 0
        for file in bag.inputs:
            count, number, reader = expansion.numbering(file.name + (file.url or ""))
            self._inputs.append((first, count, number, reader))
            first += count
        self.input_count = first
        """Number of input files, which are numbered before the outputs."""
        self.output_bytes = bag.output_bytes
        self._tasks = expansion.count
        self._names = [expansion.fill(file.name) for file in (*bag.inputs, *bag.outputs)]
        self._urls = [
            expansion.fill(file.url) if file.url else None for file in (*bag.inputs, *bag.outputs)
        ]
        self._sizes = [memoryview(file.sizes).cast("q") for file in bag.inputs]
        super().__init__(first + expansion.count * len(bag.outputs))

    def inputs(self, task: int) -> tuple[int, ...]:
        """The files that a task reads."""
        return tuple([first + number(task) for first, _, number, _ in self._inputs])

    def readers(self) -> array[int]:
        """Number of tasks that read each input file. Cost: linear in the tasks, except for
        templates with one file for all tasks or one for each."""
        result = array("I")
        for _, count, number, _ in self._inputs:
            if count in (1, self._tasks):
                result.extend(array("I", [self._tasks // count]) * count)
                continue
            readers = array("I", bytes(4 * count))
            for task in range(self._tasks):
                readers[number(task)] += 1
            result.extend(readers)
        return result

    def outputs(self, task: int) -> tuple[int, ...]:
        """The files that a task writes."""
        count = len(self._bag.outputs)
        first = self.input_count + task * count
        return tuple(range(first, first + count))

    def size_bytes(self, index: int) -> int:
        """Size of an input file; -1 if unknown."""
        slot = self._slot(index)
        sizes = self._sizes[slot]
        return sizes[index - self._inputs[slot][0]] if sizes else -1

    def _slot(self, index: int) -> int:
        return next(n for n, (first, count, _, _) in enumerate(self._inputs)
                    if index < first + count)  # fmt: skip

    def _make(self, index: int) -> File:
        if index >= self.input_count:
            bag = self._bag
            task, slot = divmod(index - self.input_count, len(bag.outputs))
            place = len(bag.inputs) + slot
            name, kept = self._names[place](task), self._urls[place]
            as_kept = None if kept is None else kept(task)
            return File(name, bag.output_bytes, producer=task, url=as_kept, collect=True)
        slot = self._slot(index)
        first, _, _, reader = self._inputs[slot]
        task, url = reader(index - first), self._urls[slot]
        size_bytes = self.size_bytes(index)
        return File(
            self._names[slot](task),
            None if size_bytes < 0 else size_bytes,
            url=None if url is None else url(task),
            executable=self._bag.inputs[slot].executable,
        )


def parameter_names(bag: Bag) -> tuple[str, ...]:
    """The parameters that the user defined, in the order of the document."""
    return tuple(name for axis in bag.axes for name in axis.names if name not in _OURS)


def expand(bag: Bag) -> Workflow:
    """The bag as a workflow, whose tasks and files are created on access."""
    expansion = Expansion(bag)
    files = BagFiles(expansion)
    return Workflow(
        name=bag.name,
        source=bag.source,
        tasks=BagTasks(expansion, files),
        files=files,
        parents=NoParents(expansion.count),
        warnings=bag.warnings,
        owner=bag.owner,
        priority=bag.priority,
        bag=bag,
    )


def tasks_of(workflow: Workflow) -> BagTasks:
    """The tasks of a workflow that is an expanded bag."""
    assert isinstance(workflow.tasks, BagTasks), "the workflow is a bag"
    return workflow.tasks
