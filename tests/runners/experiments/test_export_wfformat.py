"""``wfrun export --format wfformat``: what a run has measured, and what others make of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import wfrun
from tests.places import CORPUS
from tests.runners.harness import Job, User, make_workflow
from wfrun.engine.model import Catalog, File, Resources, SiteSpec, Task, Workflow
from wfrun.engine.settings import Settings
from wfrun.parsers.read import read_workflow
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform

HOSTILE = '"}],\n"x": [{"y": "\x1b]52;c;Zm9v\x07\x9b=cmd()<script>/a b\u202e$'
ONE_SITE = Platform(Catalog((SiteSpec("s", 2),), ()))
DIAMOND = (
    Job("a", "sleep 0.2; echo 12345 > x", [], ["x"]),
    Job("b", "cat x > y", ["x"], ["y"], ["y"]),
    Job("c", "cat x > z", ["x"], ["z"], ["z"]),
    Job("d", "true", [], [], [], Resources(cores=2), ["b"]),
)


def two_slots(user: User) -> Path:
    return user.catalog("sites:\n  there: {slots: 2}\n")


def exported(user: User, run: Path, name: str = "out.json") -> dict[str, Any]:
    done = user.ask("export", run, "--format", "wfformat", "-o", name)
    assert done.status == 0, done.text
    text = (user.folder / name).read_text()
    assert text.isascii()  # shown on a terminal, it has no control sequences
    document: dict[str, Any] = json.loads(text)
    return document


def executed(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {task["id"]: task for task in document["workflow"]["execution"]["tasks"]}


def ends(user: User, run: Path) -> dict[str, dict[str, Any]]:
    """The exit record of the last attempt of each task, by the number of the task."""
    out = user.ask("events", run, "--json", "--kind", "attempt-ended").out
    records = [json.loads(line) for line in out.splitlines()]
    return {record["key"].split(".")[2]: record["outcome"] for record in records}


def shape(workflow: Workflow) -> list[tuple[object, ...]]:
    """Its tasks, what they read and write, and their order."""
    files = workflow.files
    return [
        (t.id, t.name, t.executable, t.arguments, t.resources.cores, workflow.parents[number],
         {files[f].name for f in t.inputs}, {files[f].name for f in t.outputs})
        for number, t in enumerate(workflow.tasks)
    ]  # fmt: skip


def test_a_run_goes_back_into_simulate_and_run(user: User) -> None:
    run = user.folder / "run"
    document = user.write(DIAMOND)
    assert user.wfrun(document, "--run-dir", run, "--sites", two_slots(user)).status == 0
    found = executed(exported(user, run))
    measured = {task: end["ended_s"] - end["started_s"] for task, end in ends(user, run).items()}
    for number, job in enumerate(DIAMOND):
        assert found[job.id]["runtimeInSeconds"] == pytest.approx(measured[str(number)], abs=1e-6)
        assert found[job.id]["machines"] == [ends(user, run)["0"]["host"]]
        assert found[job.id]["memoryInBytes"] > 0
    assert found["a"]["runtimeInSeconds"] >= 0.2
    assert found["d"]["coreCount"] == 2
    read = read_workflow(user.folder / "out.json")
    assert shape(read) == shape(read_workflow(document))
    assert [t.runtime_s for t in read.tasks] == [found[j.id]["runtimeInSeconds"] for j in DIAMOND]
    assert {f.name: f.size_bytes for f in read.files} == {"x": 6, "y": 6, "z": 6}
    assert user.wfrun("out.json", "--run-dir", "again", "--sites", two_slots(user)).status == 0
    assert (user.folder / "again/outputs/y").read_text() == "12345\n"
    simulated = user.ask(
        "simulate",
        "out.json",
        "--sites",
        two_slots(user),
        "--policy",
        "heft",
        "--run-dir",
        "what-if",
    )
    assert simulated.status == 0, simulated.text
    again = executed(exported(user, user.folder / "what-if", "simulated.json"))
    assert again["a"]["runtimeInSeconds"] == pytest.approx(found["a"]["runtimeInSeconds"])
    assert again["a"]["machines"] == ["there"]


@pytest.mark.slow
def test_a_failed_run_has_what_was_done_and_the_commands_of_the_rest(user: User) -> None:
    jobs = [
        Job("a", "echo 1 > x", [], ["x"]),
        Job("b", "exit 3", ["x"], ["y"], ["y"]),
        Job("c", "true", ["y"]),
    ]
    run = user.folder / "run"
    user.write(jobs)
    assert wfrun.run(make_workflow(jobs), run_dir=run, retries=0).outcome == "failed"
    assert (
        user.ask("export", run, "--format", "wfformat", "-o", "out.json").err.count("2 of 3") == 1
    )
    document = json.loads((user.folder / "out.json").read_text())
    assert list(executed(document)) == ["a"]
    assert document["description"].startswith("run run: failed, 1 of 3 tasks done")
    read = read_workflow(user.folder / "out.json")
    assert shape(read) == shape(read_workflow(user.folder / "jobs.dax"))
    assert [t.runtime_s is None for t in read.tasks] == [False, True, True]


def test_a_run_in_which_nothing_is_done_has_a_graph_alone(user: User) -> None:
    run = user.folder / "run"
    jobs = [Job("a", "exit 1")]
    assert wfrun.run(make_workflow(jobs), run_dir=run, retries=0).outcome == "failed"
    assert "execution" not in exported(user, run)["workflow"]
    assert len(read_workflow(user.folder / "out.json").tasks) == 1


def test_each_workflow_of_a_run_is_a_document(user: User) -> None:
    workflows = [
        Workflow(name, f"{name}.dax", [Task(name, "k", "k", runtime_s=1.0)], [], [()])
        for name in ("one", "two/../2")
    ]
    simulate_into(user.folder / "run", workflows, ONE_SITE, Settings("heft"))
    done = user.ask("export", "run", "--format", "wfformat")
    assert done.status == 0, done.text
    folder = user.folder / "run-wfformat"
    assert sorted(p.name for p in folder.iterdir()) == ["1-one.json", "2-two_.._2.json"]
    assert [t.id for t in read_workflow(folder / "1-one.json").tasks] == ["one"]
    taken = user.folder / "taken"
    taken.write_text("mine")
    refused = user.ask("export", "run", "--format", "wfformat", "-o", taken)
    assert refused.status != 0
    assert "has 2 workflows" in refused.err
    assert taken.read_text() == "mine"


def hostile_run(folder: Path) -> Path:
    """A simulated run with names that the format forbids, and that repeat without what is
    forbidden."""
    files = [
        File(HOSTILE, 5), File("a b", 6, producer=0, collect=True),
        File("a_b", 7, producer=1), File("a_b", 8, producer=2),
    ]  # fmt: skip
    tasks = [
        Task(HOSTILE, HOSTILE, HOSTILE, (HOSTILE, "", "-o p"), (0,), (1,), runtime_s=2.0),
        Task("t 1", "k9", "k", (), (1,), (2,), env={"A": HOSTILE}, runtime_s=3.0),
        Task("t_1", "k9", "k", (), (2,), (3,), stdout=3, runtime_s=4.0),
        Task("t#1", "k", "k", resources=Resources(memory_bytes=5), runtime_s=5.0),
    ]
    workflow = Workflow(HOSTILE, HOSTILE, tasks, files, [(), (0,), (1,), (0,)])
    run = folder / "hostile"
    simulate_into(run, [workflow], ONE_SITE, Settings("heft"))
    return run


def test_names_that_the_format_forbids_are_replaced_and_stay_different(user: User) -> None:
    run = hostile_run(user.folder)
    done = user.ask("export", run, "--format", "wfformat", "-o", "out.json")
    assert done.status == 0, done.text
    for loss in (
        "repeat: 2", "repeat: 3", "left out: 1", "streams", "more than cores", "empty argument",
        "space in it",
    ):  # fmt: skip
        assert loss in done.err, done.err
    read = read_workflow(user.folder / "out.json", emulate=True)
    assert read.parents == [(), (0,), (1,), (0,)]
    assert len({t.id for t in read.tasks}) == 4
    assert len({f.name for f in read.files}) == 4
    assert sorted(t.runtime_s or 0 for t in read.tasks) == [2, 3, 4, 5]
    assert [t.name for t in read.tasks[1:]] == ["k9", "k9", "k"]
    assert read.name == HOSTILE
    assert [f.size_bytes for f in sorted(read.files, key=lambda f: f.size_bytes or 0)] == [
        5,
        6,
        7,
        8,
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "the format is not given"),
        (["run", "--format", "cwl"], "'cwl' is not"),
        (["rum", "--format", "wfformat"], "there is no run 'rum'"),
        (["run", "--format", "wfformat", "-o", "absent/x.json"], "cannot be written"),
        (["run", "--format", "wfformat", "-o", "."], "cannot be written"),
        (["foreign", "--format", "wfformat"], "the log of the run cannot be read"),
        (["empty", "--format", "wfformat"], "was never started"),
    ],
)
def test_what_cannot_be_is_refused(user: User, words: Sequence[str], message: str) -> None:
    hostile_run(user.folder).rename(user.folder / "run")
    for name, text in (("foreign", "no database"), ("empty", "")):
        (user.folder / name).mkdir()
        (user.folder / name / "events.sqlite").write_text(text)
    before = set(user.folder.rglob("*"))
    done = user.ask("export", *words)
    assert done.status in (2, 3), done.text
    assert message in done.err
    assert "Traceback" not in done.err
    assert set(user.folder.rglob("*")) == before


@pytest.mark.corpus
def test_documents_are_valid_by_the_schema(user: User) -> None:
    schema = json.loads((CORPUS / "wfformat" / "wfcommons-schema.json").read_text())
    schema.pop("$schema")  # it names no particular draft
    assert (
        user.wfrun(user.write(DIAMOND), "--run-dir", "run", "--sites", two_slots(user)).status == 0
    )
    bag = user.folder / "bag.yaml"
    bag.write_text(
        "command: sh -c 'echo {n} > o{n}; exit {n}'\nparameters: {n: [0, 1]}\noutputs: ['o{n}']\n"
    )
    assert user.wfrun(bag, "--run-dir", "bag", "--retries", "0").status == 1
    for run in (user.folder / "run", user.folder / "bag", hostile_run(user.folder)):
        document = exported(user, run)
        jsonschema.Draft7Validator(schema).validate(document)


def test_run_times_of_sites_of_several_speeds_are_warned_of(user: User) -> None:
    sites = SiteSpec("slow", 1, 0.5), SiteSpec("fast", 1, 2.0)
    tasks = [Task(f"t{n}", "x", "x", runtime_s=10.0) for n in range(4)]
    document = Workflow("w", "w.dax", tasks, [], [()] * 4)
    for name, used in (("one", sites[:1]), ("both", sites)):
        folder = user.folder / name
        simulate_into(folder, [document], Platform(Catalog(used, ())), Settings("round-robin"))
        done = user.ask("export", folder, "--format", "wfformat", "-o", f"{name}.json")
        assert done.status == 0, done.text
        warned = "run times are as measured, at sites of speed 0.5 to 2; `wfrun simulate --from-run"
        assert (warned in done.err) is (name == "both"), done.text
