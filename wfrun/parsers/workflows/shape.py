"""The shape of a workflow: layers, critical path, parallelism. networkx does the graph work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from wfrun.engine.capabilities.placements import expected_runtimes_s
from wfrun.engine.model import Workflow
from wfrun.parsers.workflows.graph import to_networkx


class Layer(msgspec.Struct, frozen=True):
    """The tasks that are equally deep: their longest chains of predecessors have equally many
    tasks."""

    tasks: Sequence[int]
    """Indices, in the order of the document."""
    kinds: tuple[tuple[str, int], ...]
    """Task names with their counts, the most frequent first."""
    work_s: float
    """Sum of the run times."""


class Shape(msgspec.Struct, frozen=True):
    """Properties of a workflow that follow from its structure and run times alone.

    Run times are those on the reference processor. An unknown run time is replaced by the mean of
    the tasks of the same name, else of all tasks, else by 1 s, as in simulations.
    """

    tasks: int
    edges: int
    """Pairs of a task and one of its direct predecessors."""
    unknown_runtimes: int
    layers: tuple[Layer, ...]
    work_s: float
    """Sum of all run times."""
    critical_path: tuple[int, ...]
    """Task indices of a path with the largest sum of run times, from first to last."""
    critical_path_s: float
    peak: int
    """Maximum number of tasks that run at once if each starts as soon as its predecessors are
    done, on unlimited reference processors."""

    @property
    def width(self) -> int:
        """Number of tasks of the widest layer."""
        return max(len(layer.tasks) for layer in self.layers)

    @property
    def parallelism(self) -> float:
        """Average parallelism: work divided by the length of the critical path. More reference
        processors than this cannot all be busy from start to end."""
        return self.work_s / self.critical_path_s if self.critical_path_s > 0 else self.tasks


def shape_of(workflow: Workflow) -> Shape:
    """The shape of ``workflow``. A bag has one layer.

    Cost: linear in the number of tasks and edges; a bag needs no graph.
    """
    runtimes_s = expected_runtimes_s(workflow)
    if workflow.bag is not None:
        return _shape_of_bag(workflow, runtimes_s)
    import networkx as nx

    graph = to_networkx(workflow)
    index = {task.id: number for number, task in enumerate(workflow.tasks)}
    layers = [
        sorted(index[task] for task in generation)
        for generation in nx.topological_generations(graph)
    ]
    # networkx measures paths by their edges: each edge gets the run time of the task that it ends
    # at, and an edge from a common start adds that of the first task.
    start = object()
    weighted = nx.DiGraph()
    for task in graph:
        weighted.add_edge(start, task, runtime_s=runtimes_s[index[task]])
    weighted.add_edges_from((a, b, {"runtime_s": runtimes_s[index[b]]}) for a, b in graph.edges)
    path = [index[task] for task in nx.dag_longest_path(weighted, weight="runtime_s")[1:]]
    return Shape(
        tasks=len(workflow.tasks),
        edges=graph.number_of_edges(),
        unknown_runtimes=sum(task.runtime_s is None for task in workflow.tasks),
        layers=tuple(_layer(workflow, tasks, runtimes_s) for tasks in layers),
        work_s=sum(runtimes_s),
        critical_path=tuple(path),
        critical_path_s=sum(runtimes_s[task] for task in path),
        peak=_peak(workflow, layers, runtimes_s),
    )


def _layer(workflow: Workflow, tasks: Sequence[int], runtimes_s: Sequence[float]) -> Layer:
    names = Counter(workflow.tasks[task].name for task in tasks)
    return Layer(tasks, tuple(names.most_common()), sum(runtimes_s[t] for t in tasks))


def _peak(workflow: Workflow, layers: Sequence[Sequence[int]], runtimes_s: Sequence[float]) -> int:
    """Maximum number of tasks that run at once; see `Shape.peak`. A task that ends at the time at
    which another starts does not run beside it."""
    ends_s = [0.0] * len(workflow.tasks)
    changes: list[tuple[float, int]] = []
    for layer in layers:
        for task in layer:
            start_s = max((ends_s[parent] for parent in workflow.parents[task]), default=0.0)
            ends_s[task] = start_s + runtimes_s[task]
            if runtimes_s[task] > 0:
                changes += [(start_s, 1), (ends_s[task], -1)]
    running = peak = 0
    for _, change in sorted(changes):
        running += change
        peak = max(peak, running)
    return max(peak, 1)


def _shape_of_bag(workflow: Workflow, runtimes_s: Sequence[float]) -> Shape:
    bag, count = workflow.bag, len(workflow.tasks)
    assert bag is not None
    longest = max(range(count), key=lambda task: runtimes_s[task])
    layer = Layer(range(count), ((workflow.tasks[0].name, count),), sum(runtimes_s))
    return Shape(
        tasks=count,
        edges=0,
        unknown_runtimes=count if bag.estimate is None else 0,
        layers=(layer,),
        work_s=layer.work_s,
        critical_path=(longest,),
        critical_path_s=runtimes_s[longest],
        peak=count,
    )
