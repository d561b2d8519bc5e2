"""Tasks that an earlier run did are not run again, and their outputs are taken over."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.runners.harness import Job, make_workflow
from wfrun import Catalog, Resources, SiteSpec, Workflow, write_dax
from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.engine.fitting.containers import Container
from wfrun.runners.api import RunResult, resume
from wfrun.runners.api import run as run_documents
from wfrun.runners.cli.exit_statuses import INVALID
from wfrun.runners.cli.main import cli
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.reuse import identities
from wfrun.runners.run.reuse.identities import Identifier
from wfrun.runners.run.reuse.keys import make_record, task_keys
from wfrun.runners.run.store.checkpoints import read_state

OTHER = 65534
"""The user `nobody`."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with an input."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("hello\n")
    return tmp_path


def jobs(folder: Path, last: str = "cat b") -> list[Job]:
    """in.txt → a → b → c, and in.txt → d; each notes that it has run."""

    def noted(name: str, script: str) -> str:
        return f"echo {name} >> {folder}/ran; {script} > {name}"

    return [
        Job("a", noted("a", "cat in.txt"), ["in.txt"], ["a"]),
        Job("b", noted("b", "cat a a"), ["a"], ["b"]),
        Job("c", noted("c", last), ["b"], ["c"], ["c"]),
        Job("d", noted("d", "wc -c < in.txt"), ["in.txt"], ["d"], ["d"]),
    ]


def do(document: Workflow | Sequence[Job], name: str, **options: object) -> RunResult:
    """Run tasks as the run ``name``."""
    workflow = document if isinstance(document, Workflow) else make_workflow(document)
    return run_documents(workflow, run_dir=f"wfrun-runs/{name}", inputs=".", **options)  # type: ignore[arg-type]


def ran(folder: Path) -> list[str]:
    """The tasks that have run since the last call, sorted."""
    record = folder / "ran"
    names = sorted(record.read_text().split()) if record.exists() else []
    record.unlink(missing_ok=True)
    return names


@pytest.mark.slow
def test_nothing_is_run_twice(folder: Path) -> None:
    do(jobs(folder), "one")
    assert ran(folder) == ["a", "b", "c", "d"]
    for name, choice in (("two", "one"), ("three", "auto"), ("four", "wfrun-runs/two")):
        again = do(jobs(folder), name, reuse=choice)
        assert (again.outcome, again.done, again.reused) == ("done", 4, 4)
        assert ran(folder) == []
        assert (again.outputs / "c").read_text() == "hello\nhello\n"
        assert (again.outputs / "d").read_text() == "6\n"
    assert do(jobs(folder), "five").reused == 0
    assert ran(folder) == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_an_edited_task_and_what_follows(folder: Path) -> None:
    do(jobs(folder), "one", keep="all")
    ran(folder)
    again = do(jobs(folder, last="tac b"), "two", reuse="auto")
    assert ran(folder) == ["c"]
    assert again.reused == 3
    assert stat.S_IMODE(Path("wfrun-runs/two/reused").stat().st_mode) == 0o700
    changed = jobs(folder)
    changed[1] = Job("b", changed[1].script.replace("cat a a", "cat a"), ["a"], ["b"])
    do(changed, "three", reuse="one")
    assert ran(folder) == ["b", "c"]


@pytest.mark.slow
def test_intermediate_files_that_are_gone(folder: Path) -> None:
    """The run was done, and its files removed: what the edited task needs is made again."""
    do(jobs(folder), "one")
    ran(folder)
    again = do(jobs(folder, last="tac b"), "two", reuse="auto")
    assert ran(folder) == ["a", "b", "c"]
    assert again.reused == 1


