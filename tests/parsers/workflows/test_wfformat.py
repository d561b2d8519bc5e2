"""WfFormat instances of all versions: what they mean, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.read import read_workflow
from wfrun.parsers.workflows.wfformat import line_of


def read(directory: Path, document: object, *, emulate: bool = False) -> Workflow:
    path = directory / "instance.json"
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    path.write_text(text)
    return read_workflow(path, emulate=emulate)


def old(*tasks: dict[str, Any], key: str = "tasks") -> dict[str, Any]:
    return {"name": "test", "schemaVersion": "1.4", "workflow": {key: list(tasks)}}


def new(specification: list[dict[str, Any]], execution: list[dict[str, Any]]) -> dict[str, Any]:
    files = [{"id": "x", "sizeInBytes": 5}]
    workflow = {
        "specification": {"tasks": specification, "files": files},
        "execution": {"tasks": execution},
    }
    return {"name": "test", "schemaVersion": "1.5", "workflow": workflow}


def test_version_1_5(tmp_path: Path) -> None:
    specification = [
        {"name": "sort_ID0000001", "id": "1", "children": ["2"], "outputFiles": ["x"]},
        {"name": "cat", "id": "2", "parents": ["1"], "inputFiles": ["x"]},
    ]
    execution = [
        {
            "id": "1",
            "runtimeInSeconds": 2.5,
            "coreCount": 1.5,
            "memoryInBytes": 9,
            "priority": 20,
            "command": {"program": "/bin/sort", "arguments": ["-n", 3, "a b", "-o 'c d'"]},
        },
        {"id": "2", "runtimeInSeconds": 0.0},
    ]
    workflow = read(tmp_path, new(specification, execution))
    first, second = workflow.tasks
    assert (first.name, first.executable) == ("sort", "/bin/sort")
    assert first.arguments == ("-n", "3", "a b", "-o", "c d")
    assert (first.runtime_s, second.runtime_s) == (2.5, 0.0)
    assert (first.resources.cores, first.resources.memory_bytes) == (2, 0)
    assert (first.priority, second.priority) == (20, 0)
    assert (second.executable, second.arguments) == ("cat", ())
    assert workflow.files[0].size_bytes == 5
    assert workflow.parents == [(), (0,)]
    assert workflow.name == "test"


@pytest.mark.parametrize(
    ("key", "runtime", "size", "cores"),
    [
        ("jobs", "runtime", "size", "cores"),
        ("tasks", "runtimeInSeconds", "sizeInBytes", "coreCount"),
    ],
)
def test_older_versions(tmp_path: Path, key: str, runtime: str, size: str, cores: str) -> None:
    file = {"name": "x", size: 7}
    first = {"name": "p_1", "type": "compute", "files": [{**file, "link": "output"}], runtime: 3}
    second = {
        "name": "q_2",
        "category": "query",
        "parents": ["p_1"],
        "files": [{**file, "link": "input"}],
        "arguments": ["-x"],
        cores: 4,
    }
    workflow = read(tmp_path, old({**first, "id": "ID1"}, second, key=key))
    assert [task.id for task in workflow.tasks] == ["ID1", "q_2"]
    assert [task.name for task in workflow.tasks] == ["p", "query"]
    assert workflow.parents == [(), (0,)]
    assert workflow.tasks[0].runtime_s == 3
    assert workflow.tasks[1].arguments == ("-x",)
    assert workflow.tasks[1].resources.cores == 4
    assert workflow.files[0].size_bytes == 7


def test_unconsumed_outputs_are_final(tmp_path: Path) -> None:
    first = {"name": "a", "files": [{"name": n, "link": "output"} for n in ("x", "y")]}
    second = {"name": "b", "files": [{"name": "x", "link": "input"}]}
    files = read(tmp_path, old(first, second)).files
    assert [file.name for file in files if file.collect] == ["y"]


def test_script_text_is_not_run(tmp_path: Path) -> None:
    task = {"name": "a", "command": {"program": "one\ntwo", "arguments": ["x"]}}
    workflow = read(tmp_path, old(task))
    assert (workflow.tasks[0].executable, workflow.tasks[0].arguments) == ("a", ())
    assert workflow.warnings[0].startswith("script text is not run: 1, first at ")


def test_absolute_names_are_identifiers_under_emulation_only(tmp_path: Path) -> None:
    document = old({"name": "a", "files": [{"name": "/c3/x", "link": "output"}]})
    with pytest.raises(InvalidError, match="file name '/c3/x' cannot be used") as caught:
        read(tmp_path, document)
    assert caught.value.line == 6
    workflow = read(tmp_path, document, emulate=True)
    assert workflow.files[0].name == "c3/x"
    assert "leading slash dropped: 1" in workflow.warnings[0]


@pytest.mark.parametrize(
    ("document", "line", "message"),
    [
        ('{"workflow": {\n"tasks": [', 2, "not valid JSON: Expecting value, column 11"),
        ('{"workflow": {"tasks": [], "tasks": []}}', None, "'tasks' is repeated"),
        ('{"workflow": {"tasks": [{"name": "a", "runtime": NaN}]}}', None, "NaN is no number"),
        ("[" * 100_000, None, "nested too deeply"),
        ('{"name": "x"}', 1, 'no object "workflow"'),
        ("[]", 1, 'no object "workflow"'),
        ('{"workflow":\n{"jobs": {}}}', 2, 'no list "jobs"'),
        ('{"workflow": {"tasks": []}}', None, "has no tasks"),
        ('{"workflow": {"tasks": [\n7]}}', 2, "a task is not an object"),
        ('{"workflow": {"tasks": [\n{}]}}', 2, "a task without name"),
        ('{"workflow": {"tasks": [{"name": "a"},\n{"name": "a"}]}}', 2, "task id a is used twice"),
        ('{"workflow": {"tasks": [\n{"name": "a", "parents": ["b"]}]}}', 2, "not there: b"),
        ('{"workflow": {"tasks": [\n{"name": "a", "parents": "b"}]}}', 2, "not a list of names"),
        ('{"workflow": {"tasks": [\n{"name": "a", "runtime": "1"}]}}', 2, "not a number"),
        ('{"workflow": {"tasks": [\n{"name": "a", "files": [{}]}]}}', 2, "a file without a name"),
        ('{"workflow": {"tasks": [\n{"name": "a", "command": [1]}]}}', 2, "is not an object"),
    ],
)
def test_refusals_name_the_line(
    tmp_path: Path, document: str, line: int | None, message: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, document)
    assert message in str(caught.value)
    assert caught.value.line == line
    assert caught.value.source == str(tmp_path / "instance.json")


def test_a_warning_names_the_line_of_the_file(tmp_path: Path) -> None:
    """The lines of files are found after the tasks have been read."""
    text = """{"workflow": {"specification": {"tasks": [
{"name": "a", "id": "a"},
{"name": "b", "id": "b", "inputFiles": ["y"]}
], "files": [
{"id": "x", "sizeInBytes": 1},
{"id": "y", "sizeInBytes": -1}
]}}}"""
    path = tmp_path / "instance.json"
    (warning,) = read(tmp_path, text).warnings
    assert warning == f"negative file size, counted as unknown: 1, first at {path}:6"


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = json.dumps(old({"name": "a", "files": [{"name": "x", "link": "input"}]}), indent=1)
    for length in range(len(whole)):
        with pytest.raises(InvalidError):
            read(tmp_path, whole[:length])


def test_line_of() -> None:
    text = '{"a": [1,\n {"b]": "}"},\n {"c":\n 3}], "d": {}}'
    assert line_of(text, "a", 1) == 2
    assert line_of(text, "a", 2, "c") == 4
    assert line_of(text, "a", 9) == 1
    assert line_of(text, "d", "e") == 4


def test_text_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    path.write_bytes(b'{"name":\n"\xe9"}')
    with pytest.raises(InvalidError, match="not UTF-8 text") as caught:
        read_workflow(path)
    assert caught.value.line == 2
