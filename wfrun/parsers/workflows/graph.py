"""Workflows as graphs of networkx, the public graph type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wfrun.engine.model import Workflow

if TYPE_CHECKING:
    import networkx as nx


def to_networkx(workflow: Workflow) -> nx.DiGraph[str]:
    """The tasks and edges of ``workflow`` as a directed graph with the workflow's name.

    Nodes are task ids, in the order of the document, with the attributes ``name``, ``runtime_s``
    (None: unknown) and ``cores``. Edges have ``size_bytes``, the sum of the known sizes of the
    files that they carry; it is 0 for an edge that was only declared. Changing the graph does not
    change the workflow.
    """
    import networkx as nx  # Its import takes 0.1 s, and few callers need it.

    graph: nx.DiGraph[str] = nx.DiGraph(name=workflow.name)
    for task in workflow.tasks:
        cores = task.resources.cores
        graph.add_node(task.id, name=task.name, runtime_s=task.runtime_s, cores=cores)
    for task, parents in zip(workflow.tasks, workflow.parents, strict=True):
        carried = dict.fromkeys(parents, 0)
        for index in task.inputs:
            file = workflow.files[index]
            if file.producer is not None:
                carried[file.producer] += file.size_bytes or 0
        for parent, size_bytes in carried.items():
            graph.add_edge(workflow.tasks[parent].id, task.id, size_bytes=size_bytes)
    return graph
