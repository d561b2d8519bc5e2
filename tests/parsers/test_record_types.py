"""Values of wrong types in workflows and bags of Python programs: refused where they are given,
with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wfrun
from wfrun.parsers.record_types import check_document


def double(x: int) -> int:
    return 2 * x


def workflow(**fields: Any) -> wfrun.Workflow:
    task = wfrun.Task(**{"id": "a", "name": "kind", "executable": "true", **fields})
    return wfrun.Workflow("w", "", [task], [wfrun.File("x")], [()])


FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"executable": double}, r"task 0 'a': executable is <function .*wfrun\.function_bag\("),
    ({"arguments": ("-n", double)}, r"arguments is .*wfrun\.FunctionWorkflow\("),
    ({"arguments": (1, 2)}, r"arguments is \(1, 2\): .*write a value of type tuple\[str, \.\.\.\]"),
    ({"arguments": "-n 3"}, r"arguments is '-n 3'"),
    ({"inputs": ("x",)}, r"inputs is \('x',\): .*write the positions of the files"),
    ({"resources": {"cores": 2}}, r"resources is \{'cores': 2\}: expected a Resources"),
    ({"runtime_s": "5"}, r"runtime_s is '5'.*float \| None"),
    ({"env": {"A": 1}}, r"env is \{'A': 1\}"),
    ({"id": 3}, r"task 0: id is 3"),
]


@pytest.mark.parametrize(("fields", "message"), FIELDS)
def test_fields_of_tasks(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    document = workflow(**fields)
    run_dir = tmp_path / "run"
    with pytest.raises(wfrun.InvalidError, match=f"(?s){message}"):
        wfrun.run(document, run_dir=run_dir, emulate=True)
    assert not run_dir.exists()
    with pytest.raises(wfrun.InvalidError, match=f"(?s){message}"):
        wfrun.simulate(document, policy="heft", runtime_s=1.0)


def test_what_is_no_document() -> None:
    task = wfrun.Task("a", "kind", "true")
    tasks: Any = [double]
    for document, message in (
        (double, "neither the path of a document nor a wfrun.Workflow.*function_bag"),
        (task, "tasks belong into a `wfrun.Workflow"),
        (["a.dax", "b.dax"], "several documents are several arguments"),
        (wfrun.Workflow("w", "", tasks, [], [()]), "task 0 is <function .*no wfrun.Task"),
    ):
        with pytest.raises(wfrun.InvalidError, match=f"(?s){message}"):
            check_document(document)


BAGS: list[tuple[Any, dict[str, Any], str]] = [
    (double, {}, "the command is, or has, a function.*wfrun.function_bag"),
    ([double, "{i}"], {}, "the command is, or has, a function.*wfrun.function_bag"),
    ("echo {i}", {"parameters": {"i": [double]}}, "a value of i: it must be text or a number"),
    ("echo {i}", {"inputs": "data.csv"}, "inputs is 'data.csv'.*a list of names"),
    ("echo {i}", {"outputs": 3}, "outputs is 3.*a list of names"),
    ("echo {i}", {"inputs": [3]}, "inputs: .*as text"),
    ("echo {i}", {"resources": {"cores": 1}}, "resources is .*expected a Resources"),
    ("echo {i}", {"env": {"A": 1}}, "env is .*dict"),
    ("echo {i}", {"priority": "high"}, "priority is 'high'.*write a value of type int"),
]


@pytest.mark.parametrize(("command", "options", "message"), BAGS)
def test_bags(command: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(wfrun.InvalidError, match=f"(?s){message}"):
        wfrun.bag("b", command, **{"parameters": {"i": range(3)}, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resources": {"cores": 2}}, "resources is .*expected a Resources"),
        ({"runtime_s": "long"}, "runtime_s is 'long'"),
        ({"env": {"A": 1}}, "env is "),
        ({"outputs": "table.csv"}, "outputs is 'table.csv'.*a list of names"),
        ({"inputs": 5}, "inputs is 5.*a list of names"),
    ],
)
def test_calls(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    module = tmp_path / "sums.py"
    module.write_text("def double(x):\n    return 2 * x\n")
    flow = wfrun.FunctionWorkflow("f", module)
    with pytest.raises(wfrun.InvalidError, match=f"(?s){message}"):
        flow.call("double", [1], **options)
    flow.call("double", [1], inputs=["x"], outputs=("y",), env={"A": "1"})
    assert len(flow.workflow().tasks) == 1


def test_names_that_documents_may_have_are_no_matter_of_types() -> None:
    """Lists for tuples, and all names: what is wrong with these is found with the document's."""
    task = wfrun.Task("a", "k", "true", arguments=["-n"], inputs=[0])  # type: ignore[arg-type]
    files = [wfrun.File("deep/x\0"), wfrun.File("../y")]
    document = wfrun.Workflow("w", "", [task], files, [()])
    assert check_document(document) is document
