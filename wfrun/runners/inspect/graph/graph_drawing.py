"""The drawing of a workflow: nodes that are tasks, kinds of tasks or layers, and their edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from wfrun.engine.explain.visible import name_line
from wfrun.engine.model import Workflow
from wfrun.parsers.workflows.shape import Shape
from wfrun.runners.inspect.graph.graph_states import TaskWords, state_of

Nodes = Literal["tasks", "kinds", "layers"]
"""What a node of a drawing is: one task, all tasks of one name in one layer, or all tasks of one or
several layers."""

MAX_TASKS_DRAWN = 60
"""Maximum number of tasks of a drawing whose nodes are tasks by default, because labels of more
tasks cannot be read. The nodes of larger workflows are kinds."""
MAX_KINDS_DRAWN = 300
"""Maximum number of nodes of a drawing whose nodes are kinds by default. With more kinds the nodes
are layers."""
MAX_KIND_EDGES_DRAWN = 3000
"""Maximum number of edges of a drawing whose nodes are kinds by default. With more edges the nodes
are layers."""
MAX_LAYERS_DRAWN = 60
"""Maximum number of nodes that are layers. In workflows with more layers a node stands for
several."""


class DrawnNode(msgspec.Struct, frozen=True):
    """One node of a drawing."""

    kind: str
    """Name of its tasks, or of its layers."""
    layer: int
    tasks: tuple[int, ...]
    is_critical: bool
    """Whether one of its tasks is on the critical path."""
    state: str | None = None
    """State of its tasks in a run, by `wfrun.runners.inspect.graph.graph_states`."""

    @property
    def label(self) -> str:
        return counted(self.kind, len(self.tasks))


class Drawing(msgspec.Struct, frozen=True):
    """The nodes and edges of a drawing."""

    nodes: Sequence[DrawnNode]
    """In the order of their layers."""
    edges: Mapping[tuple[int, int], int]
    """Edges of the drawing, by the indices of their (parent, child) nodes. The value is the number
    of edges of the workflow that the edge stands for."""
    critical: frozenset[tuple[int, int]]
    """Edges of the critical path."""


def counted(name: str, count: int) -> str:
    """A name, with the number of tasks unless it is one."""
    shown = name_line(name)
    return shown if count == 1 else f"{shown} ×{count:,}"


def readable_drawing(workflow: Workflow, shape: Shape, words: TaskWords | None = None) -> Drawing:
    """The drawing with the finest nodes that can still be read. Its size is bounded."""
    if shape.tasks <= MAX_TASKS_DRAWN:
        return drawing_of(workflow, shape, "tasks", words)
    if sum(len(layer.kinds) for layer in shape.layers) <= MAX_KINDS_DRAWN:
        drawing = drawing_of(workflow, shape, "kinds", words)
        if len(drawing.edges) <= MAX_KIND_EDGES_DRAWN:
            return drawing
    return drawing_of(workflow, shape, "layers", words)


def drawing_of(
    workflow: Workflow, shape: Shape, nodes: Nodes, words: TaskWords | None = None
) -> Drawing:
    """Make the drawing of a workflow with these nodes. ``words``: the states of its tasks in a
    run."""
    critical = set(shape.critical_path)
    drawn: list[DrawnNode] = []
    node_of: dict[int, int] = {}
    for row, kind, tasks in _groups(workflow, shape, nodes):
        node_of.update(dict.fromkeys(tasks, len(drawn)))
        state = None if words is None else state_of(words, tasks)
        drawn.append(DrawnNode(kind, row, tuple(tasks), not critical.isdisjoint(tasks), state))
    edges: Counter[tuple[int, int]] = Counter()
    if workflow.bag is None:
        for task, parents in enumerate(workflow.parents):
            edges.update((node_of[parent], node_of[task]) for parent in parents)
    path = [node_of[task] for task in shape.critical_path]
    for index in range(len(drawn)):  # edges inside of a node
        edges.pop((index, index), None)
    return Drawing(drawn, edges, frozenset(pairwise(dict.fromkeys(path))))


def _groups(
    workflow: Workflow, shape: Shape, nodes: Nodes
) -> Iterator[tuple[int, str, Sequence[int]]]:
    """Yield the row, the name and the tasks of each node."""
    if nodes == "layers":
        yield from _layers(shape)
        return
    for number, layer in enumerate(shape.layers):
        groups: dict[tuple[str, int], list[int]] = {}
        for task in layer.tasks:
            key = (workflow.tasks[task].name, task if nodes == "tasks" else 0)
            groups.setdefault(key, []).append(task)
        for (kind, _), tasks in groups.items():
            yield number, kind, tasks


def _layers(shape: Shape) -> Iterator[tuple[int, str, Sequence[int]]]:
    layers = shape.layers
    step = -(-len(layers) // MAX_LAYERS_DRAWN)
    for row, first in enumerate(range(0, len(layers), step)):
        some = layers[first : first + step]
        kinds: dict[str, None] = {}
        for layer in some:
            kinds.update((name, None) for name, _ in layer.kinds[:2])
        last = first + len(some)
        where = f"layer {last}" if len(some) == 1 else f"layers {first + 1:,}–{last:,}"
        name = f"{where}: {next(iter(kinds))}{', …' if len(kinds) > 1 else ''}"
        yield row, name, [task for layer in some for task in layer.tasks]
