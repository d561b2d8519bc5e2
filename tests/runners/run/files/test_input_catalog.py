"""Runs with an input catalog: files of this machine, of sites, and at URLs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import Done, Job, User
from tests.servers.web import DATA, Web

SITES = """\
sites:
  alpha: {kind: local, slots: 2}
  beta: {kind: local, slots: 2}
"""


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.end()


def run(
    user: User, catalog: str, *words: str, script: str = "cp data copy", starts: bool = True
) -> Done:
    """Run a task that reads ``data``. Not ``starts``: the run is refused."""
    (user.folder / "rc.txt").write_text(catalog)
    document = user.write([Job("one", script, inputs=["data"], outputs=["copy"], collect=["copy"])])
    return (user.wfrun if starts else user.ask)(
        "run", document, "--sites", user.catalog(SITES), "--input-catalog", "rc.txt",
        "--run-dir", "r", "--retry-delay", "0", *words,
    )  # fmt: skip


def result(user: User) -> bytes:
    return (user.folder / "r/outputs/copy").read_bytes()


def test_the_users_catalog_replaces_places_of_the_document(user: User) -> None:
    (user.folder / "data").write_bytes(b"beside the document")
    (user.folder / "elsewhere").write_bytes(b"elsewhere")
    stated = hashlib.sha256(b"elsewhere").hexdigest()
    line = f'data file://{user.folder}/elsewhere site="local" checksum.value={stated}\n'
    done = run(user, line, "--quiet")
    assert done.status == 0, done.err
    assert result(user) == b"elsewhere"


def test_a_bad_line_is_refused_before_anything_starts(user: User) -> None:
    done = run(user, "# mine\ndata data\n", starts=False)
    assert done.status == 2
    assert "rc.txt:2: 'data' is not an absolute path" in done.err
    assert not (user.folder / "r").exists()


def test_a_document_cannot_name_a_path_with_a_line_break_at_a_site(user: User) -> None:
    document = user.folder / "hostile.yml"
    document.write_text(
        """\
