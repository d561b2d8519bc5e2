"""``wfrun export --format ro-crate``: provenance of a run."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.places import ROOT
from tests.runners.harness import Job, User
from wfrun.engine.model import Catalog, File, SiteSpec, Task, Workflow
from wfrun.engine.settings import Settings
from wfrun.parsers.read import read_workflow
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform

VALIDATOR = ROOT / ".venv-ro-crate" / "bin" / "python"
METADATA = "ro-crate-metadata.json"
HOSTILE = '"}],"@graph":[{"@id":"./\x1b]52;c;Zm9v\x07\x9b<script>alert(1)</script> ../\n'
ONE_SITE = Platform(Catalog((SiteSpec("s", 2),), ()))

Entities = dict[str, dict[str, Any]]


def crate(user: User, run: str, *words: str) -> Entities:
    done = user.ask("export", run, "--format", "ro-crate", *words)
    assert done.status == 0, done.text
    return entities((user.folder / f"{run}-crate" / METADATA).read_text())


def entities(text: str) -> Entities:
    """The entities of a crate by their ids, each of which is there once. All references resolve."""
    assert text.isascii()
    graph = json.loads(text)["@graph"]
    found = {entity["@id"]: entity for entity in graph}
    assert len(found) == len(graph)
    for entity in graph:
        for name, value in entity.items():
            for target in value if isinstance(value, list) else [value]:
                if isinstance(target, dict) and not target["@id"].startswith("https://"):
                    assert target["@id"] in found, (name, target)
    return found


def actions(found: Entities) -> list[dict[str, Any]]:
    return [e for i, e in found.items() if i.startswith("#attempt-")]


def references(value: Any) -> list[str]:
    return [one["@id"] for one in (value if isinstance(value, list) else [value])]


def failed_run(user: User) -> None:
    """A real run: ``a`` reads ``raw`` and is done, ``b`` fails."""
    (user.folder / "raw").write_text("raw\n")
    jobs = [
        Job("a", "cat raw raw > 'x y'", ["raw"], ["x y"], ["x y"]),
        Job("b", "echo bad >&2; exit 3", ["x y"], ["z"], ["z"]),
    ]
    document = user.write(jobs)
    words = ("--retries", "0", "--checksums", "all", "--run-dir", "run")
    assert user.wfrun(document, "--inputs", user.folder, *words).status == 1


def test_a_run_with_its_files_and_failures(user: User) -> None:
    failed_run(user)
    found = crate(user, "run")
    root = found["./"]
    assert "https://w3id.org/ro/wfrun/workflow/0.5" in references(root["conformsTo"])
    assert found["#agent"]["name"] == user.folder.owner()
    assert found["#wfrun"]["softwareVersion"] == version("wfrun")
    done, failed = sorted(actions(found), key=lambda action: action["name"])
    assert done["name"] == "a, attempt 1"
    assert done["description"].startswith("sh -c 'cat raw raw")
    assert done["actionStatus"].endswith("/CompletedActionStatus")
    assert done["startTime"] <= done["endTime"]
    assert failed["actionStatus"].endswith("/FailedActionStatus")
    assert failed["error"].startswith("exit: ")
    assert "bad" in failed["error"]
    assert "result" not in failed
    assert found[done["instrument"]["@id"]]["name"] == "sh"
    (read,), (written,) = references(done["object"]), references(done["result"])
    assert found[read]["name"] == "raw"
    assert references(failed["object"]) == [written]
    path = unquote(written.removeprefix("file://"))
    assert Path(path) == (user.folder / "run/outputs/x y").absolute()
    assert found[written]["contentSize"] == "8"
    assert found[written]["sha256"] == hashlib.sha256(b"raw\nraw\n").hexdigest()
    assert references(found["#run"]["result"]) == [written]
    assert references(found["#run"]["object"]) == [read]
    assert found["#run"]["actionStatus"].endswith("/FailedActionStatus")
    assert "1 of 2 tasks are not done, 1 failed" in found["#run"]["error"]
    workflow = (user.folder / "run-crate/workflow.json").read_bytes()
    assert found["workflow.json"]["sha256"] == hashlib.sha256(workflow).hexdigest()
    assert [t.id for t in read_workflow(user.folder / "run-crate/workflow.json").tasks] == [
        "a",
        "b",
    ]
    assert crate(user, "run") == found  # a crate is replaced, and is the same
    done_zip = user.ask("export", "run", "--format", "ro-crate", "-o", "run.zip")
    assert done_zip.status == 0, done_zip.text
    with zipfile.ZipFile(user.folder / "run.zip") as archive:
        assert sorted(archive.namelist()) == [METADATA, "workflow.json"]
        assert entities(archive.read(METADATA).decode()) == found


def hostile_run(folder: Path) -> None:
    """A simulated run of two workflows with hostile names."""
    files = [File(HOSTILE, 5, url=f"https://x/{HOSTILE}"), File("out", 6, producer=0, collect=True)]
    task = Task("t", HOSTILE, HOSTILE, (HOSTILE,), (0,), (1,), runtime_s=2.0)
    workflow = Workflow(HOSTILE, HOSTILE, [task], files, [()])
    simulate_into(folder / "sim", [workflow, workflow], ONE_SITE, Settings("heft"))


def test_names_are_text_in_the_crate_of_each_workflow(user: User) -> None:
    hostile_run(user.folder)
    done = user.ask("export", "sim", "--format", "ro-crate")
    assert done.status == 0, done.text
    folders = sorted((user.folder / "sim-crate").iterdir())
    assert len(folders) == 2
    for folder in folders:
        found = entities((folder / METADATA).read_text())
        (action,) = actions(found)
        (read,) = references(action["object"])
        assert read.startswith("https://x/%22%7D%5D,")
        assert not set(read) & set(' <>"\n\x1b')
        assert found[read]["name"] == HOSTILE


def test_urls_keep_their_secrets(user: User) -> None:
    """Presigned ones have a signature in their query, and crates are published."""
    url = "https://me@bucket.example.org:8443/a%20b/f?X-Amz-Signature=5ec2e7#part"
    files = [File("f", 5, url=url), File("out", 6, producer=0)]
    task = Task("t", "t", "true", (), (0,), (1,), runtime_s=2.0)
    workflow = Workflow("w", "w", [task], files, [()])
    simulate_into(user.folder / "sim", [workflow], ONE_SITE, Settings("heft"))
    done = user.ask("export", "sim", "--format", "ro-crate")
    assert done.status == 0, done.text
    text = "".join(path.read_text() for path in (user.folder / "sim-crate").iterdir())
    assert "https://bucket.example.org:8443/a%20b/f" in text
    assert "5ec2e7" not in text
    assert "me@" not in text


def test_a_folder_that_is_something_else_stays(user: User) -> None:
    hostile_run(user.folder)
    mine = user.folder / "mine"
    mine.mkdir()
    (mine / "1-x").mkdir()
    (user.folder / "one").mkdir()
    simulate_into(user.folder / "single",
                  [Workflow("w", "w", [Task("t", "k", "k", runtime_s=1.0)], [], [()])],
                  ONE_SITE, Settings("heft"))  # fmt: skip
    (mine / "notes").write_text("mine")
    for output, message in (
        ("mine", "has other files and is no crate"),
        ("absent/x", "cannot be written"),
        ("absent/x.zip", "cannot be written"),
        ("mine/notes", "cannot be written"),
    ):
        done = user.ask("export", "single", "--format", "ro-crate", "-o", output)
        assert done.status in (2, 3), done.text
        assert message in done.err
    assert {path.name for path in mine.iterdir()} == {"1-x", "notes"}


def validate(*crates: Path) -> None:
    """Check crates with the validator of the RO-Crate community."""
    command = [VALIDATOR, Path(__file__).with_name("check_ro_crate.py"), *crates]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not VALIDATOR.exists(), reason="needs `make ro-crate`")
def test_crates_are_valid(user: User) -> None:
    failed_run(user)
    hostile_run(user.folder)
    crate(user, "run")
    assert user.ask("export", "run", "--format", "ro-crate", "-o", "run.zip").status == 0
    assert user.ask("export", "sim", "--format", "ro-crate").status == 0
    folder = user.folder / "run-crate"
    validate(folder, user.folder / "run.zip", *(user.folder / "sim-crate").iterdir())
    (folder / "workflow.json").unlink()
    with pytest.raises(AssertionError, match="not valid"):
        validate(folder)
