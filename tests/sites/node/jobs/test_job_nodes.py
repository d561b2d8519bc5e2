"""A task on several nodes gets their names from its batch job, for every batch system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sites.node.jobs.facts import put_facts, sent_programs
from wfrun.engine.model import Resources
from wfrun.testing.probe import shell

SAY = 'sort "$WFRUN_NODEFILE"; echo $OMP_NUM_THREADS'
# As Grid Engine 8.1.9 writes it: host, slots, queue, processors.
PE_HOSTFILE = "node7.cluster 2 all.q@node7.cluster UNDEFINED\nnode8.cluster 2 all.q@node8 <NULL>\n"


def run(directory: Path, kind: str, environment: dict[str, str]) -> dict[str, Any]:
    """The outcome of a task of two nodes with two cores each."""
    for name in ("attempts", "batches", "exits", "files"):
        (directory / name).mkdir()
    put_facts(directory, kind)
    asked = Resources(cores=4, nodes=2)
    request = msgspec.structs.replace(shell("a.1", SAY), resources=asked)
    (directory / "batches" / "b.jsonl").write_bytes(msgspec.json.encode(request) + b"\n")
    argv = [sys.executable, "-I", "-S", str(sent_programs() / "job.py"), str(directory), "b", "1"]
    subprocess.run(argv, env={"PATH": os.defpath, **environment}, check=True, timeout=100)
    record = json.loads((directory / "exits" / "a.1.json").read_bytes())
    outcome: dict[str, Any] = record["outcome"]
    return outcome


@pytest.mark.parametrize(
    ("kind", "variable", "content"),
    [
        ("pbs", "PBS_NODEFILE", "node7.cluster\nnode8.cluster\n" * 2),
        ("grid-engine", "PE_HOSTFILE", PE_HOSTFILE),
    ],
)
def test_a_line_for_each_core(kind: str, variable: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(content)
    outcome = run(tmp_path, kind, {variable: str(tmp_path / "hosts")})
    assert outcome["cause"] == "done", outcome
    said = (tmp_path / "attempts" / "a.1.out").read_text().split()
    assert said == ["node7.cluster"] * 2 + ["node8.cluster"] * 2 + ["1"]
    assert not (tmp_path / "attempts" / "a.1").exists()


@pytest.mark.parametrize("content", ["node7\nnode7\n", ""])
def test_a_job_with_too_few_nodes_is_not_used(content: str, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(content)
    outcome = run(tmp_path, "pbs", {"PBS_NODEFILE": str(tmp_path / "hosts")})
    assert outcome["cause"] == "node"
    assert outcome["message"].startswith("it needs 2 nodes, and its job has these: ")
