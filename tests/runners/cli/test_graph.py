"""``wfrun graph``."""

from __future__ import annotations

import json

import pytest
from lxml import etree

from tests.places import EXAMPLES
from tests.runners.harness import Job, User, make_workflow
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.shape import shape_of
from wfrun.parsers.workflows.write_dax import write_dax
from wfrun.runners.display.graph import dot, drawing_of


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


@pytest.mark.parametrize("name", ["shape.png", "shape.svg", "shape.pdf"])
def test_a_picture_is_drawn(user: User, name: str) -> None:
    user.ask("graph", montage(user), "--picture", name)
    assert (user.folder / name).stat().st_size > 5000


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
        (["--nodes", "layers"], "Invalid value for '--nodes'"),
        (["montage.dax", "--dot", "g.dot"], "draw one workflow, and the documents have 2"),
    ],
)
def test_what_cannot_be_is_refused(user: User, words: list[str], message: str) -> None:
    done = user.ask("graph", montage(user), *words)
    assert message in done.err
    assert done.status == 2


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


def test_too_many_nodes_for_a_picture_are_refused_with_a_way_out(user: User) -> None:
    words = ("graph", montage(user, 1000), "--nodes", "tasks", "--picture", "g.png")
    done = user.ask(*words)
    assert "--nodes kinds" in done.err
    assert user.ask(*words[:2], "--picture", "g.png").status == 0
