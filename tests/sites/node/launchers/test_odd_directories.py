"""Home and scratch directories whose names have characters that shells treat differently."""

from __future__ import annotations

import json
import secrets
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.sites.node.launchers.batch_launcher_rig import Engine
from tests.sites.node.launchers.test_launcher import Talk
from wfrun.sites.batch import common
from wfrun.sites.batch.system import BatchJob
from wfrun.testing.probe import shell

ODD = 'o\'neil "$HOME" `id` $(id)\n;&|*?[x] %A !x'
SCRIPT = "cat in > out; pwd"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / ODD
    (place / "files").mkdir(parents=True)
    (place / "files" / "stored").write_text("input")
    return place


def test_a_direct_launcher_works_there(place: Path) -> None:
    talk = Talk(place)
    key = f"{secrets.token_hex(8)}.1"
    talk.run(shell(key, SCRIPT, inputs={"in": "stored"}, outputs={"out": "kept"}))
    assert talk.until_ended(key)["cause"] == "done"
    assert (place / "files" / "kept").read_text() == "input"
    talk.close()


def test_a_batch_job_and_its_launcher_work_there(place: Path) -> None:
    """By the script that a batch system gets."""
    engine = Engine(place)
    run_id = secrets.token_hex(8)
    try:
        engine.start(f"{run_id}.l")
        engine.accept()
        task = shell(f"{run_id}.1", SCRIPT, inputs={"in": "stored"}, outputs={"out": "kept"})
        engine.run(task)
        assert engine.until_ended(task.key)[0]["cause"] == "done"
        assert (place / "files" / "kept").read_text() == "input"
        again = msgspec.structs.replace(task, key=f"{run_id}.2")
        (place / "batches" / "b.jsonl").write_bytes(msgspec.json.encode(again))
        command = ("/bin/sh", f"{place}/bin/job.sh", str(place), "b")
        script = common.script(
            batch_job(command), "X", f"exec >{shlex.quote(f'{place}/log')} 2>&1\n"
        )
        subprocess.run(["/bin/sh"], input=script.encode(), check=True, timeout=100)
        record = json.loads((place / "exits" / f"{again.key}.json").read_text())
        assert record["outcome"]["cause"] == "done"
        assert (place / "log").exists()
    finally:
        engine.close()


def batch_job(command: tuple[str, ...]) -> BatchJob:
    return BatchJob(
        name="b", count=1, nodes=1, cores=1, memory_bytes=0, gpus=0, walltime_s=None, queue=None,
        account=None, options=(), avoid_nodes=(), log="", output="", command=command,
    )  # fmt: skip
