"""The choice of a producer where several tasks write one file, which only emulation accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from wfrun.engine.model import Task
from wfrun.parsers.workflows.linking.cycles import children_of, descendants, topological_order
from wfrun.parsers.workflows.linking.edges import Edges
from wfrun.parsers.workflows.linking.files import Files, LinkedFile

Alternatives = Mapping[int, Sequence[tuple[int, int]]]
"""(producer, file) pairs in document order, by the file that stands for all alternatives."""

Choices = dict[int, dict[int, int | None]]
"""For each task: the file that it reads, by the file that stands for all alternatives. None: no
producer can come before the task."""


def choose_producers(tasks: list[Task], files: Files, edges: Edges) -> None:
    """Let each consumer of a file with several producers read the file of one of them.

    The producer is the last declared parent, in document order, that writes the file. If no
    declared parent does, it is the last producer, in document order, that comes before the consumer
    in a topological order of the edges known so far; else the last producer that does not depend on
    the consumer. If there is none, the consumer reads an initial input of that name.
    """
    alternatives = {
        index: [(file.producer, file.index) for file in group if file.producer is not None]
        for index, group in files.alternatives.items()
    }
    choices, open_uses = _declared_choices(tasks, edges.declared, alternatives)
    if open_uses:
        known = [None if f.index in files.alternatives else f.producer for f in files.all]
        _choose_others(open_uses, choices, edges.parents(tasks, known), alternatives)
    for task, changes in choices.items():
        chosen = {
            first: _initial(files, first) if index is None else index
            for first, index in changes.items()
        }
        for first, index in chosen.items():
            files.all[index].read_bytes = files.all[first].read_bytes
        old = tasks[task]
        own = set(old.outputs)
        tasks[task] = replace(
            old,
            inputs=tuple(chosen.get(index, index) for index in old.inputs),
            optional=tuple(i if i in own else chosen.get(i, i) for i in old.optional),
            stdin=None if old.stdin is None else chosen.get(old.stdin, old.stdin),
        )


def _declared_choices(
    tasks: Sequence[Task], declared: Mapping[int, Sequence[int]], alternatives: Alternatives
) -> tuple[Choices, list[tuple[int, int]]]:
    """Choose the files that declared parents write. Return the choices, and the (task, file) pairs
    for which no declared parent writes the file."""
    chosen: Choices = {}
    open_uses: list[tuple[int, int]] = []
    for index, task in enumerate(tasks):
        parents = set(declared.get(index, ()))
        for first in task.inputs:
            if first not in alternatives:
                continue
            own = [file for producer, file in alternatives[first] if producer in parents]
            if own:
                chosen.setdefault(index, {})[first] = own[-1]
            else:
                open_uses.append((index, first))
    return chosen, open_uses


def _choose_others(
    open_uses: Sequence[tuple[int, int]],
    chosen: Choices,
    parents: Sequence[tuple[int, ...]],
    alternatives: Alternatives,
) -> None:
    """Choose a producer for each (task, file) pair in ``open_uses``, without closing a cycle, and
    add it to ``chosen``."""
    position = {task: number for number, task in enumerate(topological_order(parents))}
    children = children_of(parents)
    rest = []
    for task, first in open_uses:
        before = [
            (producer, file)
            for producer, file in alternatives[first]
            if position.get(producer, len(parents)) < position.get(task, -1)
        ]
        if before:
            producer, chosen.setdefault(task, {})[first] = before[-1]
            children[producer].append(task)
        else:
            rest.append((task, first))
    for task, first in rest:
        behind = descendants(task, children)
        free = [(p, file) for p, file in alternatives[first] if p not in behind]
        chosen.setdefault(task, {})[first] = free[-1][1] if free else None
        if free:
            children[free[-1][0]].append(task)


def _initial(files: Files, first: int) -> int:
    """The index of an initial file with the name of file ``first``."""
    group = files.alternatives[first]
    if group[-1].producer is not None:
        group.append(LinkedFile(len(files.all), group[0].name))
        files.all.append(group[-1])
    return group[-1].index
