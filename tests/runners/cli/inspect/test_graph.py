"""``wfrun graph``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from tests.places import EXAMPLES
from tests.runners.harness import Job, User, lines_of, make_workflow, wait_until
from wfrun.engine.model import Task, Workflow
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.shape import shape_of
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.runners.inspect.graph.graph import dot
from wfrun.runners.inspect.graph.graph_drawing import drawing_of


def montage(user: User, tasks: int = 25) -> str:
    write_dax(generate("montage", tasks, seed=1), user.folder / "montage.dax")
    return "montage.dax"


def test_the_shape_is_shown(user: User) -> None:
    text = user.ask("graph", montage(user)).out
    assert "(montage.dax)" in text
    assert "in 9 layers" in text
    assert "critical path: mProject" in text
    assert "→" in text


def test_several_documents_and_bags_are_shown(user: User) -> None:
    text = user.ask("graph", montage(user), str(EXAMPLES / "bags/pivoting/pivoting.yaml")).out
    assert "(montage.dax)" in text
    assert "in 1 layer " in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shape.png", "shape.svg", "shape.pdf"])
def test_a_picture_is_drawn(user: User, name: str) -> None:
    user.ask("graph", montage(user), "--picture", name)
    assert (user.folder / name).stat().st_size > 5000


@pytest.mark.slow
def test_a_svg_has_the_kinds_as_text(user: User) -> None:
    user.ask("graph", montage(user, 200), "--picture", "g.svg")
    assert "<!-- mProject" in (user.folder / "g.svg").read_text()


def test_dot_on_standard_output_is_nothing_but_dot(user: User) -> None:
    done = user.ask("graph", montage(user), "--dot", "-", "--nodes", "kinds")
    assert done.out.startswith('digraph "')
    assert done.out.endswith("}\n")
    assert "layers" in done.err
    assert done.out.count("->") < 20


def test_dot_quotes_what_a_document_says() -> None:
    workflow = make_workflow([Job('a"]; x -> y [label="', "true"), Job("b\\", "true")])
    text = dot(workflow, drawing_of(workflow, shape_of(workflow), "tasks"))
    assert '"a\\"]; x -> y [label=\\"\\n' in text
    assert '"b\\\\\\n' in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--picture", "g.xyz"], "'xyz' is not a format of pictures"),
        (["--dot", "absent/g.dot"], "cannot be written"),
        (["--nodes", "rows"], "Invalid value for '--nodes'"),
        (["montage.dax", "--dot", "g.dot"], "draw one workflow, and the documents have 2"),
    ],
)
def test_what_cannot_be_is_refused(user: User, words: list[str], message: str) -> None:
    done = user.ask("graph", montage(user), *words)
    assert message in done.err
    assert done.status == 2


@pytest.mark.slow
def test_a_picture_of_hostile_names(user: User) -> None:
    """Names are text: no formulas, no elements of the picture's format, no lines of DOT."""
    name = '$\\frac{$ <script>x()</script> --> ]]> "; evil [label=x] //\\'
    tasks = [{"id": "a", "name": name, "parents": [], "children": [], "command": {"program": "x"}}]
    document = {
        "name": name,
        "schemaVersion": "1.5",
        "workflow": {"specification": {"tasks": tasks}},
    }
    path = user.folder / "w.json"
    path.write_text(json.dumps(document))
    done = user.ask("graph", path, "--picture", "g.svg", "--dot", "g.dot")
    assert done.status == 0, done.text
    picture = etree.parse(user.folder / "g.svg")
    assert not picture.findall(".//{*}script")
    lines = (user.folder / "g.dot").read_text().splitlines()
    assert len(lines) == 4
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    assert lines[0] == f'digraph "{escaped}" {{'


@pytest.mark.slow
def test_too_many_nodes_for_a_picture_are_refused_with_a_way_out(user: User) -> None:
    words = ("graph", montage(user, 1000), "--nodes", "tasks", "--picture", "g.png")
    done = user.ask(*words)
    assert "--nodes kinds" in done.err
    assert user.ask(*words[:2], "--picture", "g.png").status == 0


def chain(count: int) -> Workflow:
    """A chain of tasks of different kinds."""
    tasks = [Task(f"t{n}", f"kind-of-{n}", "k", runtime_s=1.0) for n in range(count)]
    return Workflow("chain", "chain", tasks, [], [(n - 1,) if n else () for n in range(count)])


def wide(count: int) -> Workflow:
    """Tasks of different kinds in two layers, each after many of the first."""
    tasks = [Task(f"t{n}", f"kind-of-{n}", "k", runtime_s=1.0) for n in range(count)]
    half = count // 2
    first = tuple(range(0, half, 7))
    return Workflow("wide", "wide", tasks, [], [() if n < half else first for n in range(count)])


@pytest.mark.slow
@pytest.mark.parametrize("make", [chain, wide])
def test_output_is_bounded_whatever_the_workflow(user: User, make: Callable[..., Workflow]) -> None:
    write_dax(make(900), user.folder / "w.dax")
    done = user.ask("graph", "w.dax", "--dot", "w.dot", "--picture", "w.png")
    assert done.status == 0, done.text
    assert len(done.out) < 10_000
    text = (user.folder / "w.dot").read_text()
    assert text.count("[label=") <= 2 * 60
    assert "×" in text
    if make is chain:
        assert "layers 1–15: kind-of-0, … ×15" in text
        assert text.count("->") == 59
        assert "…" in done.out.splitlines()[-1]
    else:
        assert "layer 2: kind-of-" in text
        assert "and 438 more kinds" in done.out
    tasks = user.ask("graph", "w.dax", "--nodes", "tasks", "--dot", "-")
    assert tasks.out.count("[label=") == 900


def test_a_run_has_the_states_of_its_tasks_in_colour(user: User) -> None:
    go = user.folder / "go"
    script = f"echo x >> {go}.1; while ! [ -e {go} ]; do sleep 0.1; done; exit 3"
    jobs = [Job("a", "true"), Job("b", script, parents=["a"]), Job("c", "true", parents=["b"])]
    engine = user.start(user.write(jobs), "--run-dir", "run", "--retries", "0")
    assert wait_until(lambda: len(lines_of(Path(f"{go}.1"))) == 1)

    def states() -> list[str]:
        done = user.ask("graph", "run", "--dot", "-", "--nodes", "tasks")
        assert done.status == 0, done.text
        nodes = [line for line in done.out.splitlines() if "fillcolor=" in line]
        return [line.split("\\n")[-1].split('"')[0] for line in nodes]

    assert wait_until(lambda: states() == ["done", "running", "waiting"])
    go.touch()
    assert engine.done().status == 1
    assert states() == ["done", "failed", "blocked"]
    done = user.ask("graph", "run", "--picture", "run.svg")
    assert done.status == 0, done.text
    assert "<!-- blocked -->" in (user.folder / "run.svg").read_text()
    missing = user.ask("graph", user.folder)
    assert missing.status == 2
    assert "there is no run" in missing.err
