"""Pegasus 5 workflows: what they mean, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.read import read_workflow

COMPLETE = """\
pegasus: "5.0"
name: diamond
profiles:
  env: {WHO: all, WHERE: document}
replicaCatalog:
  replicas:
    - lfn: f.a
      pfns:
        - {pfn: "gsiftp://far/f.a", site: far}
        - {pfn: "file:///data/f.a", site: local}
transformationCatalog:
  transformations:
    - namespace: n
      name: work
      version: "1"
      profiles: {env: {WHERE: catalog}}
      sites:
        - {name: far, pfn: /far/work, type: installed}
        - {name: local, pfn: "file:///bin/work", type: installed}
jobs:
  - type: job
    id: a
    namespace: n
    name: work
    version: "1"
    stdin: f.a
    stdout: log
    arguments: [-T60, -n, 1, 1.5, true]
    uses:
      - {lfn: f.a, type: input}
      - {lfn: f.b, type: output, stageOut: true, metadata: {size: "2048"}}
      - {lfn: f.x, type: output, stageOut: false, optional: true}
    profiles:
      env: {WHO: job}
      pegasus: {cores: 2, memory: "100", gpus: 1, runtime: "60"}
      globus: {maxwalltime: 5}
  - type: job
    id: b
    name: other
    uses:
      - {lfn: f.b, type: input, size: 2048}
jobDependencies:
  - id: a
    children: [b]
"""


def read(directory: Path, text: str, *, emulate: bool = False) -> Workflow:
    path = directory / "workflow.yml"
    path.write_text(text)
    return read_workflow(path, emulate=emulate)


def test_all_of_a_workflow(tmp_path: Path) -> None:
    workflow = read(tmp_path, COMPLETE)
    first, second = workflow.tasks
    assert (first.executable, first.name) == ("/bin/work", "work")
    assert first.arguments == ("-T60", "-n", "1", "1.5", "true")
    assert first.env == {"WHO": "job", "WHERE": "catalog"}
    assert second.env == {"WHO": "all", "WHERE": "document"}
    assert (first.resources.cores, first.resources.gpus) == (2, 1)
    assert first.resources.memory_bytes == 100 * 2**20
    assert (first.resources.walltime_s, first.runtime_s) == (300, 60)
    assert (second.executable, workflow.parents) == ("other", [(), (0,)])
    files = {file.name: file for file in workflow.files}
    assert files["f.a"].url == "/data/f.a"
    assert files["f.b"].size_bytes == 2048
    assert [name for name, file in files.items() if file.collect] == ["f.b", "log"]
    assert first.stdin == 0
    assert workflow.files[first.optional[0]].name == "f.x"
    assert (workflow.name, workflow.warnings) == ("diamond", ())


def test_catalogs_in_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "rc.yml").write_text("replicas: [{lfn: x, pfns: [{pfn: data/x, site: local}]}]")
    workflow = read(
        tmp_path,
        """\
pegasus: "5.0"
replicaCatalog: {$ref: rc.yml}
transformationCatalog: {$ref: "https://far/tc"}
jobs: [{id: a, name: p, uses: [{lfn: x, type: input}]}]
""",
    )
    assert workflow.files[0].url == str(tmp_path / "data/x")
    assert workflow.warnings == (
        f"transformationCatalog that is elsewhere, not read: 1, first at {workflow.source}:3",
    )


def test_sub_workflow(tmp_path: Path) -> None:
    (tmp_path / "inner.yml").write_text("pegasus: '5.0'\njobs: [{id: i, name: p}]\n")
    outer = "pegasus: '5.0'\njobs: [{type: pegasusWorkflow, id: s, file: FILE}, {id: a, name: p}]\n"
    edge = "jobDependencies: [{id: s, children: [a]}]\n"
    workflow = read(tmp_path, outer.replace("FILE", "inner.yml") + edge)
    assert [task.id for task in workflow.tasks] == ["s.i", "a"]
    assert workflow.parents == [(), (0,)]
    with pytest.raises(InvalidError, match=r"its document gone\.yml is not there"):
        read(tmp_path, outer.replace("FILE", "gone.yml"))
    with pytest.raises(InvalidError, match="being read already"):
        read(tmp_path, outer.replace("FILE", "workflow.yml"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("jobs:\n- {id: a, name: p}\n- {id: a, name: p}\n", 3, "task id a is used twice"),
        ("jobs:\n- {id: a}\n", 2, "job a without name:"),
        ("jobs:\n- {name: p}\n", 2, "a job without id:"),
        ("jobs: {}\n", 1, "jobs: must be a list"),
        ("jobs:\n- a\n", 2, "a mapping is wanted here"),
        ("jobs: []\n", None, "has no tasks"),
        ("jobs:\n- id: c\n  type: condorWorkflow\n", 3, "DAGMan files are not read"),
        ("jobs:\n- id: a\n  name: p\n  arguments: [[x]]\n", 4, "text is wanted here"),
        ("jobs:\n- id: a\n  name: p\n  uses: [{lfn: x, type: in}]\n", 4, "unknown type in"),
        ("jobs:\n- {id: a, name: p}\njobDependencies:\n- {id: a, children: [b]}\n", 4, "there: b"),
        ("jobs:\n- {id: a, name: p, profiles: {pegasus: {cores: no}}}\n", 2, "pegasus cores"),
        ("pegasus: '5.0'\n", None, "has no tasks"),
        ("sites: {}\n", None, "not a workflow document"),
        ("a report: of many jobs\nthat: [is no YAML\n", None, "Pegasus 5 (YAML)"),
        ("- {jobs: 3}\n", 1, "A Pegasus 5 workflow is a mapping with the keys"),
        ("jobs:\n- {id: a, name: p\n", 3, "not valid YAML"),
        ("replicaCatalog: {$ref: gone.yml}\njobs: []\n", 1, "gone.yml is not there"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_yaml_bomb_and_tags(tmp_path: Path) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(InvalidError):
        read(tmp_path, "\n".join(["pegasus: '5.0'", "a0: &a0 [x]", *levels, "jobs: *a9"]))
    with pytest.raises(InvalidError):
        read(tmp_path, "jobs: !!python/object/apply:os.getcwd []\n")
