"""No document writes beside the outputs of its run on the machine of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.harness import User
from wfrun import File, Task, Workflow
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.model import SiteSpec
from wfrun.runners.run.directory.new_run import NewRun
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.requests import AttemptRequests


def twins(*names: tuple[str, str]) -> Workflow:
    """A workflow whose tasks, given by id, each write the file of a name as a final output."""
    tasks = [Task(task, "x", "true", outputs=(n,)) for n, (task, _) in enumerate(names)]
    files = [File(name, 1, producer=n, collect=True) for n, (_, name) in enumerate(names)]
    return Workflow("w", "w.dax", tasks, files, [()] * len(names))


def output_paths(workflow: Workflow) -> list[str]:
    core = Core({"d": workflow})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (SiteSpec("s", 1),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    run = RunDir(Path("/run"))
    requests = AttemptRequests(core.state, run, [SiteSpec("s", 1)])
    paths = [requests.output_path(0, file) for file in range(len(workflow.files))]
    return [str(path.relative_to(run.outputs)) for path in paths]


def test_a_further_output_of_a_name_gets_the_id_of_its_task() -> None:
    assert output_paths(twins(("a", "f"), ("b", "f"), ("c", "d/g"), ("d", "d/g"))) == [
        "f", "f.b", "d/g", "d/g.d",
    ]  # fmt: skip


def test_an_id_is_no_path() -> None:
    found = output_paths(twins(("a", "f"), ("/../../victim", "f"), ("..", "f"), ("../v", "f")))
    assert found == ["f", "f._.._.._victim", "f...", "f..._v"]


def test_names_of_further_outputs_are_free() -> None:
    """They are not those of outputs that follow, nor of their folders, nor of each other."""
    several = [(task, "f") for task in ("a", "b", "d/", "d:", "e")]
    found = output_paths(twins(*several, ("x", "f.b"), ("y", "f.e/g")))
    assert found == ["f", "f.b.2", "f.d_", "f.d_.2", "f.e.2", "f.b", "f.e/g"]


@pytest.mark.parametrize("letter", ["x", "ö"])
def test_long_names_of_further_outputs_can_be_written(tmp_path: Path, letter: str) -> None:
    name = letter * (250 // len(letter.encode()))
    found = output_paths(twins(("a", name), ("b" * 250, name), ("b" * 251, name)))
    assert len(set(found)) == 3
    for each in found:
        (tmp_path / each).touch()


VICTIM = """<adag name="x">
<job id="a" name="true"><uses file="f" link="output" size="1"/></job>
<job id="{id}" name="true"><uses file="f" link="output" size="1"/></job>
</adag>"""


def test_an_emulated_document_replaces_no_file_of_the_user(user: User) -> None:
    victim = user.folder / "somewhere" / "victim.txt"
    victim.parent.mkdir()
    victim.write_text("mine")
    path = user.folder / "x.dax"
    path.write_text(VICTIM.format(id="/../../../../somewhere/victim.txt"))
    user.wfrun("x.dax", "--emulate", "--run-dir", "d/run")
    assert victim.read_text() == "mine"
    assert [p.name for p in victim.parent.iterdir()] == ["victim.txt"]


def test_long_and_odd_names_of_workflows_name_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("n" * 300, "../../x", "/etc/x", "..", "\x1b[2J", "a" * 100 + "/../"):
        run = NewRun(None, name).run
        assert run.path.resolve().parent == tmp_path / "wfrun-runs"
        assert len(run.name) < 120