@pytest.mark.slow
def test_only_what_a_missing_file_needs_is_run_again(folder: Path) -> None:
    do(jobs(folder), "one", keep="all")
    ran(folder)
    (kept,) = (folder / "wfrun-runs/one/sites/local/files").glob("*-b")
    kept.unlink()
    do(jobs(folder, last="tac b"), "two", reuse="one")
    assert ran(folder) == ["b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["removed", "cut", "edited later"])
def test_a_final_output_that_is_not_what_it_was(folder: Path, change: str) -> None:
    first = do(jobs(folder), "one")
    ran(folder)
    output = first.outputs / "d"
    if change == "edited later":
        output.write_text("7\n")
        later_s = time.time() + 3600
        os.utime(output, (later_s, later_s))
    else:
        output.unlink()
        if change == "cut":
            output.write_text("")
    again = do(jobs(folder), "two", reuse="one")
    assert ran(folder) == ["d"]
    assert (again.outputs / "d").read_text() == "6\n"


@pytest.mark.slow
def test_contents_of_inputs_count_and_not_their_times(folder: Path) -> None:
    do(jobs(folder), "one")
    ran(folder)
    os.utime(folder / "in.txt", (1, 1))
    do(jobs(folder), "two", reuse="one")
    assert ran(folder) == []
    (folder / "in.txt").write_text("world\n")
    do(jobs(folder), "three", reuse="two")
    assert ran(folder) == ["a", "b", "c", "d"]


@pytest.mark.slow
@pytest.mark.parametrize("size_bytes", [6, identities.SMALL_BYTES + 1])
def test_an_input_that_was_rewritten_in_place(folder: Path, size_bytes: int) -> None:
    """With the size and the time of modification that it had."""
    path = folder / "in.txt"
    path.write_bytes(b"a" * size_bytes)
    before = path.stat()
    do(jobs(folder), "one")
    ran(folder)
    path.write_bytes(b"b" * size_bytes)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_ino == before.st_ino
    do(jobs(folder), "two", reuse="one")
    assert ran(folder) == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_files_that_have_not_changed_are_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those that were hashed before, nor large ones."""
    (folder / "large").write_bytes(bytes(identities.SMALL_BYTES + 1))
    tasks = [
        *jobs(folder),
        Job("e", f"echo e >> {folder}/ran; cp large e", ["large"], ["e"], ["e"]),
    ]
    do(tasks, "one")
    ran(folder)
    monkeypatch.setattr(identities, "digest_of", lambda path: pytest.fail(f"{path} was read"))
    assert do(tasks, "two", reuse="one").reused == 5


@pytest.mark.slow
def test_the_environment_and_the_program_count(folder: Path) -> None:
    program = folder / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {folder}/ran\necho $WORD > out\n")
    program.chmod(0o755)

    def document(word: str) -> Path:
        path = folder / "w.yaml"
        path.write_text(f"command: ./program\nenv: {{WORD: {word}}}\noutputs: [out]\n")
        return path

    def reused(name: str, word: str = "one") -> int:
        return run_documents(
            document(word), run_dir=f"wfrun-runs/{name}", reuse="auto"
        ).reused  # fmt: skip

    assert [reused("1"), reused("2"), reused("3", "two"), reused("4")] == [0, 1, 0, 1]
    program.write_text(program.read_text() + "# edited\n")
    assert [reused("5"), reused("6")] == [0, 1]


@pytest.mark.slow
def test_a_program_that_is_an_input_of_the_document_counts(folder: Path) -> None:
    program = folder / "program"
    bag = folder / "bag.yaml"
    bag.write_text("command: ./program {i}\nparameters: {i: [1, 2]}\ninputs: [program]\n")

    def write(last: str) -> None:
        program.write_text(f"#!/bin/sh\necho $1 >> {folder}/ran\n{last}\n")
        program.chmod(0o755)

    write("true")
    run_documents(bag, run_dir="wfrun-runs/one")
    assert ran(folder) == ["1", "2"]
    assert run_documents(bag, run_dir="wfrun-runs/two", reuse="one").reused == 2
    assert ran(folder) == []
    write("false || true")
    assert run_documents(bag, run_dir="wfrun-runs/three", reuse="one").reused == 0
    assert ran(folder) == ["1", "2"]


@pytest.mark.slow
def test_equal_tasks_are_not_taken_for_one(folder: Path) -> None:
    """As in a bag of random experiments: the further ones run."""

    def tasks(count: int) -> Workflow:
        script = f"echo x >> {folder}/ran; echo y > out"
        return make_workflow([Job(f"t{i}", script) for i in range(count)])

    do(tasks(3), "one")
    assert len(ran(folder)) == 3
    again = do(tasks(5), "two", reuse="one")
    assert (again.reused, len(ran(folder))) == (3, 2)


@pytest.mark.slow
def test_rows_that_were_added_to_a_table(folder: Path) -> None:
    table = folder / "table.csv"
    command = f"sh -c 'echo {{x}} >> {folder}/ran; echo {{x}} > {{x}}.out'"

    def run(name: str, reuse: str) -> RunResult:
        return run_documents(table, command=command, run_dir=f"wfrun-runs/{name}", reuse=reuse)

    table.write_text("x\n1\n2\n3\n")
    run("one", "none")
    ran(folder)
    table.write_text("x\n0\n1\n2\n3\n")
    assert run("two", "auto").reused == 3
    assert ran(folder) == ["0"]


@pytest.mark.slow
def test_tasks_of_a_run_that_failed(folder: Path) -> None:
    """The usual case: a command was wrong, and the files of the run are still there."""
    first = do(jobs(folder, last="false"), "one", retries=0)
    assert (first.outcome, ran(folder)) == ("failed", ["a", "b", "c", "d"])
    again = do(jobs(folder), "two", reuse="auto")
    assert ran(folder) == ["c"]
    assert (again.outcome, again.reused) == ("done", 3)
    shutil.rmtree(folder / "wfrun-runs/one")
    assert (again.outputs / "d").read_text() == "6\n"
    assert do(jobs(folder), "three", reuse="auto").reused == 4


@pytest.mark.slow
def test_a_run_that_reuses_is_resumed(folder: Path) -> None:
    """Its log alone says what it has taken over, and a file that has gone is made again."""
    do(jobs(folder), "one", keep="all")
    go = folder / "go"
    tasks = jobs(folder, last=f"[ -e {go} ] && tac b")
    assert do(tasks, "two", reuse="one", retries=0).outcome == "failed"
    shutil.rmtree(folder / "wfrun-runs/one")
    ran(folder)
    go.touch()
    done = resume("two")
    assert (done.outcome, done.reused, ran(folder)) == ("done", 3, ["c"])
    state = read_state(RunDir(folder / "wfrun-runs/two"))
    assert (state.ended, state.reused) == ("done", 3)


@pytest.mark.slow
@as_root
def test_a_run_of_another_user_is_not_reused(folder: Path) -> None:
    first = do(jobs(folder), "one")
    ran(folder)
    os.chown(first.directory, OTHER, OTHER)
    with pytest.raises(InvalidError, match="belongs to nobody, not to root"):
        do(jobs(folder), "two", reuse="one")
    assert not (folder / "wfrun-runs/two").exists()
    assert do(jobs(folder), "two", reuse="auto").reused == 0


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "record", "missing"])
def test_a_damaged_log(folder: Path, damage: str) -> None:
    """One message for a named run; ``auto`` passes over it."""
    log = do(jobs(folder), "one").directory / "events.sqlite"
    if damage == "cut":
        log.write_bytes(log.read_bytes()[:5000])
    elif damage == "record":
        with sqlite3.connect(log) as database:
            database.execute("UPDATE records SET body = x'00'")
        database.close()
    else:
        log.unlink()
    with pytest.raises(InvalidError):
        do(jobs(folder), "two", reuse="wfrun-runs/one")
    assert do(jobs(folder), "three", reuse="auto").reused == 0


def wfrun(*words: object) -> tuple[int, str]:
    """A command in this process: its status, and what it prints."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    if isinstance(result.exception, WfrunError):  # ``main`` prints it
        return INVALID, str(result.exception)
    return result.exit_code, result.output


@pytest.mark.slow
def test_a_resume_says_that_the_document_has_changed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And goes on with what the run has read."""

    def write(word: str) -> Path:
        (folder / "w.txt").write_text(f"sh -c 'echo {word} >> ran; [ -e {folder}/go ]'\n")
        return folder / "w.txt"

    first = run_documents(write("a"), run_dir="one", retries=0)
    os.utime(folder / "w.txt", (1, 1))
    assert resume(first.directory).outcome == "failed"
    assert caplog.text == ""
    write("b")
    (folder / "go").touch()
    assert resume(first.directory).outcome == "done"
    assert "w.txt has changed since the run began" in caplog.text
    assert "`wfrun run w.txt --reuse one`" in caplog.text
    caplog.clear()
    assert resume(first.directory).done == 1
    assert "w.txt has changed since the run began. To run what is edited" in caplog.text


@pytest.mark.slow
def test_a_look_before_the_run(folder: Path) -> None:
    document = folder / "w.dax"
    write_dax(make_workflow(jobs(folder)), document)
    assert wfrun("run", document, "--dry-run")[1].startswith("would run 4 of 4 tasks\n")
    assert not (folder / "wfrun-runs").exists()
    run_documents(document, keep="all")
    ran(folder)
    write_dax(make_workflow(jobs(folder, last="tac b")), document)
    status, shown = wfrun("run", document, "--dry-run", "--reuse", "auto")
    assert status == 0
    assert "would run 1 of 4 tasks\n  3 of 4 tasks are reused: 3 of wfrun-runs/" in shown
    assert "1 × has another command, first: c" in shown
    assert ran(folder) == []
    second = run_documents(document, reuse="auto")
    assert (second.reused, ran(folder)) == (3, ["c"])
    assert "3 of 4 reused" in wfrun("status", "last")[1]
    assert "whose outputs are reused: `wfrun logs " in wfrun("logs", "last", "a")[1]
    (folder / "in.txt").write_text("other\n")
    shown = wfrun("run", document, "--dry-run", "--reuse", "last")[1]
    assert "2 × has another content of in.txt, first: a" in shown
    assert "2 × follows a task that changed or was not done, first: b" in shown
    (folder / "in.txt").unlink()
    status, shown = wfrun("run", document, "--dry-run")
    assert (status, "the input file 'in.txt' is missing" in shown) == (2, True)


@pytest.mark.slow
def test_a_look_says_what_is_gone(folder: Path) -> None:
    document = folder / "w.dax"
    write_dax(make_workflow(jobs(folder)), document)
    run_documents(document)
    write_dax(make_workflow(jobs(folder, last="tac b")), document)
    shown = wfrun("run", document, "--dry-run", "--reuse", "last")[1]
    assert "would run 3 of 4 tasks" in shown
    assert "2 of the tasks that were done run again, because files of theirs are gone" in shown
    assert "2 × was done, but its output is gone, first: a" in shown


def test_a_look_at_the_sites(folder: Path) -> None:
    """A site that cannot be used is found without a run."""
    document = folder / "w.dax"
    write_dax(make_workflow(jobs(folder)), document)
    sites = folder / "sites.yaml"
    sites.write_text(
        "sites:\n  here: {slots: 1}\n  far: {kind: ssh, host: 127.0.0.1, port: 1, slots: 1}\n"
    )
    assert wfrun("run", document, "--sites", sites, "--dry-run")[0] == 0
    status, shown = wfrun("run", document, "--sites", sites, "--dry-run", "--connect")
    assert status == 3
    assert re.search("far +FAILED +connection", shown)
    assert re.search("here +ok +limits", shown)
    assert not (folder / "wfrun-runs").exists()
    sites.write_text("sites:\n  here: {slots: 1}\n")
    assert wfrun("run", document, "--sites", sites, "--dry-run", "--connect")[0] == 0
    status, shown = wfrun("run", document, "--connect")
    assert (status, "without --dry-run" in shown) == (2, True)


def test_the_container_counts(folder: Path) -> None:
    """And its program is that of its image, not that of this machine."""

    def key(image: str | None) -> bytes:
        container = None if image is None else Container(image)
        asked = Resources(container=container)
        workflow = make_workflow([Job("a", "true", resources=asked)])
        record = make_record([workflow], Catalog((SiteSpec("here", 1),)), Identifier())
        assert bool(record.programs) is (image is None)
        return task_keys(workflow, record, Identifier())[0]

    keys = [key(image) for image in (None, "docker://a:1", "docker://a:2", "docker://a:1")]
    assert keys[1] == keys[3]
    assert len(set(keys)) == 3
