"""A job that is ended from outside knows whether its walltime is over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tests.sites.node.jobs.facts import put_facts
from wfrun.sites.node import FOLDER, JOB_PROGRAMS
from wfrun.testing.probe import shell


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A run's directory at a site with one batch."""
    for name in ("attempts", "batches", "bin", "exits", "files"):
        (tmp_path / name).mkdir()
    for name in JOB_PROGRAMS:
        shutil.copy(FOLDER / name, tmp_path / "bin")
    put_facts(tmp_path)
    task = shell(
        "limit-1", 'echo "<$WFRUN_JOB_WALLTIME_S>"; touch "$1"; sleep 600', str(tmp_path / "up")
    )
    (tmp_path / "batches" / "b.jsonl").write_bytes(msgspec.json.encode(task) + b"\n")
    return tmp_path


@pytest.mark.parametrize(("walltime_s", "cause"), [("1", "walltime"), ("3600", "lost")])
def test_a_job_that_is_terminated(directory: Path, walltime_s: str, cause: str) -> None:
    begun_s = time.monotonic()
    job = subprocess.Popen(
        ["sh", str(directory / "bin" / "job.sh"), str(directory), "b", "1"],
        env={**os.environ, "WFRUN_JOB_WALLTIME_S": walltime_s},
        start_new_session=True,
    )
    try:
        while not (directory / "up").exists() or time.monotonic() < begun_s + 1.2:
            assert job.poll() is None
            time.sleep(0.02)
        job.send_signal(signal.SIGTERM)
        job.wait(100)
    finally:
        job.kill()
    outcome = json.loads((directory / "exits" / "limit-1.json").read_text())["outcome"]
    assert outcome["cause"] == cause
    late = "ran longer than the walltime of its job, 1 s; "
    assert outcome["message"].startswith(late) == (cause == "walltime")
    assert (directory / "attempts" / "limit-1.out").read_text() == "<>\n"  # the task's own affair
