"""``wfrun files`` and ``wfrun clean``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.runners.harness import Job, User, lines_of, wait_until
from wfrun.engine.capabilities.storing.cleanup import BATCH_BYTES

SIZE = BATCH_BYTES + 1


def found(user: User, *words: str | Path) -> dict[str, Any]:
    document = json.loads(user.ask("files", *words, "--json").out)
    return {one["name"]: one for one in document["files"]}


def test_where_files_are_and_why(user: User) -> None:
    run = user.folder / "run"
    plain = [
        Job("a", f"truncate -s {SIZE} a", [], ["a"], []),
        Job("b", "cp a b", ["a"], ["b"], []),
        Job("c", f"echo c >> {user.folder}/go.c; while ! [ -e {user.folder}/go ]; "
            "do sleep 0.1; done; echo > c", ["b"], ["c"], ["c"]),
    ]  # fmt: skip
    engine = user.start(user.write(plain), "--run-dir", run, "--checksums", "off")
    assert wait_until(lambda: len(lines_of(user.folder / "go.c")) == 1)
    assert wait_until(lambda: "a" not in found(user, run))
    there = found(user, run)
    assert set(there) == {"b"}
    assert there["b"]["why"] == "read by c"
    assert there["b"]["size_bytes"] == SIZE
    (place,) = there["b"]["places"]
    assert place["place"] == "local"
    assert place["since_s"] > 1e9
    everything = found(user, run, "--all")
    assert everything["a"]["why"] == "removed: nothing needs it"
    assert everything["c"]["why"] == "not written yet by c"
    assert not found(user, run, "--name", "x*")
    assert "read by c" in user.ask("files", run).out
    assert user.ask("files", run, "--site", "beta").status == 2
    (user.folder / "go").touch()
    assert engine.done().status == 0
    assert found(user, run, "--all")["c"]["why"] == "final output"
    assert not found(user, run)


def test_names_are_escaped(user: User) -> None:
    """A name with a character that changes the direction of text does not reach the terminal."""
    run = user.folder / "run"
    name = "a\u202eb"
    job = Job("t", f"printf x > {name}", [], [name], [name])
    done = user.wfrun(user.write([job]), "--run-dir", run, "--keep", "all")
    assert done.status == 0, done.text
    shown = user.ask("files", run).out
    assert "\u202e" not in shown
    assert "a\\u202eb" in shown


@pytest.mark.parametrize("keep_outputs", [pytest.param(False, marks=pytest.mark.slow), True])
def test_clean_removes_a_run(user: User, keep_outputs: bool) -> None:
    run, sites = user.folder / "run", user.folder / "scratch"
    sites.mkdir()
    catalog = user.catalog(f"sites:\n  alpha: {{slots: 1, directory: {sites}}}\n")
    job = Job("t", "echo x > t", [], ["t"], ["t"])
    words = ("--sites", catalog, "--run-dir", run, "--keep", "all")
    done = user.wfrun(user.write([job]), *words)
    assert done.status == 0, done.text
    assert list(sites.iterdir())
    for shared in ("images", "wfrun-other-5ec2e7", "scans"):  # of all runs, of another, of the user
        (sites / shared).mkdir()
        (sites / shared / "kept").touch()
    refused = user.wfrun("clean", run)
    assert refused.status == 2
    assert "--yes" in refused.text
    cleaned = user.wfrun("clean", run, "--yes", *(["--keep-outputs"] if keep_outputs else []))
    assert cleaned.status == 0, cleaned.text
    assert len(list(sites.iterdir())) == len(list(sites.glob("*/kept"))) == 3
    if keep_outputs:
        assert [path.name for path in run.iterdir()] == ["outputs"]
    else:
        assert not run.exists()


@pytest.mark.slow
def test_clean_ends_what_a_dead_engine_left(user: User) -> None:
    """It is refused while the run is driven; then the running task is ended."""
    run, sites, record = user.folder / "run", user.folder / "scratch", user.folder / "record"
    sites.mkdir()
    catalog = user.catalog(f"sites:\n  alpha: {{slots: 1, directory: {sites}}}\n")
    job = Job("t", f"echo $$ >> {record}; sleep 1000", [], [], [])
    engine = user.start(user.write([job]), "--sites", catalog, "--run-dir", run)
    assert wait_until(lambda: len(lines_of(record)) == 1)
    refused = user.wfrun("clean", run, "--yes")
    assert refused.status == 2
    assert "is running" in refused.text
    engine.kill()
    cleaned = user.wfrun("clean", run, "--yes")
    assert cleaned.status == 0, cleaned.text
    assert not Path(f"/proc/{lines_of(record)[0]}").exists()
    assert not list(sites.iterdir())
    assert not run.exists()


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True], ids=["running", "ended"])
def test_clean_leaves_no_launcher(user: User, ends: bool) -> None:
    """Its task runs, or has ended when no engine was there to see it."""
    run, sites, record = user.folder / "run", user.folder / "scratch", user.folder / "record"
    sites.mkdir()
    catalog = user.catalog(f"sites:\n  alpha: {{slots: 1, directory: {sites}}}\n")
    go = user.folder / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.1; done; echo x > t; echo b >> {record}"
    job = Job("t", f"echo a >> {record}; {wait}", [], ["t"], ["t"])
    engine = user.start(user.write([job]), "--sites", catalog, "--run-dir", run)
    assert wait_until(lambda: len(lines_of(record)) == 1)
    engine.kill()
    if ends:
        go.touch()
        assert wait_until(lambda: len(lines_of(record)) == 2)
    cleaned = user.wfrun("clean", run, "--yes")
    assert cleaned.status == 0, cleaned.text
    assert user.is_alone()
    assert not list(sites.iterdir())
    assert not run.exists()


def test_clean_follows_no_link(user: User) -> None:
    """The directory of the run at the site was replaced by a link to precious files."""
    run, sites, precious = user.folder / "run", user.folder / "scratch", user.folder / "precious"
    sites.mkdir()
    precious.mkdir()
    (precious / "thesis").touch()
    catalog = user.catalog(f"sites:\n  alpha: {{slots: 1, directory: {sites}}}\n")
    job = Job("t", "echo x > t", [], ["t"], ["t"])
    assert user.wfrun(user.write([job]), "--sites", catalog, "--run-dir", run).status == 0
    (own,) = sites.iterdir()
    moved = own.rename(user.folder / "moved")
    own.symlink_to(precious)
    refused = user.wfrun("clean", run, "--yes")
    assert refused.status == 3
    assert f"{own} is left there" in refused.text
    assert (precious / "thesis").exists()
    assert (run / "outputs" / "t").exists()
    own.unlink()
    moved.rename(own)
    assert user.wfrun("clean", run, "--yes").status == 0
    assert not run.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_clean_removes_no_directory_of_another_user(user: User) -> None:
    """It has the name of the run's, whose jobs have shown it."""
    run, sites = user.folder / "run", user.folder / "scratch"
    sites.mkdir()
    catalog = user.catalog(f"sites:\n  alpha: {{slots: 1, directory: {sites}}}\n")
    job = Job("t", "echo x > t", [], ["t"], ["t"])
    assert user.wfrun(user.write([job]), "--sites", catalog, "--run-dir", run).status == 0
    (own,) = sites.iterdir()
    os.chown(own, 65534, 65534)
    refused = user.wfrun("clean", run, "--yes")
    assert refused.status == 3
    assert f"{own} is left there" in refused.text
    assert list(own.iterdir())
    assert run.exists()
