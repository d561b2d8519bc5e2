"""What a task at a cluster prints is read there, also while it runs and whatever its size."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import wfrun
from tests.runners.harness import LONG_S, WFRUN, Job, User, wait_until
from tests.testbed import faults
from tests.testbed.testbed import Testbed
from wfrun.engine.events import Event, SiteCounted
from wfrun.engine.model import Task, Workflow
from wfrun.runners.inspect.logs.logs import print_logs
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state


def test_logs_of_a_task_that_failed_at_two_clusters(
    testbed: Testbed, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sites = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(yaml.safe_dump({"sites": {n: sites[n] for n in ("alpha", "delta")}}))
    words = "echo $WFRUN_ATTEMPT says hello; echo but fails >&2; exit 3"
    task = Task(id="A", name="sh", executable="sh", arguments=("-c", words))
    told: list[Event] = []
    result = wfrun.run(
        Workflow("fails", "fails", [task], [], [()]),
        sites=catalog,
        policy="round-robin",
        run_dir=tmp_path / "run",
        retries=1,
        retry_delay_s=0,
        observer=told.extend,
    )
    assert result.failed == 1
    counted = {e.site: e for e in told if isinstance(e, SiteCounted)}
    assert counted[0].commands["sbatch"] == 2  # the first asks whether the job would be accepted
    assert [counted[site].connections for site in (0, 1)] == [1, 1]

    print_logs(RunDir(tmp_path / "run"), "A")
    lines = capfd.readouterr().out.splitlines()
    first, second = (line.split()[0] for line in lines if line.endswith("says hello"))
    assert first.endswith(".0.0.1")
    assert second.endswith(".0.0.2")
    assert lines.count("but fails") == 2

    faults.stop(testbed, "delta.sshd")
    print_logs(RunDir(tmp_path / "run"), "A")
    said = capfd.readouterr().out
    assert f"{first} says hello" in said
    assert f"{second} says hello" not in said
    assert "delta cannot be reached: Connection refused" in said
    directory = read_state(RunDir(tmp_path / "run")).site_directory
    assert f"delta:~/scratch/{directory}/attempts/{second}.out" in said
    assert "but fails" in said.partition(f"{second} at delta")[2]  # as its record has it


SITES: dict[str, tuple[str, dict[str, Any]]] = {
    "a cluster": ("alpha", {"poll_min": 0.5, "poll_max": 5}),
    "launchers": ("alpha", {"dispatch": "launchers", "launchers": {"cores": 2}}),
    "a host": ("delta", {}),
}


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    somebody = User(tmp_path, LONG_S)
    yield somebody
    somebody.close()


def catalog_of(testbed: Testbed, user: User, kind: str) -> Path:
    name, more = SITES[kind]
    sites = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    return user.catalog(yaml.safe_dump({"sites": {name: {**sites[name], **more}}}))


@pytest.mark.parametrize("kind", SITES)
def test_following_a_task(testbed: Testbed, user: User, kind: str) -> None:
    # The users of the sites may look there.
    go = testbed.layout.directory / f"go-{secrets.token_hex(4)}"
    script = f"echo one; echo err >&2; while [ ! -e {go} ]; do sleep 0.1; done; echo two; exit 3"
    words = ("--sites", catalog_of(testbed, user, kind), "--retries", "0", "--run-dir", "run")
    engine = user.start(user.write([Job("a", script)]), *words)
    assert wait_until(lambda: "tasks done" in user.wfrun("status", "run").out, LONG_S), engine.told
    follower = user.start("logs", "run", "a", "--follow")
    assert wait_until(lambda: "one\n" in follower.out.read_text(), LONG_S), follower.told
    try:
        go.touch()
        done = follower.done()
    finally:
        go.unlink(missing_ok=True)
    assert done.status == 0, done.text
    lines = [line for line in done.out.splitlines() if line[:3] not in ("---", "tas")]
    assert sorted(lines) == ["err", "one", "two"]
    assert f"at {SITES[kind][0]} (exit, exit code 3" in done.out.splitlines()[-1]
    assert engine.done().status == 1


MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], "wb"))
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""
"""Runs a command; prints its exit status and its peak memory in MB."""


def test_a_large_log_of_a_host_is_complete(testbed: Testbed, user: User) -> None:
    """Larger than a message of the agent; memory does not depend on the size."""
    size = 300 << 20
    document = user.write([Job("a", f"truncate -s {size} /proc/self/fd/1; echo the end >&2")])
    words = ("--sites", catalog_of(testbed, user, "a host"), "--run-dir", "run")
    assert user.wfrun(document, *words).status == 0
    printed = user.folder / "printed"
    argv = [sys.executable, "-c", MEASURED, str(printed), str(WFRUN), "logs", "run", "a"]
    done = subprocess.run(argv, check=True, cwd=user.folder, capture_output=True, timeout=110)
    status, peak_mb = map(int, done.stdout.split())
    assert status == 0
    assert peak_mb < 150
    assert size < os.stat(printed).st_size < size + 500
