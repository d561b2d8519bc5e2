"""The index of a user's runs: they are found from any folder, and nothing depends on the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.runners.cli.test_completion import offered
from tests.runners.harness import Job, User, assert_refused
from wfrun.runners.run.directory import run_index
from wfrun.runners.run.directory.run_directory import existing
from wfrun.runners.run.directory.run_index import add_run, indexed
from wfrun.runners.run.history.history_file import state_directory


@pytest.fixture
def elsewhere(user: User) -> User:
    """A user with an older run in wfrun-runs, and the latest in a directory beside it, of which the
    task has failed."""
    document = user.write([Job("a", f"[ -e {user.folder}/go ]")])
    for words in ((), ("--run-dir", "rr")):
        assert user.wfrun(document, *words, "--retries", "0", "--quiet").status == 1
    return user


def test_the_last_run_is_the_last_anywhere(
    elsewhere: User, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rr = elsewhere.folder / "rr"
    for folder in (elsewhere.folder, tmp_path_factory.mktemp("other")):
        there = User(folder)
        for words in (["status"], ["status", "last"], ["failures"]):
            assert f"run {rr}" in there.ask(*words).out, words
        listed = json.loads(there.ask("list", "--all", "--json").out)
        assert [Path(run["path"]).name for run in listed] == ["jobs-1", "rr"]
        assert str(rr) in there.ask("list", "--all").out
    assert "`wfrun list --all` lists your runs in other folders: 2" in there.ask("list").out
    assert_refused(there.ask("cancel"), 2, ["the run rr is not running"])
    assert_refused(there.ask("status", "no-such"), 2, ["the latest runs: jobs-1, rr"])
    assert f"run {rr}" in there.ask("status", "rr").out
    (elsewhere.folder / "go").touch()
    done = there.wfrun("resume")
    assert done.status == 0, done.text
    assert f"run {rr}" in done.text
    assert "1 of 1 tasks are reused" in elsewhere.ask(
        "run", "jobs.dax", "--reuse", "auto", "--dry-run"
    ).out  # fmt: skip


def test_names_of_runs_elsewhere_are_completed(
    elsewhere: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(elsewhere.folder)
    assert offered("wfrun status ") == ["rr", "jobs-1", "last"]
    (tmp_path / "other").mkdir()
    there = User(tmp_path / "other")
    elsewhere.wfrun("jobs.dax", "--run-dir", "more/rr", "--retries", "0", "--quiet")
    paths = [str(elsewhere.folder / name) for name in ("more/rr", "rr")]
    monkeypatch.chdir(there.folder)
    assert offered("wfrun status ") == [*paths, "jobs-1", "last"]
    assert_refused(there.ask("status", "rr"), 2, ["several runs have the name 'rr'", *paths])


def test_a_damaged_or_lost_index_heals(elsewhere: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(elsewhere.folder)
    file = state_directory() / "runs"
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open("ab") as stream:
        stream.write(b"\0\xff\n\n/no/such/run\n/cut off")
    assert [run.name for run in existing()] == ["jobs-1", "rr"]
    file.unlink()
    assert [run.name for run in existing()] == ["jobs-1"]
    (elsewhere.folder / "rr").rename(elsewhere.folder / "moved")
    assert elsewhere.wfrun("resume", "moved", "--quiet").status == 1
    assert [run.name for run in existing()] == ["jobs-1", "moved"]


def test_the_index_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "MAX_RUNS", 4)
    runs = [tmp_path / f"run-{number}" for number in range(7)]
    for run in runs[:6]:
        run.mkdir()
        add_run(run)
        add_run(run)
    assert indexed() == runs[2:6]
    runs[3].rmdir()
    runs[6].mkdir()
    add_run(runs[6])
    assert indexed() == runs[4:7]
    assert (state_directory() / "runs").stat().st_mode & 0o777 == 0o600


@pytest.mark.cases
@pytest.mark.parametrize("what", ["writable", "link", "folder", "owner"])
def test_an_index_of_others_is_not_used(elsewhere: User, what: str) -> None:
    file = state_directory() / "runs"
    before = file.read_bytes()
    if what == "writable":
        file.chmod(0o620)
    elif what == "owner":
        if os.geteuid():
            pytest.skip("needs two users")
        os.chown(file, 65534, 65534)
    else:
        file.rename(file.with_name("others"))
        file.mkdir() if what == "folder" else file.symlink_to("others")
    asked = elsewhere.wfrun("status")
    assert "run wfrun-runs/jobs-1" in asked.out, asked.text
    run = elsewhere.wfrun("jobs.dax", "--run-dir", "new", "--retries", "0", "--quiet")
    assert run.status == 1
    if what in ("writable", "owner"):
        assert "the index of runs is not used" in asked.err
        assert file.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_directory_of_another_user_in_the_index(elsewhere: User) -> None:
    os.chown(elsewhere.folder / "rr", 65534, 65534)
    assert "run wfrun-runs/jobs-1" in elsewhere.ask("status").out
    assert_refused(elsewhere.ask("cancel", "rr"), 2, ["belongs to nobody"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_log_of_another_user_in_the_index(elsewhere: User) -> None:
    os.chown(elsewhere.folder / "rr" / "events.sqlite", 65534, 65534)
    assert_refused(elsewhere.wfrun("resume"), 2, ["belongs to nobody"])
