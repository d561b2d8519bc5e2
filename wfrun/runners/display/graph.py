"""The shape of a workflow for its user: a table, Graphviz DOT, a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.engine.visible import name_line
from wfrun.parsers.workflows.shape import Layer, Shape
from wfrun.runners.display.console import Hanging
from wfrun.runners.display.durations import duration
from wfrun.runners.display.pictures import new_figure, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Nodes = Literal["tasks", "kinds"]
"""What a node of a drawing is: one task, or all tasks of one name in one layer."""

MAX_TASKS_DRAWN = 60
"""Maximum number of tasks of a drawing whose nodes are tasks by default: with more, labels cannot
be read. Larger workflows have kinds as nodes."""

MAX_NODES = 300
"""Maximum number of nodes of a picture: more would take minutes, and could not be distinguished."""

MAX_LAYERS_SHOWN = 40
"""Maximum number of rows of the table of layers. Workflows with more layers show the first and last
of them, half of the rows each."""

CRITICAL = "#c0392b"


class Node(msgspec.Struct, frozen=True):
    """One node of a drawing."""

    kind: str
    """Name of its tasks."""
    layer: int
    tasks: tuple[int, ...]
    is_critical: bool
    """Whether one of its tasks is on the critical path."""

    @property
    def label(self) -> str:
        return _counted(self.kind, len(self.tasks))


class Drawing(msgspec.Struct, frozen=True):
    """What is drawn of a workflow."""

    nodes: Sequence[Node]
    """In the order of their layers."""
    edges: Mapping[tuple[int, int], int]
    """Between indices of nodes, with the number of edges of the workflow that each stands for."""
    critical: frozenset[tuple[int, int]]
    """Edges of the critical path."""


def shape_table(workflow: Workflow, shape: Shape) -> RenderableType:
    """Numbers of the whole workflow, and a row for each layer."""
    facts = Table.grid(padding=(0, 2))
    for name, value, note in _facts(shape):
        facts.add_row(name, Text(value, justify="right"), note)
    layers = Table(box=None, pad_edge=False)
    for column in ("layer", "tasks", "work"):
        layers.add_column(column, justify="right")
    layers.add_column("kinds", overflow="fold")
    for number, layer in _shown(shape.layers):
        if layer is None:
            layers.add_row("…", "…", "…", "…")
        else:
            kinds = ", ".join(_counted(name, count) for name, count in layer.kinds)
            count = f"{len(layer.tasks):,}"
            layers.add_row(str(number), count, duration(layer.work_s), Text(kinds))
    path = Hanging(Text("critical path: " + " → ".join(_runs(workflow, shape.critical_path))))
    title = Text.assemble((name_line(workflow.name), "bold"), f" ({workflow.source})")
    return Group(Hanging(title), facts, Text(), layers, Text(), path)


def _facts(shape: Shape) -> Iterator[tuple[str, str, str]]:
    layers = len(shape.layers)
    widest = max(range(layers), key=lambda n: len(shape.layers[n].tasks)) + 1
    yield "tasks", f"{shape.tasks:,}", f"in {layers:,} layer{'s' * (layers != 1)}"
    yield "edges", f"{shape.edges:,}", ""
    yield "width", f"{shape.width:,}", f"tasks in layer {widest}"
    guessed = (
        f"; {shape.unknown_runtimes:,} unknown run times count as the mean of like tasks, or 1 s"
        if shape.unknown_runtimes
        else ""
    )
    yield "work", duration(shape.work_s), f"on the reference processor{guessed}"
    count = len(shape.critical_path)
    yield (
        "critical path",
        duration(shape.critical_path_s),
        f"{count:,} task{'s' * (count != 1)}: no schedule is shorter on processors of speed 1",
    )
    yield "parallelism", f"{shape.parallelism:,.1f}", "on average: work divided by critical path"
    yield "", f"{shape.peak:,}", "maximum: every task starts when its predecessors are done"


def _shown(layers: Sequence[Layer]) -> Iterator[tuple[int, Layer | None]]:
    """Layers with their numbers; None stands for those left out."""
    numbered = list(enumerate(layers, 1))
    if len(layers) <= MAX_LAYERS_SHOWN:
        yield from numbered
        return
    yield from numbered[: MAX_LAYERS_SHOWN // 2]
    yield 0, None
    yield from numbered[-MAX_LAYERS_SHOWN // 2 :]


def _runs(workflow: Workflow, path: Sequence[int]) -> Iterator[str]:
    """Names of the tasks of a path; several of one name in a row are counted."""
    name, count = "", 0
    for task in (*path, None):
        following = "" if task is None else workflow.tasks[task].name
        if following != name:
            if count:
                yield _counted(name, count)
            name, count = following, 0
        count += 1


def _counted(name: str, count: int) -> str:
    shown = name_line(name)
    return shown if count == 1 else f"{shown} ×{count:,}"


def drawing_of(workflow: Workflow, shape: Shape, nodes: Nodes) -> Drawing:
    """What is drawn of a workflow, each node a task or the tasks of one kind in one layer."""
    critical = set(shape.critical_path)
    drawn: list[Node] = []
    node_of: dict[int, int] = {}
    for number, layer in enumerate(shape.layers):
        groups: dict[tuple[str, int], list[int]] = {}
        for task in layer.tasks:
            key = (workflow.tasks[task].name, task if nodes == "tasks" else 0)
            groups.setdefault(key, []).append(task)
        for (kind, _), tasks in groups.items():
            node_of.update(dict.fromkeys(tasks, len(drawn)))
            drawn.append(Node(kind, number, tuple(tasks), not critical.isdisjoint(tasks)))
    edges: Counter[tuple[int, int]] = Counter()
    if workflow.bag is None:
        for task, parents in enumerate(workflow.parents):
            edges.update((node_of[parent], node_of[task]) for parent in parents)
    path = [node_of[task] for task in shape.critical_path]
    return Drawing(drawn, edges, frozenset(pairwise(path)))


def dot(workflow: Workflow, drawing: Drawing) -> str:
    """The drawing in the DOT language of Graphviz (graphviz.org/doc/info/lang.html)."""
    lines = [
        f"digraph {_quoted(name_line(workflow.name))} {{",
        "  node [shape=box, style=rounded];",
    ]
    for index, node in enumerate(drawing.nodes):
        label = node.label
        if len(node.tasks) == 1:
            label = f"{name_line(workflow.tasks[node.tasks[0]].id)}\n{label}"
        style = f', color="{CRITICAL}"' if node.is_critical else ""
        lines.append(f"  n{index} [label={_quoted(label)}{style}];")
    for (parent, child), count in drawing.edges.items():
        label = f" [label={_quoted(f'{count:,}')}]" if count > 1 else ""
        lines.append(f"  n{parent} -> n{child}{label};")
    return "\n".join((*lines, "}")) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def draw(workflow: Workflow, drawing: Drawing, path: Path) -> None:
    """Draw layers as rows, the first on top, kinds as colours, and the critical path in red.

    Raises InvalidError for more than `MAX_NODES` nodes, and InfeasibleError without matplotlib or
    where ``path`` cannot be written.
    """
    if len(drawing.nodes) > MAX_NODES:
        raise InvalidError(
            f"{path}: a picture of {len(drawing.nodes):,} nodes cannot be read",
            hint=f"draw kinds of tasks (--nodes kinds), or write --dot for a tool that zooms; at "
            f"most {MAX_NODES:,} nodes are drawn",
        )
    rows = _rows(drawing)
    width = min(max(6.0, 1.1 * max(map(len, rows))), 40.0)
    figure = new_figure((width, min(1.2 + 0.9 * len(rows), 60.0)))
    axes = figure.subplots()
    _draw_nodes(axes, drawing, _positions(rows))
    axes.set_title(name_line(workflow.name), parse_math=False)
    axes.set_axis_off()
    axes.margins(x=0.08, y=0.08)
    save_picture(figure, path)


def _rows(drawing: Drawing) -> list[list[int]]:
    """Node indices by layer. Each row is sorted by the mean place of the parents, which keeps most
    edges from crossing (barycentre method, Sugiyama et al., IEEE TSMC 11(2), 1981)."""
    parents: dict[int, list[int]] = {}
    for parent, child in drawing.edges:
        parents.setdefault(child, []).append(parent)
    rows: list[list[int]] = []
    place: dict[int, float] = {}
    for index, node in enumerate(drawing.nodes):
        if node.layer == len(rows):
            rows.append([])
        rows[node.layer].append(index)
    for row in rows:
        means = {
            n: sum(place[p] for p in parents[n]) / len(parents[n]) for n in row if n in parents
        }
        row.sort(key=lambda n: means.get(n, 0.0))
        place.update({n: (number + 0.5) / len(row) for number, n in enumerate(row)})
    return rows


def _positions(rows: Sequence[Sequence[int]]) -> Mapping[int, tuple[float, float]]:
    import networkx as nx

    graph = nx.DiGraph()
    for layer, row in enumerate(rows):
        graph.add_nodes_from(row, layer=-layer)
    positions: Mapping[int, tuple[float, float]] = nx.multipartite_layout(
        graph, subset_key="layer", align="horizontal"
    )
    return positions


def _draw_nodes(axes: Axes, drawing: Drawing, positions: Mapping[int, tuple[float, float]]) -> None:
    import matplotlib

    kinds = list(dict.fromkeys(node.kind for node in drawing.nodes))
    palette = matplotlib.colormaps["tab20"]
    for parent, child in drawing.edges:
        critical = (parent, child) in drawing.critical
        skipped = drawing.nodes[child].layer - drawing.nodes[parent].layer - 1
        axes.annotate(
            "",
            xy=positions[child],
            xytext=positions[parent],
            arrowprops={
                "arrowstyle": "-|>",
                "color": CRITICAL if critical else "#999999",
                "linewidth": 1.4 if critical else 0.6,
                # A straight line over several layers would run behind the nodes between.
                "connectionstyle": "arc3,rad=0.2" if skipped else "arc3",
                "shrinkA": 11,
                "shrinkB": 11,
            },
        )
    for index, node in enumerate(drawing.nodes):
        x, y = positions[index]
        axes.plot(x, y, alpha=0)  # an annotation alone does not widen the axes
        axes.annotate(
            node.label,
            xy=(x, y),
            parse_math=False,  # a name with "$" is no formula
            ha="center",
            va="center",
            fontsize="small",
            bbox={
                "boxstyle": "round",
                "facecolor": _pale(palette(kinds.index(node.kind) % palette.N)),
                "edgecolor": CRITICAL if node.is_critical else "#666666",
            },
        )


def _pale(color: tuple[float, float, float, float]) -> tuple[float, ...]:
    """An opaque light tone, on which black text can be read and which hides edges behind it."""
    return tuple(1 - 0.4 * (1 - part) for part in color[:3])
