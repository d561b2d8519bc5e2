"""``job.sh`` on a compute node without Python: it claims the attempt and leaves its record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.sites.node.jobs.facts import put_facts
from wfrun.engine.exchange import AttemptRequest
from wfrun.sites.node import FOLDER
from wfrun.testing.probe import request

ODD = 'o\'neil "$HOME" `id`\n;x'


def run_job(directory: Path, line: bytes, kind: str = "pbs", **variables: str) -> int:
    """Run the job of a batch of one line where there is no Python; returns its exit code."""
    for name in ("attempts", "batches", "exits", "bin"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "jobs/job.sh", directory / "bin")
    put_facts(directory, kind)
    (directory / "bin" / "python.sh").write_text("python=\n")  # none was found
    (directory / "batches" / "b.jsonl").write_bytes(line + b"\n")
    argv = ["/bin/sh", str(directory / "bin" / "job.sh"), str(directory), "b", "1"]
    env = {"PATH": os.defpath, **variables}
    return subprocess.run(argv, env=env, check=False, timeout=100).returncode


def encoded(attempt: AttemptRequest) -> bytes:
    return msgspec.json.encode(attempt)


@pytest.mark.parametrize("place", ["site", ODD])
def test_the_record_is_that_of_the_attempt(place: str, tmp_path: Path) -> None:
    """The task's words and variables may look like the key of a request."""
    attempt = request("r.0.1.1", "echo", '"key": "r.0.2.1"', env={"key": "r.0.3.1", "b": "c"})
    assert run_job(tmp_path / place, encoded(attempt)) == 1
    names = {path.name for path in (tmp_path / place / "attempts").iterdir()}
    assert names == {"r.0.1.1.out"}
    record = json.loads((tmp_path / place / "exits" / "r.0.1.1.json").read_text())
    assert record["key"] == "r.0.1.1"
    assert record["outcome"]["cause"] == "launch-failed"


@pytest.mark.parametrize("line", [b'{"argv":[],"key":"r.1"}', b'{"key":"../../x"}', b"", b'{"key'])
def test_a_damaged_request_claims_nothing(line: bytes, tmp_path: Path) -> None:
    assert run_job(tmp_path / "site", line) == 1
    assert not list((tmp_path / "site" / "attempts").iterdir())
    assert not list((tmp_path / "site" / "exits").iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"site"}


def test_a_claimed_attempt_gets_no_record(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts" / "r.1.out").touch()
    assert run_job(tmp_path, encoded(request("r.1", "true"))) == 1
    assert not list((tmp_path / "exits").iterdir())


def test_the_record_names_the_node_as_the_batch_system_does(tmp_path: Path) -> None:
    """With that name a later job can avoid the node."""
    line = encoded(request("r.1", "true"))
    assert run_job(tmp_path / "slurm", line, "slurm", SLURMD_NODENAME="n7") == 1
    assert run_job(tmp_path / "pbs", line, "pbs", SLURMD_NODENAME="n7") == 1
    hosts = {
        kind: json.loads((tmp_path / kind / "exits" / "r.1.json").read_text())["outcome"]["host"]
        for kind in ("slurm", "pbs")
    }
    assert hosts == {"slurm": "n7", "pbs": os.uname().nodename}
