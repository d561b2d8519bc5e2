"""Workflows as graphs of networkx."""

from __future__ import annotations

import subprocess
import sys

from wfrun.engine.model import File, Resources, Task, Workflow
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.graph import to_networkx


def test_nodes_and_edges_have_what_a_scheduler_asks_for() -> None:
    workflow = Workflow(
        name="three",
        source="three.dax",
        tasks=[
            Task(id="a", name="make", executable="make", outputs=(0, 1, 2), runtime_s=2.5),
            Task(id="b", name="use", executable="use", inputs=(0, 1), resources=Resources(cores=4)),
            Task(id="c", name="use", executable="use", inputs=(2,)),
        ],
        files=[
            File("x", size_bytes=10, producer=0),
            File("y", size_bytes=5, producer=0),
            File("z", producer=0),
        ],
        parents=[(), (0,), (0, 1)],
    )
    graph = to_networkx(workflow)
    assert graph.name == "three"
    assert dict(graph.nodes(data=True)) == {
        "a": {"name": "make", "runtime_s": 2.5, "cores": 1},
        "b": {"name": "use", "runtime_s": None, "cores": 4},
        "c": {"name": "use", "runtime_s": None, "cores": 1},
    }
    assert sorted(graph.edges(data="size_bytes")) == [
        ("a", "b", 15),
        ("a", "c", 0),  # its size is unknown
        ("b", "c", 0),  # it was only declared
    ]


def test_a_generated_workflow_is_the_same_graph() -> None:
    workflow = generate("montage", 200, seed=1)
    graph = to_networkx(workflow)
    assert graph.number_of_nodes() == 200
    assert graph.number_of_edges() == sum(map(len, workflow.parents))
    assert len(list(graph.predecessors(workflow.tasks[-1].id))) == 1


def test_networkx_is_imported_only_when_it_is_used() -> None:
    program = "import sys, wfrun.parsers.workflows.graph; sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=100).returncode == 0
