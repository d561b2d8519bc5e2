"""DAX and WfFormat as we write them: read back they are the same, and others can read them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.amounts import examples
from tests.places import CORPUS
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import File, Resources, Task, Workflow
from wfrun.parsers.generate import FAMILIES, generate
from wfrun.parsers.read import read_workflow
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.parsers.workflows.writers.write_wfformat import write_wfformat

Writer = Callable[[Workflow, Path], None]


def read_back(write: Writer, workflow: Workflow, path: Path, emulate: bool = False) -> Workflow:
    """The workflow as it is read after it was written, with the origin of the first."""
    write(workflow, path)
    again = read_workflow(path, emulate=emulate)
    return msgspec.structs.replace(again, source=workflow.source, warnings=workflow.warnings)


def rich_workflow() -> Workflow:
    """Has a bit of all that a DAX can say."""
    analyse = Task(
        id="analyse-1",
        name="analyse",
        executable="/opt/my tools/analyse",
        arguments=("-i", "raw data/in.txt", 'it\'s "so" $HOME', "", "<&>", "a\tb\nc", "é"),
        inputs=(0, 1),
        outputs=(2, 3, 4),
        optional=(1, 3),
        stdin=0,
        stdout=2,
        stderr=4,
        env={"OMP_NUM_THREADS": "4", "TEXT": "a <b> & 'c'"},
        resources=Resources(4, memory_bytes=3 * 2**30, gpus=1, walltime_s=5400.0, nodes=2),
        runtime_s=0.1,
        priority=-3,
    )
    other = Task(id="analyse-2", name="analyse", executable="analyse2", inputs=(2,), outputs=(5,))
    own = Task(
        id="own",
        name="tool.sh",
        executable="./tool.sh",
        inputs=(6, 5),
        resources=Resources(memory_bytes=1_000_001, walltime_s=100.0),
        runtime_s=12.0,
    )
    last = Task(id="last", name="echo", executable="echo", arguments=("done",))
    return Workflow(
        name="rich & odd",
        source="test",
        tasks=[analyse, other, own, last],
        files=[
            File("raw data/in.txt", size_bytes=10, url="/data/in put.txt"),
            File("perhaps", url="https://example.org/x?a=1&b=2"),
            File("out.txt", size_bytes=7, producer=0, collect=True),
            File("extra", producer=0, collect=True),
            File("log", producer=0),
            File("result", size_bytes=0, producer=1),
            File("tool.sh", size_bytes=99, executable=True),
        ],
        parents=[(), (0,), (1,), (0, 2)],
    )


def test_dax_keeps_all_that_the_model_has(tmp_path: Path) -> None:
    workflow = rich_workflow()
    assert read_back(write_dax, workflow, tmp_path / "rich.dax") == workflow


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("write", [write_dax, write_wfformat])
def test_generated_workflows_are_read_back_the_same(
    family: str, write: Writer, tmp_path: Path
) -> None:
    for tasks in (FAMILIES[family].smallest, 120):
        workflow = generate(family, tasks, seed=5)
        assert read_back(write, workflow, tmp_path / "written") == workflow


words = st.text(
    st.characters(
        codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"
    ),
    max_size=12,
)


@settings(max_examples=examples(100))
@given(st.lists(words, max_size=5), words, st.floats(0, 1e9), st.integers(1, 10**13))
def test_any_words_and_numbers_survive_dax(
    tmp_path_factory: pytest.TempPathFactory,
    arguments: list[str],
    value: str,
    runtime_s: float,
    memory_bytes: int,
) -> None:
    task = Task(
        id="t",
        name="n",
        executable="n",
        arguments=tuple(arguments),
        env={"VALUE": value.strip()},
        runtime_s=runtime_s,
        resources=Resources(memory_bytes=memory_bytes),
    )
    workflow = Workflow("w", "test", [task], [], [()])
    path = tmp_path_factory.getbasetemp() / "words.dax"
    assert read_back(write_dax, workflow, path) == workflow


@pytest.mark.parametrize("seconds", [60.0, 100.0, 86400.0, 0.5, 1e6])
def test_walltimes_survive_dax_to_the_millisecond(seconds: float, tmp_path: Path) -> None:
    task = Task(id="t", name="n", executable="n", resources=Resources(walltime_s=seconds))
    again = read_back(write_dax, Workflow("w", "test", [task], [], [()]), tmp_path / "w.dax")
    assert again.tasks[0].resources.walltime_s == pytest.approx(seconds, abs=1e-3)


def with_task(**changes: object) -> Workflow:
    task = Task(id="t", name="n", executable="n", runtime_s=1.0)
    return Workflow("w", "test", [msgspec.structs.replace(task, **changes)], [], [()])


@pytest.mark.parametrize(
    ("workflow", "words"),
    [
        (with_task(arguments=("\x01",)), "control character"),
        (with_task(executable="bin/tool"), "bin/tool is relative"),
        (with_task(env={"A": " x"}), "environment variable A"),
    ],
)
def test_what_dax_cannot_say_is_refused(workflow: Workflow, words: str, tmp_path: Path) -> None:
    path = tmp_path / "w.dax"
    with pytest.raises(InvalidError, match=words):
        write_dax(workflow, path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("workflow", "words"),
    [
        (with_task(env={"A": "x"}), "environment"),
        (with_task(arguments=("",)), "empty word"),
        (with_task(arguments=("-o x",)), "option with a space"),
        (with_task(id="a/b"), "task id 'a/b'"),
        (with_task(runtime_s=None, arguments=("x",)), "run time is unknown"),
        (with_task(resources=Resources(gpus=1)), "GPUs"),
        (with_task(resources=Resources(2, nodes=2)), "nodes"),
        (rich_workflow(), "file name 'raw data/in.txt'"),
    ],
)
def test_what_wfformat_cannot_say_is_refused_and_not_dropped(
    workflow: Workflow, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidError, match=re.escape(words)) as caught:
        write_wfformat(workflow, tmp_path / "w.json")
    assert "Write it as DAX" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_wfformat_keeps_commands_cores_and_priorities(tmp_path: Path) -> None:
    workflow = with_task(
        name="step-7",
        executable="/usr/bin/env",
        arguments=("a b", '"', "é"),
        resources=Resources(cores=8),
        priority=2,
    )
    assert read_back(write_wfformat, workflow, tmp_path / "w.json") == workflow


def test_wfformat_without_run_times_has_no_execution(tmp_path: Path) -> None:
    workflow = with_task(runtime_s=None)
    assert read_back(write_wfformat, workflow, tmp_path / "w.json") == workflow
    document = json.loads((tmp_path / "w.json").read_text())
    assert "execution" not in document["workflow"]


def test_an_existing_file_is_replaced_and_a_bad_place_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.dax"
    path.write_text("old")
    write_dax(with_task(), path)
    assert "<adag" in path.read_text()
    with pytest.raises(InvalidError, match="cannot be written: No such file"):
        write_dax(with_task(), tmp_path / "none" / "w.dax")
    with pytest.raises(InvalidError, match="cannot be written"):
        write_wfformat(with_task(), tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["w.dax"]


@pytest.mark.corpus
@pytest.mark.parametrize("family", FAMILIES)
def test_our_wfformat_is_valid_by_its_schema(family: str, tmp_path: Path) -> None:
    schema = json.loads((CORPUS / "wfformat" / "wfcommons-schema.json").read_text())
    schema.pop("$schema")  # it names no particular draft
    path = tmp_path / "w.json"
    write_wfformat(generate(family, 60, seed=1), path)
    jsonschema.Draft7Validator(schema).validate(json.loads(path.read_text()))


@pytest.mark.corpus
def test_our_dax_is_valid_by_its_schema_but_for_the_run_time(tmp_path: Path) -> None:
    schema = etree.XMLSchema(etree.parse(str(CORPUS / "dax" / "schema" / "dax-3.6.xsd")))
    workflows = [generate(family, 60, seed=1) for family in FAMILIES]
    workflows.append(msgspec.structs.replace(rich_workflow(), name="rich"))
    for workflow in workflows:
        write_dax(workflow, tmp_path / "w.dax")
        document = etree.parse(str(tmp_path / "w.dax"))
        for job in document.iter("{*}job"):
            job.attrib.pop("runtime", "")
        schema.assertValid(document)


@pytest.mark.corpus
def test_documents_of_others_survive_both_formats(tmp_path: Path) -> None:
    """Every workflow that can be read is the same after writing, in each format that can say it."""
    written = {write_dax: 0, write_wfformat: 0}
    places = [CORPUS / place for place in ("dax", "pegasus5-yaml", "wfformat")]
    for document in sorted(path for place in places for path in place.rglob("*.*")):
        if document.stat().st_size > 700_000:
            continue  # the smaller ones of each family do
        copy = tmp_path / document.name
        shutil.copy(document, copy)
        for emulate in (False, True):
            try:
                workflow = read_workflow(copy, emulate=emulate)
            except InvalidError:
                continue
            again = read_back(write_dax, workflow, tmp_path / "again", emulate)
            assert again == workflow, document
            written[write_dax] += 1
            with contextlib.suppress(InvalidError):  # it cannot say that
                again = read_back(write_wfformat, workflow, tmp_path / "again", emulate)
                written[write_wfformat] += 1
            assert again == workflow, document
    assert written[write_dax] > 60
    assert written[write_wfformat] > 20
