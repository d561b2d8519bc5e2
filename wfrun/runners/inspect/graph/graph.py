"""The shape of a workflow for its user: a table, Graphviz DOT, a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import name_line
from wfrun.engine.model import Workflow
from wfrun.parsers.workflows.shape import Layer, Shape
from wfrun.runners.display.console import Hanging
from wfrun.runners.display.durations import duration
from wfrun.runners.display.pictures import new_figure, save_picture
from wfrun.runners.inspect.graph.graph_drawing import Drawing, counted
from wfrun.runners.inspect.graph.graph_states import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LAYERS_SHOWN = 40
"""Maximum number of rows of the table of layers. Workflows with more layers show the first and last
of them, half of the rows each."""

MAX_KINDS_SHOWN = 12
"""Maximum number of kinds of tasks that the table names in a row."""
MAX_STEPS_SHOWN = 40
"""Maximum number of steps of the critical path in the table. The first ones are shown."""

MAX_NODES = 300
"""Maximum number of nodes of a picture: more would take minutes, and could not be distinguished."""
MAX_EDGES = 3000
"""Maximum number of edges of a picture, for the same reasons."""

CRITICAL = "#c0392b"


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
            kinds = ", ".join(_first(layer.kinds))
            count = f"{len(layer.tasks):,}"
            layers.add_row(str(number), count, duration(layer.work_s), Text(kinds))
    steps = list(islice(_runs(workflow, shape.critical_path), MAX_STEPS_SHOWN + 1))
    if len(steps) > MAX_STEPS_SHOWN:
        steps[-1] = "…"
    path = Hanging(Text("critical path: " + " → ".join(steps)))
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
    """Layers with their numbers; None stands for the layers left out."""
    numbered = list(enumerate(layers, 1))
    if len(layers) <= MAX_LAYERS_SHOWN:
        yield from numbered
        return
    yield from numbered[: MAX_LAYERS_SHOWN // 2]
    yield 0, None
    yield from numbered[-MAX_LAYERS_SHOWN // 2 :]


def _first(kinds: Sequence[tuple[str, int]]) -> Iterator[str]:
    """The first kinds, which are the most frequent, and the number of the others."""
    for name, count in kinds[:MAX_KINDS_SHOWN]:
        yield counted(name, count)
    if len(kinds) > MAX_KINDS_SHOWN:
        yield f"and {len(kinds) - MAX_KINDS_SHOWN:,} more kinds"


def _runs(workflow: Workflow, path: Sequence[int]) -> Iterator[str]:
    """Names of the tasks of a path. Successive tasks with the same name are counted."""
    name, count = "", 0
    for task in (*path, None):
        following = "" if task is None else workflow.tasks[task].name
        if following != name:
            if count:
                yield counted(name, count)
            name, count = following, 0
        count += 1


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
        if node.state is not None:
            label = f"{label}\n{node.state}"
            style += f', style="rounded,filled", fillcolor="{COLORS[node.state]}"'
        lines.append(f"  n{index} [label={_quoted(label)}{style}];")
    for (parent, child), count in drawing.edges.items():
        label = f" [label={_quoted(f'{count:,}')}]" if count > 1 else ""
        lines.append(f"  n{parent} -> n{child}{label};")
    return "\n".join((*lines, "}")) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def draw(workflow: Workflow, drawing: Drawing, path: Path) -> None:
    """Draw layers as rows, the first on top, kinds or states as colours, and the critical path in
    red.

    Raises InvalidError for more than `MAX_NODES` nodes or `MAX_EDGES` edges, and InfeasibleError
    without matplotlib or where ``path`` cannot be written.
    """
    nodes, edges = len(drawing.nodes), len(drawing.edges)
    if nodes > MAX_NODES or edges > MAX_EDGES:
        raise InvalidError(
            f"{path}: a picture of {nodes:,} nodes and {edges:,} edges cannot be read",
            hint="draw kinds of tasks or layers (--nodes kinds, --nodes layers), or write --dot "
            f"for a tool that zooms; at most {MAX_NODES:,} nodes and {MAX_EDGES:,} edges are drawn",
        )
    rows = _rows(drawing)
    width = min(max(6.0, 1.1 * max(map(len, rows))), 40.0)
    figure = new_figure((width, min(1.2 + 0.9 * len(rows), 60.0)))
    axes = figure.subplots()
    _draw_nodes(axes, drawing, _positions(rows))
    axes.set_title(name_line(workflow.name), parse_math=False)
    axes.set_axis_off()
    axes.margins(x=0.08, y=0.08)
    if any(node.state for node in drawing.nodes):
        _draw_legend(axes, drawing)
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


def _draw_legend(axes: Axes, drawing: Drawing) -> None:
    from matplotlib.patches import Patch

    found = {node.state for node in drawing.nodes}
    patches = [Patch(facecolor=c, edgecolor="#666666", label=w) for w, c in COLORS.items()
               if w in found]  # fmt: skip
    axes.legend(handles=patches, loc="upper right", frameon=False)


def _draw_nodes(axes: Axes, drawing: Drawing, positions: Mapping[int, tuple[float, float]]) -> None:
    import matplotlib

    kinds = dict.fromkeys(node.kind for node in drawing.nodes)
    colors = {kind: number for number, kind in enumerate(kinds)}
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
                "facecolor": COLORS[node.state]
                if node.state is not None
                else _pale(palette(colors[node.kind] % palette.N)),
                "edgecolor": CRITICAL if node.is_critical else "#666666",
            },
        )


def _pale(color: tuple[float, float, float, float]) -> tuple[float, ...]:
    """An opaque light tone, on which black text can be read and which hides edges behind it."""
    return tuple(1 - 0.4 * (1 - part) for part in color[:3])
