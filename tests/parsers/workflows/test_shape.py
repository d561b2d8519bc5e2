"""Layers, critical path, width and parallelism of workflows."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine.model import Task, Workflow
from wfrun.parsers.bags.make import bag
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.shape import shape_of


def workflow_of(parents: list[tuple[int, ...]], runtimes_s: list[float | None]) -> Workflow:
    tasks = [
        Task(id=f"t{n}", name=f"kind{n % 2}", executable="x", runtime_s=runtime_s)
        for n, runtime_s in enumerate(runtimes_s)
    ]
    return Workflow(name="w", source="w.dax", tasks=tasks, files=[], parents=parents)


def test_a_diamond() -> None:
    shape = shape_of(workflow_of([(), (0,), (0,), (1, 2)], [1.0, 5.0, 3.0, 1.0]))
    assert [tuple(layer.tasks) for layer in shape.layers] == [(0,), (1, 2), (3,)]
    assert [layer.work_s for layer in shape.layers] == [1.0, 8.0, 1.0]
    assert shape.layers[1].kinds == (("kind1", 1), ("kind0", 1))
    assert (shape.tasks, shape.edges, shape.width, shape.peak) == (4, 4, 2, 2)
    assert shape.critical_path == (0, 1, 3)
    assert shape.critical_path_s == 7.0
    assert shape.parallelism == pytest.approx(10.0 / 7.0)


def test_unknown_run_times_are_those_of_like_tasks() -> None:
    shape = shape_of(workflow_of([(), (), ()], [4.0, None, None]))
    assert shape.unknown_runtimes == 2
    assert shape.work_s == 12.0


def test_tasks_of_different_layers_run_at_once() -> None:
    """A short chain beside a long task: two run at once, although each layer is narrow."""
    shape = shape_of(workflow_of([(), (0,), (1,), ()], [1.0, 1.0, 1.0, 3.0]))
    assert [len(layer.tasks) for layer in shape.layers] == [2, 1, 1]
    assert shape.peak == 2


def test_a_bag_is_one_layer() -> None:
    shape = shape_of(bag("b", ["true", "{n}"], parameters={"n": range(1000)}, estimate="{n}"))
    assert (shape.tasks, shape.width, len(shape.layers)) == (1000, 1000, 1)
    assert shape.critical_path == (999,)
    assert shape.critical_path_s == 999.0


def test_run_times_of_zero() -> None:
    shape = shape_of(workflow_of([(), (0,)], [0.0, 0.0]))
    assert shape.critical_path_s == 0.0
    assert shape.parallelism == 2


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    count = draw(st.integers(1, 12))
    parents = [
        tuple(sorted(draw(st.sets(st.integers(0, n - 1), max_size=3)))) if n else ()
        for n in range(count)
    ]
    runtimes = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return workflow_of(parents, [float(r) for r in runtimes])


@given(workflows())
def test_any_graph_has_the_shape_that_its_definition_says(workflow: Workflow) -> None:
    shape = shape_of(workflow)
    layer_of: dict[int, int] = {}
    ends_s: dict[int, float] = {}
    for task, parents in enumerate(workflow.parents):
        layer_of[task] = max((layer_of[p] + 1 for p in parents), default=0)
        start_s = max((ends_s[p] for p in parents), default=0.0)
        ends_s[task] = start_s + (workflow.tasks[task].runtime_s or 0.0)
    assert {t: n for n, layer in enumerate(shape.layers) for t in layer.tasks} == layer_of
    assert math.isclose(shape.critical_path_s, max(ends_s.values()))
    path = shape.critical_path
    assert all(a in workflow.parents[b] for a, b in pairwise(path))
    starts_s = {t: ends_s[t] - (workflow.tasks[t].runtime_s or 0.0) for t in ends_s}
    running = [sum(starts_s[u] <= starts_s[t] < ends_s[u] for u in ends_s) for t in ends_s]
    assert shape.peak == max(1, *running)


@pytest.mark.slow
def test_ten_thousand_tasks_take_no_quadratic_time() -> None:
    shape = shape_of(generate("montage", 10_000, seed=1))
    assert shape.tasks == 10_000
    assert len(shape.layers) == 9
