"""Dependencies of a workflow while it is read: ids, declared edges, sub-workflows, cycles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

from wfrun.engine.model import Task
from wfrun.parsers.workflows.cycles import (
    children_of,
    descendants,
    shortest_cycle,
    topological_order,
)

Place = tuple[str, int | None, Callable[[int], int]]
"""A document, a position in it, and what turns the position into a line."""

_SHOWN = 20
"""Tasks of a cycle that are named; longer ones are cut."""


class Reporter(Protocol):
    """Who knows which document is being read."""

    def place(self, line: int | None) -> Place: ...

    def fail_at(self, place: Place, message: str, hint: str | None = None) -> NoReturn: ...


class Edges:
    """Nodes are tasks, numbered from 0 as they are added, and groups, that is sub-workflows."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._ids: dict[str, int] = {}
        self._lines: list[int | None] = []
        self._documents: list[tuple[int, Place]] = []
        self._groups: dict[str, range] = {}
        self._group_places: dict[str, Place] = {}
        self._declared: dict[int, list[int]] = {}
        self._pending: list[tuple[str, str, Place]] = []

    def add_node(self, prefix: str, node: str, line: int | None) -> str:
        """Number the next task, and give its id with the prefix."""
        full = prefix + node
        if not node or full in self._ids or full in self._group_places:
            self._refuse_id(full, node, line)
        index = self._ids[full] = len(self._lines)
        place = self._reporter.place(line)
        if not self._documents or self._documents[-1][1][0] != place[0]:
            self._documents.append((index, place))
        self._lines.append(line)
        return full

    def _refuse_id(self, full: str, node: str, line: int | None) -> NoReturn:
        here = self._reporter.place(line)
        if not node:
            self._reporter.fail_at(here, "a task without an id", "Give it one that is unique.")
        index = self._ids.get(full)
        source, number, locate = self._group_places[full] if index is None else self.where(index)
        first = "" if number is None else f" (the first one is at {source}:{locate(number)})"
        self._reporter.fail_at(
            here, f"task id {full} is used twice{first}", "Ids have to be unique: rename one."
        )

    def where(self, task: int) -> Place:
        """Where the task stands."""
        for first, (source, _, locate) in reversed(self._documents):
            if first <= task:
                return (source, self._lines[task], locate)
        return self._reporter.place(None)

    def open_group(self, prefix: str, node: str, line: int | None) -> str:
        """A sub-workflow begins; gives its id with the prefix."""
        full = prefix + node
        if not node or full in self._ids or full in self._group_places:
            self._refuse_id(full, node, line)
        self._group_places[full] = self._reporter.place(line)
        return full

    def close_group(self, group: str, first: int, end: int) -> None:
        """The tasks ``first`` to ``end - 1`` are those of the group."""
        self._groups[group] = range(first, end)

    def declare(self, prefix: str, child: str, parents: Sequence[str], line: int | None) -> None:
        """An edge from each of ``parents`` to ``child``."""
        ids = self._ids
        index = ids.get(prefix + child)
        if index is not None:
            found = [ids.get(prefix + parent) for parent in parents]
            known = [parent for parent in found if parent is not None]
            if len(known) == len(found):
                self._declared.setdefault(index, []).extend(known)
                return
        place = self._reporter.place(line)
        self._pending += [(prefix + child, prefix + parent, place) for parent in parents]

    def resolve(self, tasks: Sequence[Task], producers: Sequence[int | None]) -> None:
        """Turn edges to and from sub-workflows into edges of the tasks in them that come first
        and last by the other edges, and refuse edges of tasks that aren't there."""
        grouped: list[tuple[str, str]] = []
        for child, parent, place in self._pending:
            for node in (child, parent):
                if node not in self._ids and node not in self._groups:
                    self._reporter.fail_at(
                        place,
                        f"the edge {parent} -> {child} names a task that is not there: {node}",
                        "Add the task, or remove the edge.",
                    )
            if child in self._ids and parent in self._ids:
                self._declared.setdefault(self._ids[child], []).append(self._ids[parent])
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
                self._declared.setdefault(entry, []).extend(exits)

    def parents(
        self, tasks: Sequence[Task], producers: Sequence[int | None]
    ) -> list[tuple[int, ...]]:
        """The parents of each task: the declared ones and the producers of its inputs."""
        result: list[tuple[int, ...]] = []
        declared, nothing = self._declared.get, ()
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

    def choose_producers(
        self,
        tasks: Sequence[Task],
        producers: Sequence[int | None],
        twins: Mapping[int, Sequence[tuple[int, int]]],
    ) -> dict[int, dict[int, int | None]]:
        """For each task that reads a file with several producers: which of them it reads.

        ``twins`` gives (producer, file) in document order, by the file that stands for all. The
        result gives the file by that key; None: none of them can come before the task.
        """
        chosen: dict[int, dict[int, int | None]] = {}
        open_uses: list[tuple[int, int]] = []
        for index, task in enumerate(tasks):
            declared = set(self._declared.get(index, ()))
            for first in task.inputs:
                if first not in twins:
                    continue
                own = [file for producer, file in twins[first] if producer in declared]
                if own:
                    chosen.setdefault(index, {})[first] = own[-1]
                else:
                    open_uses.append((index, first))
        if open_uses:
            self._choose_others(open_uses, chosen, self.parents(tasks, producers), twins)
        return chosen

    def _choose_others(
        self,
        open_uses: Sequence[tuple[int, int]],
        chosen: dict[int, dict[int, int | None]],
        parents: Sequence[tuple[int, ...]],
        twins: Mapping[int, Sequence[tuple[int, int]]],
    ) -> None:
        """Those without a declared parent that writes the file, so that no cycle comes about."""
        position = {task: number for number, task in enumerate(topological_order(parents))}
        children = children_of(parents)
        rest = []
        for task, first in open_uses:
            before = [
                (producer, file)
                for producer, file in twins[first]
                if position.get(producer, len(parents)) < position.get(task, -1)
            ]
            if before:
                producer, chosen.setdefault(task, {})[first] = before[-1]
                children[producer].append(task)
            else:
                rest.append((task, first))
        for task, first in rest:
            behind = descendants(task, children)
            free = [(p, file) for p, file in twins[first] if p not in behind]
            chosen.setdefault(task, {})[first] = free[-1][1] if free else None
            if free:
                children[free[-1][0]].append(task)

    def check_acyclic(
        self,
        parents: Sequence[tuple[int, ...]],
        tasks: Sequence[Task],
        file_between: Callable[[int, int], str | None],
    ) -> None:
        """Refuse a graph with a cycle, and name the shortest one."""
        cycle = shortest_cycle(parents)
        if cycle is None:
            return
        names = [tasks[task].id for task in cycle]
        shown = [*names[:_SHOWN], "..."] if len(names) > _SHOWN else names
        reasons: list[str] = []
        for parent, child in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            file = file_between(parent, child)
            if parent not in self._declared.get(child, ()) and len(reasons) < _SHOWN:
                reasons.append(f"{tasks[child].id} reads {file}, which {tasks[parent].id} writes")
        hint = "Remove one of these dependencies."
        if reasons:
            hint = f"Edges that files imply: {'; '.join(reasons)}. {hint}"
        path = " -> ".join([*shown, names[0]])
        self._reporter.fail_at(self.where(cycle[0]), f"the dependencies form a cycle: {path}", hint)
