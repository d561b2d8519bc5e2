"""The commit of outputs, when an attempt that was given up wakes up in the middle of it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.engine.policies.test_policies import chain
from tests.sites.node.jobs.facts import put_facts, sent_programs
from wfrun.engine import events as ev
from wfrun.engine.exchange import AttemptRequest, Outcome
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.files.stored_names import stored_as
from wfrun.runners.run.requests import AttemptRequests
from wfrun.testing.fake_world import FakeWorld

STOPS_AT_THE_RENAME = """
import os, runpy, signal, sys
rename = os.rename
def stop_and_rename(source, target):
    if "/files/" in target:
        os.kill(os.getpid(), signal.SIGSTOP)
    rename(source, target)
os.rename = stop_and_rename
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program for `python -c` that runs another one, which stops itself when it is about to give an
output its name in the store: where a node may be suspended for hours."""


def start_job(directory: Path, request: AttemptRequest, *flags: str) -> subprocess.Popen[bytes]:
    batch = f"b{request.key}"
    put_facts(directory)
    (directory / "batches" / f"{batch}.jsonl").write_bytes(msgspec.json.encode(request) + b"\n")
    program = str(sent_programs() / "job.py")
    words = [sys.executable, "-I", "-S", *flags, program, str(directory), batch, "1"]
    return subprocess.Popen(words, env={"PATH": os.defpath})


def outcome_of(directory: Path, key: str) -> Outcome:
    record = msgspec.json.decode((directory / "exits" / f"{key}.json").read_bytes())
    return msgspec.convert(record["outcome"], Outcome)


def test_an_attempt_that_wakes_up_replaces_nothing(tmp_path: Path) -> None:
    """The node of the first attempt is suspended in the middle of its commit. The engine gives the
    attempt up, the second one succeeds, and the node goes on."""
    for name in ("attempts", "batches", "exits", "files"):
        (tmp_path / name).mkdir()

    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome("lost" if key.endswith(".1") else "done", exit_code=0, sizes=(9,))

    site = SiteSpec("one", 1)
    workflow = chain((0, 1, 9), runtimes_s=[1.0, 1.0])
    settings = ev.Settings("round-robin", retry_delay_s=1.0)
    world = FakeWorld([workflow], Catalog((site,), ()), settings, result=result)
    assert world.run() == "done"
    (w,) = world.core.state.workflows
    requests = AttemptRequests(world.core.state, RunDir(tmp_path / "run"), [site])

    def request(number: int) -> AttemptRequest:
        # A run id of its own: no other launcher of this machine knows the key.
        made = requests.attempt(f"{run_id}.0.0.{number}", 0, 0, 0)
        script = f"echo attempt {number} > {workflow.files[0].name}"
        return msgspec.structs.replace(made, argv=("/bin/sh", "-c", script))

    run_id = secrets.token_hex(8)
    first = start_job(tmp_path, request(1), "-c", STOPS_AT_THE_RENAME)
    try:
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        (tmp_path / "attempts" / f"{request(1).key}.revoked").touch()
        assert start_job(tmp_path, request(2)).wait(100) == 0
        assert outcome_of(tmp_path, request(2).key).cause == "done"
        first.send_signal(18)  # SIGCONT
        assert first.wait(100) == 0
    finally:
        first.kill()
        first.wait()
    stored = tmp_path / "files" / stored_as(w, 0)
    assert stored.read_text() == "attempt 2\n"
