"""Tasks and sub-workflows by id, and the edges between them, while a workflow is linked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from wfrun.engine.model import Task
from wfrun.parsers.syntax.limits import ID_RULE, cut, id_fault
from wfrun.parsers.workflows.document import Document, Place, refuse_at
from wfrun.parsers.workflows.linking.cycles import children_of


class Edges:
    """The graph of a workflow. A node is a task or a group. Tasks are numbered from 0 in the order
    in which they are added; a group is a sub-workflow."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._lines: list[int | None] = []
        self._documents: list[tuple[int, Document]] = []
        """(number of the first task, document) of each stretch of tasks that comes from one
        document."""
        self._groups: dict[str, range] = {}
        self._group_places: dict[str, Place] = {}
        self.declared: dict[int, list[int]] = {}
        """The parents that the documents declare, by task."""
        self._pending: list[tuple[str, str, Place]] = []
        """(child, parent, place) of edges that `resolve` adds: when they were declared, a node did
        not exist yet or was a sub-workflow."""

    def add_node(self, document: Document, node: str, line: int | None) -> None:
        """Add the next task. Its id in the workflow is the document's prefix followed by
        ``node``."""
        index = self._ids[self._new_id(document, node, line)] = len(self._lines)
        if not self._documents or self._documents[-1][1] is not document:
            self._documents.append((index, document))
        self._lines.append(line)

    def _new_id(self, document: Document, node: str, line: int | None) -> str:
        """The id of a node in the workflow. Raises InvalidError for an id that is invalid or
        already used."""
        full = document.prefix + node
        if fault := id_fault(full):
            document.refuse(f"task id {cut(full)} {fault}", line, ID_RULE)
        if not node or full in self._ids or full in self._group_places:
            self._refuse_id(document, node, line)
        return full

    def _refuse_id(self, document: Document, node: str, line: int | None) -> NoReturn:
        if not node:
            document.refuse("a task without an id", line, "Give it one that is unique.")
        full = document.prefix + node
        index = self._ids.get(full)
        source, number, locate = self._group_places[full] if index is None else self.where(index)
        first = "" if number is None else f" (the first one is at {source}:{locate(number)})"
        document.refuse(
            f"task id {full} is used twice{first}", line, "Ids must be unique: rename one."
        )

    def where(self, task: int) -> Place:
        """The place of the task in its document."""
        document = next(d for first, d in reversed(self._documents) if first <= task)
        return document.place(self._lines[task])

    def describe(self, task: int) -> str:
        """The id and the place of a task, for messages."""
        name = next(node for node, index in self._ids.items() if index == task)
        source, line, locate = self.where(task)
        return name if line is None else f"{name} ({source}:{locate(line)})"

    def open_group(self, document: Document, node: str, line: int | None) -> str:
        """Add a sub-workflow, whose tasks are added next. Return its id in the workflow."""
        full = self._new_id(document, node, line)
        self._group_places[full] = document.place(line)
        return full

    def close_group(self, group: str, first: int) -> None:
        """End a sub-workflow, which consists of the tasks numbered ``first`` and above."""
        self._groups[group] = range(first, len(self._lines))

    def declare(
        self, document: Document, child: str, parents: Sequence[str], line: int | None
    ) -> None:
        """Add an edge from each of ``parents`` to ``child``."""
        prefix, ids = document.prefix, self._ids
        index = ids.get(prefix + child)
        if index is not None:
            found = [ids.get(prefix + parent) for parent in parents]
            known = [parent for parent in found if parent is not None]
            if len(known) == len(found):
                self.declared.setdefault(index, []).extend(known)
                return
        place = document.place(line)
        self._pending += [(prefix + child, prefix + parent, place) for parent in parents]

    def resolve(self, tasks: Sequence[Task], producers: Sequence[int | None]) -> None:
        """Turn each edge from or to a sub-workflow into edges from its last tasks or to its first
        tasks.

        Raises InvalidError for an edge whose task or sub-workflow does not exist.
        """
        grouped: list[tuple[str, str]] = []
        for child, parent, place in self._pending:
            for node in (child, parent):
                if node not in self._ids and node not in self._groups:
                    refuse_at(
                        place,
                        f"the edge {parent} -> {child} names a task that is not there: {node}",
                        "Add the task, or remove the edge.",
                    )
            if child in self._ids and parent in self._ids:
                self.declared.setdefault(self._ids[child], []).append(self._ids[parent])
            else:
                grouped.append((child, parent))
        self._pending.clear()
        if grouped:
            self._expand(grouped, self.parents(tasks, producers))

    def _expand(self, grouped: Sequence[tuple[str, str]], inner: Sequence[Sequence[int]]) -> None:
        children = children_of(inner)
        for child, parent in grouped:
            entries, exits = [self._ids.get(child, -1)], [self._ids.get(parent, -1)]
            if child in self._groups:
                tasks = self._groups[child]
                entries = [t for t in tasks if not any(p in tasks for p in inner[t])]
            if parent in self._groups:
                tasks = self._groups[parent]
                exits = [t for t in tasks if not any(c in tasks for c in children[t])]
            for entry in entries:
                self.declared.setdefault(entry, []).extend(exits)

    def parents(
        self, tasks: Sequence[Task], producers: Sequence[int | None]
    ) -> list[tuple[int, ...]]:
        """The parents of each task: the declared parents and the producers of its inputs.

        Equal tuples are one object, because many tasks have the same parents.
        """
        result: list[tuple[int, ...]] = []
        declared, nothing = self.declared.get, ()
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        for index, task in enumerate(tasks):
            above = set(declared(index, nothing))
            for file in task.inputs:
                producer = producers[file]
                if producer is not None:
                    above.add(producer)
            parents = tuple(sorted(above))
            result.append(shared.setdefault(parents, parents))
        return result
