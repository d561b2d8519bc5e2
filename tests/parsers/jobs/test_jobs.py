"""Documents of parallel jobs: what they mean, and what is refused, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.components import Component, Components
from wfrun.engine.model import Resources, Workflow
from wfrun.parsers.jobs.build import make_jobs
from wfrun.parsers.read import read_document

DOCUMENT = """\
owner: ann
walltime: 10 min
inputs: [mesh.dat]
jobs:
  - job: rigid
    command: mpirun -np {size} ./solver -n {nodes}x{ppn} {job}
    size: 16
    ppn: 8
    memory: 2 GiB
    inputs: [mesh.dat, {name: solver, from: bin/solver, executable: true}]
    outputs: [field.dat, {name: log, to: logs/solver}]
    stdout: trace
  - {job: small, command: "./solver", owner: bob, runtime: 90 s}
  - job: law
    command: ./solver {size}
    size: {min: 2, max: 12}
    ppn: 4
    walltime: {serial_s: 1000, parallel: 0.8, limit: 4}
  - {job: table, command: "./solver", walltime: {2: 60, 1: 100}}
"""


def made(tmp_path: Path, text: str) -> list[Workflow]:
    document = tmp_path / "jobs.yaml"
    document.write_text(text)
    return [each.workflow for each in read_document(document)]


def test_jobs_are_tasks_of_a_workflow_for_each_owner(tmp_path: Path) -> None:
    ann, bob = made(tmp_path, DOCUMENT)
    assert (ann.name, ann.owner, bob.name, bob.owner) == ("jobs-ann", "ann", "jobs-bob", "bob")
    rigid, law, table = ann.tasks
    assert (rigid.executable, *rigid.arguments) == (
        "mpirun", "-np", "16", "./solver", "-n", "2x8", "rigid",
    )  # fmt: skip
    assert rigid.resources == Resources(
        16, memory_bytes=2 * 2**30, walltime_s=600, nodes=2, parallel=True
    )
    inputs = [ann.files[f] for f in rigid.inputs]
    assert [(f.name, f.url, f.executable) for f in inputs] == [
        ("mesh.dat", None, False), ("solver", "bin/solver", True),
    ]  # fmt: skip
    assert [ann.files[f].url for f in rigid.outputs] == [
        "rigid/field.dat", "rigid/logs/solver", "rigid/trace",
    ]  # fmt: skip
    assert rigid.inputs[0] == law.inputs[0]
    assert rigid.runtime_s == 600
    (small,) = bob.tasks
    assert small.resources == Resources(1, walltime_s=600, parallel=True)
    assert small.runtime_s == 90
    moldable = ann.moldable[1]
    assert moldable.sizes == (2, 3, 4, 8, 12)
    assert moldable.walltimes_s == pytest.approx((600, 1000 * (0.2 + 0.8 / 3), 400, 400, 400))
    assert law.arguments == ("{size}",)
    assert ann.moldable[2].sizes == (1, 2)
    assert ann.moldable[2].walltimes_s == (100.0, 60.0)
    assert table.resources.walltime_s == 100


def test_lines_of_jobs_are_kept_for_messages(tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text(DOCUMENT)
    assert [lines for _, lines in make_jobs(document)] == [
        {"rigid": 5, "law": 14, "table": 19}, {"small": 13},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("size: 4", "has no command"),
        ("command: a, size: {min: 8, max: 4}", "size of the job 'x': the range from 8 to 4"),
        ("command: a, size: []", "the list is empty"),
        ("command: a, size: 0", "it must be above 0"),
        ("command: a, size: {min: 2}", "its key 'max' is missing"),
        ("command: a, size: {min: 2, mux: 3}", "it has no key 'mux'"),
        ("command: a, size: 6, ppn: 4", "cannot be spread over nodes with 4 processors each"),
        ("command: a, size: {min: 5, max: 7}, ppn: 4, walltime: 9", "cannot be spread"),
        ("command: a, size: [1, 2]", "several sizes and no walltime"),
        ("command: a, size: [1, 2], walltime: 9", "several sizes and one walltime for all"),
        ("command: a, walltime: {1: 60, 2: 61}", "61 s with 2 processors is longer than 60 s"),
        ("command: a, walltime: {1: 60, 2: soon}", "with 2 processors 'soon'"),
        ("command: a, walltime: {1: 60}, size: 3", "has the size 3, and the table"),
        ("command: a, walltime: {}", "the table is empty"),
        ("command: a, walltime: {1: 60, 2: 50, '2': 40}", "the size 2 has two durations"),
        ("command: a, walltime: {1: soon}", "with 1 processor 'soon'"),
        ("command: a, walltime: 10, runtime: 11", "a runtime of 11 s, which is longer than its"),
        ("command: a, walltime: {1: 9, 2: 8}, runtime: 9.5", "of the smallest size, 9 s"),
        ("command: a, walltime: {serial_s: 9}", "its key 'parallel' is missing"),
        ("command: a, walltime: {serial_s: 9, parallel: 2}", "parallel: it must be from 0 to 1"),
        ("command: a, walltime: {serial_s: 9, parallel: 1, limits: 2}", "no key 'limits'"),
        ("command: 'a {seed}'", "names {seed}, which is none of {size}"),
        ("command: 'a {size'", "are not paired"),
        ("command: a, cores: 4", "has no key 'cores'"),
        ("command: a, outputs: [../b]", "is not a path in the task's directory"),
        ("command: a, inputs: [b], outputs: [b]", "has two files 'b'"),
        ("command: a, outputs: [{name: b, to: c}, {name: d, to: c/e}]", "cannot be kept as 'c'"),
        ("command: a, env: {'1': b}", "env of the job 'x'"),
        ("command: a, size: 4, walltime: 9, malleable: true", "is malleable and has the size 4"),
        ("command: a, malleable: 2", "malleable of the job 'x': it must be true or false"),
        ("command: a, components: 8", "components of the job 'x': it must be a list of sizes"),
        ("command: a, components: []", "the list is empty"),
        ("command: a, components: [[8], []]", "a split is empty"),
        ("command: a, components: [[8], 8]", "in a list of splits each is a list of components"),
        ("command: a, components: [8, 0]", "the size of a component: it must be above 0"),
        ("command: a, components: [8, eight]", "it must be a whole number, not 'eight'"),
        ("command: a, components: [8, 8], size: 24", "8 + 8 are 16 processors in all; the size of "
         "the job is 24"),
        ("command: a, components: [[8, 8], [4, 4, 4]]", "4 + 4 + 4 are 12 processors in all; 8 + 8 "
         "are 16"),
        ("command: a, components: [8, {site: b, size: 8}]", "some components have a site and some"),
        ("command: a, components: [{size: 8}]", "a component has no 'site'"),
        ("command: a, components: [{site: b, sise: 8}]", "a component has no key 'sise'"),
        ("command: a, components: [6], ppn: 4", "of 6 processors cannot be spread over nodes with "
         "4"),
        ("command: a, components: {most: 3}", "the job needs a 'size'"),
        ("command: a, components: {most: 0}, size: 8", "most: it must be above 0"),
        ("command: a, components: {least: 9}, size: 8", "components of at least 9 processors"),
        ("command: a, components: {best: 3}, size: 8", "it has no key 'best'"),
        ("command: a, components: {}, size: 9, ppn: 2", "9 processors cannot be divided over"),
        ("command: a, components: {}, size: [2, 4]", "has components and the size 2 to 4"),
        ("command: 'a {nodes}', components: [8, 8]", "{nodes}, which is none of {size}, {job}"),
    ],
)  # fmt: skip
def test_a_job_that_is_wrong_is_refused_with_its_line(
    entry: str, message: str, tmp_path: Path
) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text(f"jobs:\n  - {{job: w, command: a}}\n  - {{job: x, {entry}}}\n")
    with pytest.raises(InvalidError) as raised:
        make_jobs(document)
    assert message in str(raised.value)
    assert raised.value.line == 3
    assert len(str(raised.value).splitlines()) <= 2


def test_malleable_jobs_are_those_with_several_sizes(tmp_path: Path) -> None:
    (workflow,) = made(
        tmp_path,
        "malleable: true\ncommand: a\njobs:\n  - {walltime: {2: 9, 4: 8}}\n  - {size: 2}\n"
        "  - {walltime: {2: 9, 4: 8}, malleable: false}\n",
    )
    assert {n: each.malleable for n, each in workflow.moldable.items()} == {0: True, 2: False}


@pytest.mark.parametrize(
    ("entry", "components"),
    [
        (
            "components: [{site: alpha, size: 8}, {site: beta, size: 4}]",
            Components(12, ((Component(8, "alpha"), Component(4, "beta")),)),
        ),
        ("components: [8, 8]", Components(16, ((Component(8), Component(8)),))),
        (
            "size: 12, components: [[12], [6, 6]], ppn: 2",
            Components(12, ((Component(12),), (Component(6), Component(6))), ppn=2),
        ),
        ("size: 24, components: {most: 3, least: 3}, ppn: 2", Components(24, (), 3, 4, 2)),
        ("size: 24, components: {}", Components(24)),
    ],
)
def test_components_are_fixed_non_fixed_or_flexible(
    entry: str, components: Components, tmp_path: Path
) -> None:
    """A divided job requests the processor of the process that starts the others."""
    text = f"walltime: {{12: 90, 16: 80, 24: 60}}\njobs: [{{command: 'a {{size}}', {entry}}}]\n"
    (jobs,) = made(tmp_path, text)
    assert jobs.components == {0: components}
    (task,) = jobs.tasks
    walltime_s = {12: 90, 16: 80, 24: 60}[components.size]
    assert task.resources == Resources(1, walltime_s=walltime_s, parallel=True)
    assert task.arguments == (str(components.size),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "not a document of jobs"),
        ("job: a\n", "has no key 'job'"),
        ("owner: a\n", "has no list of jobs"),
        ("jobs: []\n", "there are no jobs"),
        ("jobs: {}\n", "must be a list of jobs"),
        ("jobs: [{job: a, command: b}, {job: a, command: b}]\n", "'a' stands here again"),
        ("jobs: [{job: a/b, command: b}]\n", "it cannot be the name of a job"),
        ("jobs: [{job: .., command: b}]\n", "leads out of the folder of the outputs"),
    ],
)
def test_a_document_that_is_wrong_is_refused(text: str, message: str, tmp_path: Path) -> None:
    document = tmp_path / "jobs.yaml"
    document.write_text(text)
    with pytest.raises(InvalidError, match=message):
        make_jobs(document)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("container: a.sif\njobs: [{job: a, command: x, walltime: 60}]\n", 1),
        ("walltime: 60\njobs:\n  - {job: a, command: x}\n  - job: b\n    container: a.sif\n", 5),
    ],
)
def test_a_container_is_refused_with_its_line_and_what_to_do(
    text: str, line: int, tmp_path: Path
) -> None:
    with pytest.raises(InvalidError, match="parallel jobs run in no container") as raised:
        made(tmp_path, text)
    assert raised.value.line == line
    assert "mpirun apptainer exec" in (raised.value.hint or "")
