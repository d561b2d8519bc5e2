"""The stage *check* of a workflow: its dependencies form no cycle."""

from __future__ import annotations

from wfrun.parsers.workflows.cycles import shortest_cycle
from wfrun.parsers.workflows.document import refuse_at
from wfrun.parsers.workflows.link import Linked

_SHOWN = 20
"""Maximum number of tasks, and of implied edges, that are named of a cycle."""


def check_acyclic(linked: Linked) -> None:
    """Raise InvalidError for a graph with a cycle; the message names the shortest one."""
    cycle = shortest_cycle(linked.parents)
    if cycle is None:
        return
    tasks = linked.tasks
    names = [tasks[task].id for task in cycle]
    shown = [*names[:_SHOWN], "..."] if len(names) > _SHOWN else names
    reasons: list[str] = []
    for parent, child in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        if parent not in linked.edges.declared.get(child, ()) and len(reasons) < _SHOWN:
            files = (linked.files.all[index] for index in tasks[child].inputs)
            file = next(file.name for file in files if file.producer == parent)
            reasons.append(f"{tasks[child].id} reads {file}, which {tasks[parent].id} writes")
    hint = "Remove one of these dependencies."
    if reasons:
        hint = f"Edges that files imply: {'; '.join(reasons)}. {hint}"
    path = " -> ".join([*shown, names[0]])
    place = linked.edges.where(cycle[0])
    refuse_at(place, f"the dependencies form a cycle: {path}", hint)
