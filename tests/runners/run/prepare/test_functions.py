"""Workflows of Python functions, from a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wfrun
from wfrun import FunctionWorkflow, InvalidError

MODULE = """\
import helper

def square(x):
    return x * x

def total(*numbers, scale=1):
    with open("table.txt", "w") as table:
        table.write(" ".join(map(str, numbers)))
    return sum(numbers) * scale

def words(name):
    with open(name) as file:
        return helper.count(file.read())

def fail(*ignored):
    raise ValueError("as it should")
"""


@pytest.fixture
def flow(tmp_path: Path) -> FunctionWorkflow:
    (tmp_path / "model.py").write_text(MODULE)
    (tmp_path / "helper.py").write_text("def count(text):\n    return len(text.split())\n")
    return FunctionWorkflow("squares", tmp_path / "model.py")


@pytest.mark.slow
@pytest.mark.parametrize("as_dax", [False, True])
def test_calls_that_use_each_other(flow: FunctionWorkflow, as_dax: bool, tmp_path: Path) -> None:
    helper = ["helper.py"]
    squares = [flow.call("square", [n], inputs=helper) for n in range(5)]
    scale = flow.call("square", [2], inputs=helper)
    total = flow.call("total", squares, {"scale": scale}, inputs=helper, outputs=["table.txt"])
    words = flow.call("words", ["table.txt"], inputs=["table.txt", *helper])
    bad = flow.call("fail", [total], inputs=helper)
    document: wfrun.Workflow | Path = flow.workflow()
    if as_dax:
        document = tmp_path / "squares.dax"
        wfrun.write_dax(flow.workflow(), document)
    result = wfrun.run(document, inputs=tmp_path, run_dir=tmp_path / "run", retries=0)
    assert (result.done, result.failed) == (8, 1)
    [failure] = result.failures
    assert failure.task == bad.id
    assert failure.message is not None
    assert failure.message.endswith("ValueError: as it should")
    # Final are those that no call uses.
    assert {path.name for path in result.outputs.iterdir()} == {words.file}
    assert json.loads((result.outputs / words.file).read_text()) == 5


def test_what_can_not_be_passed_on(flow: FunctionWorkflow, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="square-0 cannot be written as JSON"):
        flow.call("square", [{1, 2}])
    with pytest.raises(InvalidError, match="take 200021 bytes"):
        flow.call("square", ["x" * 199_980])
    flow.call("total", outputs=["table.txt"])
    with pytest.raises(InvalidError, match=r"one of total-1\.json, table\.txt is written twice"):
        flow.call("total", outputs=["table.txt"])
    assert flow.call("total", outputs=["other.txt"]).file == "total-1.json"
    with pytest.raises(InvalidError, match="is not a Python file"):
        FunctionWorkflow("x", tmp_path / "absent.py")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("text",), r"(?s)args is 'text'.*write a list"),
        ((7,), r"(?s)args is 7.*write a list"),
        (({1, 2},), r"(?s)args is \{1, 2\}.*in the order of"),
        (({"n": 1},), r"(?s)args is \{'n': 1\}.*kwargs"),
        (([], [1]), r"(?s)kwargs is \[1\].*dict"),
        (([], {1: 2}), r"(?s)1 cannot be the name of an argument.*text"),
    ],
)
def test_arguments_that_no_call_can_have(
    flow: FunctionWorkflow, given: tuple[Any, ...], says: str
) -> None:
    with pytest.raises(InvalidError, match=says):
        flow.call("square", *given)
    assert len(flow.workflow().tasks) == 0


def test_arguments_are_read_once(flow: FunctionWorkflow) -> None:
    flow.call("square", (n for n in [7]))  # type: ignore[arg-type]
    assert '"args": [7]' in flow.workflow().tasks[0].arguments[3]


def test_functions_that_are_not_there(flow: FunctionWorkflow, tmp_path: Path) -> None:
    def square(x: int) -> int:
        return x * x

    def points(function: object) -> object:
        return wfrun.function_bag("b", tmp_path / "model.py", function, points=[{"x": 1}])  # type: ignore[arg-type]

    for call in (flow.call, points):
        with pytest.raises(
            InvalidError, match=r"(?s)is not the name of a function.*write 'square'"
        ):
            call(square)  # type: ignore[arg-type]
        with pytest.raises(InvalidError, match=r"model\.py by name: write 'its name'"):
            call(lambda x: x)  # type: ignore[arg-type]
        with pytest.raises(InvalidError, match=r"(?s)no function 'sqare'.*did you mean 'square'"):
            call("sqare")
        with pytest.raises(InvalidError, match=r"(?s)no function 'grep'.*a program is a `Task`"):
            call("grep")
    with pytest.raises(InvalidError, match=r"(?s)is not the path of a Python file.*json/__init__"):
        FunctionWorkflow("x", json)  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match=r"(?s)is not the path of a Python file.*a \.py file"):
        wfrun.function_bag("b", square, "square", points=[{"x": 1}])  # type: ignore[arg-type]
    (tmp_path / "made.py").write_text("from model import *\nglobals()['made'] = print\n")
    assert FunctionWorkflow("made", tmp_path / "made.py").call("made").id == "made-0"