pegasus: "5.0"
replicaCatalog: {replicas: [{lfn: data, pfns: [{pfn: "file:///a%0arm", site: alpha}]}]}
jobs: [{id: one, name: cat, type: job, uses: [{lfn: data, type: input}]}]
"""
    )
    done = user.ask("run", document, "--sites", user.catalog(SITES))
    assert done.status == 2
    assert "'data' is at '/a\\nrm' of site alpha, which has control characters" in done.err


def test_a_run_of_bags_alone_has_no_use_for_a_catalog(user: User) -> None:
    (user.folder / "rc.txt").write_text("data /data\n")
    (user.folder / "bag.yaml").write_text("command: echo {n}\nparameters: {n: [1, 2]}\n")
    done = user.ask("run", "bag.yaml", "--input-catalog", "rc.txt")
    assert done.status == 2
    assert "--input-catalog has no effect: bags name the paths of their inputs" in done.err


def test_hosts_of_all_inputs_are_named_at_once(user: User) -> None:
    (user.folder / "rc.txt").write_text("a http://one.example/a?key=hidden\nb sftp://two.example/b")
    jobs = [Job("one", "cat a b > c", inputs=["a", "b"], outputs=["c"], collect=["c"])]
    done = user.ask("run", user.write(jobs), "--input-catalog", "rc.txt")
    assert done.status == 2
    assert "the input file 'a' is at http://one.example/a, from where it is not fetched" in done.err
    assert "also: b" in done.err
    assert "--allow-urls one.example,two.example fetches it" in done.err
    assert "hidden" not in done.err


def test_another_place_is_taken_where_one_fails(user: User, web: Web) -> None:
    catalog = f"data {web.url}/absent\ndata {web.url}/data\n"
    done = run(user, catalog, "--allow-urls", "127.0.0.1")
    assert done.status == 0, done.err
    assert result(user) == DATA
    assert web.asked == ["/absent", "/data"]
    assert done.out.count(f"inputs at {web.url} come from other places") == 1  # in the report
    assert "answered 404" in done.out


def test_a_file_that_a_site_has_is_copied_from_there_and_stays(user: User) -> None:
    folder = user.folder / "at alpha"
    folder.mkdir()
    original = folder / "data"
    original.write_bytes(b"of alpha")
    before = original.stat()
    script = "chmod +w data; echo more >> data; cp data copy"
    done = run(user, f'data "{original}" site="alpha"\n', "--json", script=script)
    assert done.status == 0, done.err
    assert result(user) == b"of alphamore\n"
    after = original.stat()
    assert original.read_bytes() == b"of alpha"
    assert (after.st_mode, after.st_mtime_ns, after.st_ino, after.st_nlink) == (
        before.st_mode, before.st_mtime_ns, before.st_ino, before.st_nlink,
    )  # fmt: skip
    assert '"source":0' in done.out.replace(" ", "")
    assert user.wfrun("clean", "r", "--yes").status == 0
    assert original.read_bytes() == b"of alpha"


def test_a_file_that_a_site_should_have_is_taken_from_elsewhere(user: User, web: Web) -> None:
    catalog = f"data {user.folder}/absent site=alpha\ndata {web.url}/data\n"
    done = run(user, catalog, "--allow-urls", "127.0.0.1")
    assert done.status == 0, done.err
    assert result(user) == DATA
    assert "alpha: inputs are copied from elsewhere, because 'data' is not" in done.text


@pytest.mark.slow
def test_a_file_that_is_at_no_place_fails_its_task(user: User) -> None:
    done = run(user, f"data {user.folder}/absent site=alpha\n", "--retries", "0")
    assert done.status == 1
    assert "input 'data' did not arrive" in done.text
    assert f"{user.folder}/absent" in done.text


@pytest.mark.parametrize("where", ["local", pytest.param("alpha", marks=pytest.mark.slow)])
def test_a_wrong_checksum_fails_and_names_both(user: User, where: str) -> None:
    (user.folder / "elsewhere").write_bytes(b"other")
    stated, found = "0" * 64, hashlib.sha256(b"other").hexdigest()
    catalog = f"data {user.folder}/elsewhere site={where} checksum.value={stated}\n"
    done = run(user, catalog, "--retries", "0", "--quiet")
    assert done.status == 1
    said = " ".join(done.text.split())
    assert f"its SHA-256 checksum is {found}, and the replica catalog says {stated}" in said
    assert not (user.folder / "r/outputs/copy").exists()


@pytest.mark.slow
def test_tasks_are_reused_where_the_stated_checksum_is_the_same(user: User) -> None:
    (user.folder / "original").write_bytes(b"of alpha")
    stated = hashlib.sha256(b"of alpha").hexdigest()
    line = f"data {user.folder}/original site=alpha"
    for catalog, said in (
        (f"{line} checksum.value={stated}\n", "would run 0 of 1 tasks"),
        (f"{line} checksum.value={'0' * 64}\n", "would run 1 of 1 tasks"),
        (f"{line}\n", "would run 1 of 1 tasks"),
    ):
        if not (user.folder / "r").exists():
            assert run(user, catalog, "--quiet").status == 0
        done = run(user, catalog, "--dry-run", "--reuse", "r", starts=False)
        assert said in done.text


@pytest.mark.slow
def test_an_engine_that_dies_goes_on_from_the_original(user: User) -> None:
    original = user.folder / "original"
    original.write_bytes(b"of alpha")
    gate = user.folder / "gate"
    os.mkfifo(gate)
    (user.folder / "rc.txt").write_text(f"data {original} site=alpha\n")
    script = f"read line < {gate}; cp data copy"
    document = user.write([Job("one", script, inputs=["data"], outputs=["copy"], collect=["copy"])])
    engine = user.start(
        "run", document, "--sites", user.catalog(SITES), "--input-catalog", "rc.txt",
        "--run-dir", "r", "--quiet",
    )  # fmt: skip
    with Path(gate).open("w") as line:  # opens when the task reads
        engine.kill()
        (user.folder / "rc.txt").unlink()
        line.write("go\n")
    done = user.wfrun("resume", "r", "--quiet")
    assert done.status == 0, done.err
    assert result(user) == b"of alpha"
    assert original.exists()
